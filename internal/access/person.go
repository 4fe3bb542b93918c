package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/note"
)

// Bounds of the notes about people who sign in at issuers, and about keys and tokens that begin sessions.
const (
	// MaxPeople is how many people may sign in within SessionTime, and how many keys and tokens may sign out.
	MaxPeople = 10_000
	// MaxLogins is how many times one may do so within LoginTime.
	MaxLogins  = 64
	maxEnded   = 64 // sessions of a person, key or token that are ended one by one; more of them end all
	maxListed  = 64 // sessions of a person that are listed: the newest
	maxCleaned = 50 // notes that one login deletes
)

// person is the note of a person who has signed in at an issuer, or of a key or token whose session was
// ended: the attempts and sessions that must not be used again. It is deleted when none of them could be.
type person struct {
	Principal string   `json:"principal,omitempty"` // its id
	Name      string   `json:"name,omitempty"`
	Open      []opened `json:"open,omitempty"` // sessions that may go on, oldest first

	Used   []mark    `json:"used,omitempty"`  // attempts that were finished
	Ended  []mark    `json:"ended,omitempty"` // sessions that were ended
	Before time.Time `json:"before,omitzero"` // sessions that began until then have ended
	Until  time.Time `json:"until"`           // when all of this can be deleted

	revision uint64
}

// opened is a session that was begun.
type opened struct {
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	Until time.Time `json:"until"`
}

// mark is the id of something that ends by itself at a time.
type mark struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
}

// isLoginEnded reports whether the session of a login was ended.
func (p *person) isLoginEnded(l *Login) bool {
	return p != nil && (!l.Began.After(p.Before) || slices.ContainsFunc(p.Ended,
		func(m mark) bool { return m.ID == l.Session }))
}

// pruneEnded removes the marks and sessions whose time is over.
func (p *person) pruneEnded(now time.Time) {
	over := func(m mark) bool { return !now.Before(m.Until) }
	p.Used, p.Ended = slices.DeleteFunc(p.Used, over), slices.DeleteFunc(p.Ended, over)
	p.Open = p.openSessions(now)
}

// personOf returns the name of the note of a person.
func personOf(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return hex.EncodeToString(sum[:16])
}

// personNote returns the name of the note about a login, or about the key or token that began a session.
func (l *Login) personNote() string {
	if l.Issuer == "" {
		return keyNote + l.Subject
	}
	return personOf(l.Issuer, l.Subject)
}

// keyNote begins the names of notes about keys and tokens. They have nothing but the sessions that were
// ended.
const keyNote = "key-"

// request is a request of a session.
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
		delete(s.known, n.Name)
		return
	}
	s.known[n.Name] = p
	for r := range s.requests[n.Name] {
		if p.isLoginEnded(r.login) {
			r.end(errEnded)
		}
	}
}

