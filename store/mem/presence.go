package mem

import (
	"context"
	"strconv"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// attendance is a member that is there until it is closed.
type attendance struct {
	store  *Store
	member string
	server string
	heard  chan struct{}
	done   chan struct{}
	once   sync.Once
}

// Attend notes that the member is there.
func (s *Store) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	a := &attendance{store: s, member: member, server: "run " + strconv.Itoa(s.server), heard: make(chan struct{}, 1), done: make(chan struct{})}
	s.members[a] = struct{}{}
	return a, nil
}

// NextServer makes members that come from now on attend another run of the server, as after a restart: for tests.
func (s *Store) NextServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server++
}

// Absent returns which of the members are not there.
func (a *attendance) Absent(ctx context.Context, members []string) (out []string, err error) {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	select {
	case <-a.done:
		return nil, rouse.ErrClosed
	default:
	}
	there := map[string]bool{}
	for m := range a.store.members {
		there[m.member] = true
	}
	for _, m := range members {
		if !there[m] {
			out = append(out, m)
		}
	}
	return out, ctx.Err()
}

// Announce signals all members.
func (s *Store) Announce(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.members {
		notify.Send(m.heard)
	}
	return ctx.Err()
}

func (a *attendance) Server() string         { return a.server }
func (a *attendance) Heard() <-chan struct{} { return a.heard }
func (a *attendance) Done() <-chan struct{}  { return a.done }

// Close ends it.
func (a *attendance) Close() {
	a.once.Do(func() {
		a.store.mu.Lock()
		defer a.store.mu.Unlock()
		delete(a.store.members, a)
		close(a.done)
	})
}
