package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// Bounds of what is kept about people who sign in at issuers.
const (
	// MaxPeople is how many people may sign in within SessionTime.
	MaxPeople = 10_000
	// MaxLogins is how many times one may do so within LoginTime.
	MaxLogins  = 64
	maxEnded   = 64 // sessions of a person that are ended one by one; more of them end all
	maxCleaned = 50 // notes that one login deletes
)

// person is the note of a person who has signed in at an issuer: what must not be used again. It is deleted
// when there is nothing left that could be.
type person struct {
	Used   []mark    `json:"used,omitempty"`  // attempts that were finished
	Ended  []mark    `json:"ended,omitempty"` // sessions that were ended
	Before time.Time `json:"before,omitzero"` // sessions that began until then have ended
	Until  time.Time `json:"until"`           // when all of this can be deleted

	revision uint64
}

// mark is the id of something that ends by itself at a time.
type mark struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
}

// ended reports whether the session of a login was ended.
func (p *person) ended(l *Login) bool {
	return p != nil && (!l.Began.After(p.Before) || slices.ContainsFunc(p.Ended, func(m mark) bool { return m.ID == l.Session }))
}

// prune removes what has ended by itself.
func (p *person) prune(now time.Time) {
	over := func(m mark) bool { return !now.Before(m.Until) }
	p.Used, p.Ended = slices.DeleteFunc(p.Used, over), slices.DeleteFunc(p.Ended, over)
}

// personOf returns the name of the note of a person.
func personOf(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return hex.EncodeToString(sum[:16])
}

func (l *Login) person() string { return personOf(l.Issuer, l.Subject) }

// request is a request of a session that was begun by a login.
type request struct {
	login *Login
	end   context.CancelCauseFunc
}

// takePerson takes the note of a person, and ends the requests of sessions that were ended.
func (s *Sessions) takePerson(n note.Note) {
	p := &person{revision: n.Revision}
	if err := n.Read(p); err != nil {
		s.log.Error("what is kept about a person's logins cannot be read: all sessions of the person have ended", "err", err)
		p.Before = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Revision == 0 {
		delete(s.people, n.Name)
		return
	}
	s.people[n.Name] = p
	for r := range s.requests[n.Name] {
		if p.ended(r.login) {
			r.end(errEnded)
		}
	}
}

// Bound returns a context that ends with ctx, or when the session of a login is ended.
func (s *Sessions) Bound(ctx context.Context, l *Login) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	name, r := l.person(), &request{l, end}
	s.mu.Lock()
	if s.requests[name] == nil {
		s.requests[name] = map[*request]struct{}{}
	}
	s.requests[name][r] = struct{}{}
	if s.people[name].ended(l) {
		end(errEnded)
	}
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		if delete(s.requests[name], r); len(s.requests[name]) == 0 {
			delete(s.requests, name)
		}
		s.mu.Unlock()
		end(nil)
	}
}

// use notes that an attempt was finished by a person. An attempt that was finished before is refused, by
// whatever node.
func (s *Sessions) use(ctx context.Context, l *Login, state string, now time.Time) error {
	sum := sha256.Sum256([]byte(state))
	id := hex.EncodeToString(sum[:8])
	return s.edit(ctx, l.person(), now, func(p *person) error {
		switch {
		case slices.ContainsFunc(p.Used, func(m mark) bool { return m.ID == id }):
			return Unauthenticated(ReasonUnknown, "this login was finished before; sign in again")
		case len(p.Used) >= MaxLogins:
			return &rouse.RetryAfter{Err: fmt.Errorf("%d logins of the same person within %s: %w", MaxLogins, LoginTime, rouse.ErrOverloaded), After: time.Minute}
		}
		p.Used = append(p.Used, mark{id, now.Add(LoginTime)})
		return nil
	})
}

// End ends the session of a login: on this node at once, on the others within 5 s.
func (s *Sessions) End(ctx context.Context, l *Login) error {
	now := time.Now()
	return s.edit(ctx, l.person(), now, func(p *person) error {
		if len(p.Ended) >= maxEnded {
			p.Before, p.Ended = now, nil
			return nil
		}
		p.Ended = append(p.Ended, mark{l.Session, l.Expires})
		return nil
	})
}

// edit changes the note of a person.
func (s *Sessions) edit(ctx context.Context, name string, now time.Time, change func(p *person) error) error {
	for try := 0; ; try++ {
		notes, err := s.kinds.people.Get(ctx, name)
		if err != nil {
			return rouse.Unavailable(err)
		}
		p, revision := &person{}, rouse.NoRow
		if notes[0].Revision != 0 {
			revision = notes[0].Revision
			if err := notes[0].Read(p); err != nil {
				return err
			}
		} else if s.count() >= MaxPeople {
			return &rouse.RetryAfter{Err: fmt.Errorf("%d people have signed in within %s, which is the limit: %w", MaxPeople, SessionTime, rouse.ErrOverloaded), After: time.Minute}
		}
		p.prune(now)
		if err := change(p); err != nil {
			return err
		}
		p.Until = now.Add(SessionTime + time.Minute) // no session of now lasts longer
		err = s.kinds.people.Write(ctx, Change{name, p, revision})
		if err == nil {
			s.clean(now)
		}
		if err == nil || !errors.Is(err, rouse.ErrConflict) || try == 3 {
			return err
		}
	}
}

func (s *Sessions) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.people)
}

// clean deletes notes of people who have no session any more. Another node may do the same: errors do not
// matter.
func (s *Sessions) clean(now time.Time) {
	var old []Change
	s.mu.RLock()
	for name, p := range s.people {
		if !now.Before(p.Until) && len(old) < maxCleaned {
			old = append(old, Change{name, nil, p.revision})
		}
	}
	s.mu.RUnlock()
	if len(old) > 0 {
		_ = s.kinds.people.Write(context.Background(), old...) // it has a limit of time, and is no part of the call
	}
}