// Bound returns a context that ends with ctx, or when a session is ended.
func (s *Sessions) Bound(ctx context.Context, l *Login) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	name, r := l.personNote(), &request{l, end}
	s.mu.Lock()
	if s.requests[name] == nil {
		s.requests[name] = map[*request]struct{}{}
	}
	s.requests[name][r] = struct{}{}
	if s.known[name].isLoginEnded(l) {
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

// openSessions returns the sessions that go on at a time.
func (p *person) openSessions(now time.Time) []opened {
	return slices.DeleteFunc(slices.Clone(p.Open), func(o opened) bool {
		return !now.Before(o.Until) || p.isLoginEnded(&Login{Session: o.ID, Began: o.Began})
	})
}

// recordLogin notes that an attempt was finished by a person, whose session begins. An attempt that was
// finished before is refused, by every node.
func (s *Sessions) recordLogin(ctx context.Context, l *Login, by *Principal, state string, now time.Time) error {
	sum := sha256.Sum256([]byte(state))
	id := hex.EncodeToString(sum[:8])
	return s.editPerson(ctx, l.personNote(), now, func(p *person) error {
		switch {
		case slices.ContainsFunc(p.Used, func(m mark) bool { return m.ID == id }):
			return Unauthenticated(ReasonUnknown, "this login was finished before; sign in again")
		case len(p.Used) >= MaxLogins:
			return &rouse.RetryAfter{Err: fmt.Errorf("%d logins of the same person within %s: %w", MaxLogins, LoginTime,
				rouse.ErrOverloaded), After: time.Minute}
		}
		p.Used = append(p.Used, mark{id, now.Add(LoginTime)})
		p.Principal, p.Name = by.ID, rouse.Shorten(by.Name, maxKeyName)
		p.Open = append(p.Open, opened{l.Session, l.Began, l.Expires})
		p.Open = p.Open[max(0, len(p.Open)-maxListed):]
		return nil
	})
}

// End ends a session: on this node at once, on the others within 5 s.
func (s *Sessions) End(ctx context.Context, l *Login) error {
	now := time.Now()
	return s.editPerson(ctx, l.personNote(), now, func(p *person) error {
		if len(p.Ended) >= maxEnded {
			p.Before, p.Ended = now, nil
			return nil
		}
		p.Ended = append(p.Ended, mark{l.Session, l.Expires})
		return nil
	})
}

// Person is a person who has signed in at an issuer, and has sessions of the console.
type Person struct {
	Principal string // its id
	Name      string
	Sessions  []PersonSession // the newest, oldest first
}

// PersonSession is a session of a person.
type PersonSession struct{ Began, Expires time.Time }

// People returns the people with sessions whose principals' ids or names begin with prefix, in the order of
// the ids, after an id and at most limit. next is where the next page begins, "" at the end.
func (s *Sessions) People(ctx context.Context, prefix, after string,
	limit int) (people []Person, next string, err error) {
	if err := s.control.Require(ctx, SessionsList, "", "", nil); err != nil {
		return nil, "", err
	}
	now := time.Now()
	s.mu.RLock()
	for _, p := range s.known {
		open := slices.DeleteFunc(p.openSessions(now), func(o opened) bool { return o.Began.Before(s.since) })
		if p.Principal <= after || len(open) == 0 || !strings.HasPrefix(p.Principal, prefix) &&
			!strings.HasPrefix(p.Name, prefix) {
			continue
		}
		one := Person{Principal: p.Principal, Name: p.Name}
		for _, o := range open {
			one.Sessions = append(one.Sessions, PersonSession{o.Began, o.Until})
		}
		people = append(people, one)
	}
	s.mu.RUnlock()
	slices.SortFunc(people, func(a, b Person) int { return cmp.Compare(a.Principal, b.Principal) })
	if len(people) > limit {
		return people[:limit], people[limit-1].Principal, nil
	}
	return people, "", nil
}

// EndAll ends all sessions of a person: on this node at once, on the others within 5 s. The person may sign
// in again, if the issuer allows it.
func (s *Sessions) EndAll(ctx context.Context, principal string) error {
	if err := s.control.Require(ctx, SessionsEnd, "", "", nil); err != nil {
		return err
	}
	name := s.noteNameOf(principal)
	if name == "" {
		return fmt.Errorf("the sessions of %q: %w", rouse.Shorten(principal, 128), rouse.ErrNotFound)
	}
	now := time.Now()
	err := s.editPerson(context.WithoutCancel(ctx), name, now, func(p *person) error { // it may end its own session
		p.Before = now
		for _, o := range p.Open { // also those of nodes whose clocks are ahead
			if o.Began.After(p.Before) {
				p.Before = o.Began
			}
		}
		p.Ended, p.Open = nil, nil
		return nil
	})
	if err == nil {
		audit.Touched(ctx, "", principal, rouse.AnyRevision, rouse.NoRow)
	}
	return err
}

// noteNameOf returns the name of the note of a principal; empty if there is none.
func (s *Sessions) noteNameOf(principal string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, p := range s.known {
		if p.Principal == principal && principal != "" {
			return name
		}
	}
	return ""
}

// editPerson changes the note of a person.
func (s *Sessions) editPerson(ctx context.Context, name string, now time.Time, change func(p *person) error) error {
	for try := 0; ; try++ {
		notes, err := s.people.Get(ctx, name)
		if err != nil {
			return rouse.Unavailable(err)
		}
		p, revision := &person{}, rouse.NoRow
		if notes[0].Revision != 0 {
			revision = notes[0].Revision
			if err := notes[0].Read(p); err != nil {
				return err
			}
		} else if s.countSameKind(name) >= MaxPeople {
			return &rouse.RetryAfter{Err: fmt.Errorf("%d people have signed in, or keys out, within %s, which is the limit: %w",
				MaxPeople, SessionTime, rouse.ErrOverloaded), After: time.Minute}
		}
		p.pruneEnded(now)
		if err := change(p); err != nil {
			return err
		}
		p.Until = now.Add(SessionTime + time.Minute) // no session of now lasts longer
		err = s.people.Write(ctx, Change{name, p, revision})
		if err == nil {
			s.deleteExpired(now)
		}
		if err == nil || !errors.Is(err, rouse.ErrConflict) || try == 3 {
			return err
		}
	}
}

// countSameKind returns how many notes there are of the kind of one: about people, or about keys and tokens.
// So neither keeps out the other.
func (s *Sessions) countSameKind(name string) (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for other := range s.known {
		if strings.HasPrefix(other, keyNote) == strings.HasPrefix(name, keyNote) {
			n++
		}
	}
	return n
}

// deleteExpired deletes notes of people who have no session any more. Another node may do the same: errors do
// not matter.
func (s *Sessions) deleteExpired(now time.Time) {
	var old []Change
	s.mu.RLock()
	for name, p := range s.known {
		if !now.Before(p.Until) && len(old) < maxCleaned {
			old = append(old, Change{name, nil, p.revision})
		}
	}
	s.mu.RUnlock()
	if len(old) > 0 {
		_ = s.people.Write(context.Background(), old...) // it has a limit of time, and is no part of the call
	}
}
