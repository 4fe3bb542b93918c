package mem

import (
	"context"
	"strconv"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// attendance is a member that attends until it is closed.
type attendance struct {
	store  *Store
	member string
	server string
	heard  chan struct{}
	done   chan struct{}
	once   sync.Once
}

// Attend adds the member.
func (s *Store) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	a := &attendance{store: s, member: member, server: "run " + strconv.Itoa(s.server), heard: make(chan struct{}, 1),
		done: make(chan struct{})}
	s.members[a] = struct{}{}
	return a, nil
}

// NextServer simulates a restart of the server, for tests: members that attend from now on attend another run
// of it.
func (s *Store) NextServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server++
}

// Absent returns the members that do not attend.
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

// Close ends the attendance.
func (a *attendance) Close() {
	a.once.Do(func() {
		a.store.mu.Lock()
		defer a.store.mu.Unlock()
		delete(a.store.members, a)
		close(a.done)
	})
}
