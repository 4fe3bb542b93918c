package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// attendAs connects as a member to one of the stores of the bench.
func (m *sharedBench) attendAs(s rouse.Shared, member string) rouse.Attendance {
	m.Helper()
	p, ok := s.(rouse.Presence)
	if !ok {
		m.Skip("the store is no rouse.Presence")
	}
	a, err := p.Attend(m.Context(), member)
	if errors.Is(err, errors.ErrUnsupported) {
		m.Skip(err)
	}
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(a.Close)
	return a
}

// waitForAbsent waits until exactly the wanted members, of those that are asked for, are absent.
func (m *sharedBench) waitForAbsent(a rouse.Attendance, of []string, want ...string) {
	m.Helper()
	var got []string
	var err error
	for limit := time.Now().Add(poll.Patience); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if got, err = a.Absent(m.Context(), of); err != nil {
			m.Fatal(err)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	m.Errorf("of %v, %v are absent; want %v", of, got, want)
}

// waitForAnnouncement waits until a member receives an announcement.
func (m *sharedBench) waitForAnnouncement(who string, a rouse.Attendance) {
	m.Helper()
	select {
	case <-a.Heard():
	case <-time.After(poll.Patience):
		m.Errorf("%s has heard nothing", who)
	}
}

// presences contains the cases about Presence, for stores that implement it.
var presences = []sharedSentence{
	{"a member is there while its connection is, for every member alike", func(m *sharedBench) {
		a, b := m.attendAs(m.shared, "a#1"), m.attendAs(m.otherNode(), "b#1")
		if a.Server() == "" || a.Server() != b.Server() {
			m.Errorf("one server has run %q and %q", a.Server(), b.Server())
		}
		all := []string{"a#1", "b#1", "b#2", "it's \\ odd\x01"}
		m.waitForAbsent(a, all, "b#2", "it's \\ odd\x01")
		m.waitForAbsent(b, all, "b#2", "it's \\ odd\x01")
		m.waitForAbsent(a, nil)
		b.Close()
		m.waitForAbsent(a, all, "b#1", "b#2", "it's \\ odd\x01")
		again := m.attendAs(m.otherNode(), "b#1")
		m.waitForAbsent(a, all, "b#2", "it's \\ odd\x01")
		m.waitForAbsent(again, []string{"a#1"})
	}},
	{"looking for members at the same time makes none of them absent", func(m *sharedBench) {
		a, b := m.attendAs(m.shared, "a#1"), m.attendAs(m.otherNode(), "b#1")
		done := make(chan struct{})
		ask := func(x rouse.Attendance) {
			defer func() { done <- struct{}{} }()
			for range 200 {
				if got, err := x.Absent(m.Context(), []string{"a#1", "b#1", "c#1"}); err != nil || len(got) != 1 {
					m.Errorf("absent: %v %v", got, err)
					return
				}
			}
		}
		go ask(a)
		go ask(a)
		go ask(b)
		for range 3 {
			<-done
		}
	}},
	{"every member hears an announcement", func(m *sharedBench) {
		a, b := m.attendAs(m.shared, "a#1"), m.attendAs(m.otherNode(), "b#1")
		for range 3 {
			for _, from := range []rouse.Shared{m.shared, m.otherNode()} {
				if err := from.(rouse.Presence).Announce(m.Context()); err != nil {
					m.Fatal(err)
				}
				m.waitForAnnouncement("a", a)
				m.waitForAnnouncement("b", b)
			}
		}
	}},
	{"a connection that is closed is done, and answers nothing", func(m *sharedBench) {
		a := m.attendAs(m.shared, "a#1")
		select {
		case <-a.Done():
			m.Error("it is done")
		default:
		}
		a.Close()
		a.Close()
		<-a.Done()
		if got, err := a.Absent(m.Context(), []string{"b#1"}); err == nil {
			m.Errorf("%v are absent for one that is not there itself", got)
		}
		ended, cancel := context.WithCancel(m.Context())
		cancel()
		if b, err := m.shared.(rouse.Presence).Attend(ended, "b#1"); err == nil {
			b.Close()
			m.Error("attends though its context has ended")
		}
	}},
}
