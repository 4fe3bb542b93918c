package reminder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// execution is an attempt at the execution f of a reminder.
func execution(f string, attempt uint32) *reminderv1.ExecuteReminderRequest {
	return &reminderv1.ExecuteReminderRequest{Reminder: &reminderv1.Reminder{ReminderName: "n"}, ReminderId: "reminder||B||1||" + vector, FireId: f,
		Attempt: attempt, Token: uint64(attempt), Actor: &reminderv1.Actor{ActorType: "Cat", ActorId: "7"}}
}

// began is a handler that reports the executions that it has started, and ends on request.
type began struct {
	begun chan Execution
	end   chan error
}

func newBegan() began { return began{make(chan Execution, 100), make(chan error, 100)} }

func (b began) handle(ctx context.Context, e Execution) error {
	b.begun <- e
	select {
	case err := <-b.end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Each execution is answered with its fire id and attempt, as it ended.
func TestExecutionsAreAnswered(t *testing.T) {
	h := open(t, 1)
	h.client(h.inns[0].address, func(o *Options) {
		o.Handle = func(_ context.Context, e Execution) error {
			switch e.FireID {
			case "bad":
				return errors.New("no \xff money")
			case "worse":
				panic("help")
			}
			if e.Reminder.Name != "n" || e.Reminder.Actor != (Actor{"Cat", "7"}) || e.Token != uint64(e.Attempt) {
				return fmt.Errorf("it came as %+v", e)
			}
			return nil
		}
	})
	s := h.inns[0].stream()
	for n, x := range []struct {
		fire, detail string
		success      bool
	}{{"good", "", true}, {"bad", "no \uFFFD money", false}, {"worse", "the handler panicked: help", false}} {
		s.execute(execution(x.fire, 3))
		a := h.answered(s, n+1)[n]
		if a.FireId != x.fire || a.Attempt != 3 || a.Success != x.success || a.Detail != x.detail || !strings.HasPrefix(a.ReminderId, "reminder||") {
			t.Errorf("%s was answered %v", x.fire, a)
		}
	}
}

// An attempt that arrives on any stream while an earlier one is running or queued is no second execution: the
// outcome of the first one answers it. An attempt of a finished execution is answered immediately, an
// outdated attempt not at all.
func TestExecutionInHandIsNotBegunTwice(t *testing.T) {
	h := open(t, 2)
	b := newBegan()
	c := h.client(h.inns[0].address, func(o *Options) { o.Handle = b.handle })
	h.sees(c, 2)
	s := h.inns[0].stream()
	s.execute(execution("f", 2))
	<-b.begun
	s.cut(errBad) // and it goes to another instance
	other := h.inns[1].stream()
	other.execute(execution("f", 3))
	other.execute(execution("f", 1)) // an echo
	other.execute(execution("g", 1)) // which shows that the others were taken
	<-b.begun
	b.end <- nil
	b.end <- nil
	for _, a := range h.answered(other, 2) {
		if !a.Success || a.FireId == "f" && a.Attempt != 3 {
			t.Errorf("answered %v", a)
		}
	}
	back := h.inns[0].stream()
	back.execute(execution("f", 4))
	if a := h.answered(back, 1)[0]; !a.Success || a.Attempt != 4 {
		t.Errorf("answered %v", a)
	}
	if len(b.begun) != 0 {
		t.Error("an execution was begun twice")
	}
}

// A failed execution is started again.
func TestFailureIsNotRemembered(t *testing.T) {
	h := open(t, 1)
	b := newBegan()
	h.client(h.inns[0].address, func(o *Options) { o.Handle, o.Remember = b.handle, 1 })
	s := h.inns[0].stream()
	b.end <- errBad
	for n := range 2 {
		s.execute(execution("f", uint32(n+1)))
		<-b.begun
		h.answered(s, n+1)
		b.end <- nil
	}
	s.execute(execution("g", 1)) // which is the only one that is remembered then
	<-b.begun
	h.answered(s, 3)
	b.end <- nil
	s.execute(execution("f", 3))
	<-b.begun
	h.answered(s, 4)
}

// The numbers of running handlers and of executions of a stream are bounded; further executions fail.
func TestWhatIsInHandIsBounded(t *testing.T) {
	h := open(t, 1)
	b := newBegan()
	var running, most atomic.Int32
	h.client(h.inns[0].address, func(o *Options) {
		o.Concurrency, o.InHand = 2, 5
		o.Handle = func(ctx context.Context, e Execution) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			return b.handle(ctx, e)
		}
	})
	s := h.inns[0].stream()
	for n := range 6 {
		s.execute(execution(fmt.Sprint("f", n), 1))
	}
	if a := h.answered(s, 1)[0]; a.FireId != "f5" || a.Success || !strings.Contains(a.Detail, "5 executions in hand") {
		t.Errorf("answered %v", a)
	}
	<-b.begun // else the first may end before another begins
	<-b.begun
	for range 5 {
		b.end <- nil
	}
	h.answered(s, 6)
	if most.Load() != 2 {
		t.Errorf("%d handlers ran at a time, want 2", most.Load())
	}
}

// Close lets running handlers end, reports their outcomes, begins nothing more, and ends the stream in order.
func TestCloseWaits(t *testing.T) {
	h := open(t, 1)
	b := newBegan()
	c := h.client(h.inns[0].address, func(o *Options) { o.Handle, o.Concurrency, o.InHand = b.handle, 1, 5 })
	s := h.inns[0].stream()
	s.execute(execution("runs", 1))
	<-b.begun
	s.execute(execution("waits", 1))
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	for c.hand.mayBegin() {
		time.Sleep(time.Millisecond)
	}
	b.end <- nil
	<-closed
	h.until("the stream has ended in order", func() bool { return s.eof && len(h.inns[0].standing) == 0 })
	if len(s.answers) != 1 || s.answers[0].FireId != "runs" || !s.answers[0].Success {
		t.Errorf("answered %v", s.answers)
	}
	if len(b.begun) != 0 {
		t.Error("an execution was begun while the client closed")
	}
}

// The context of a handler that takes too long ends, and its failure is reported.
func TestCloseEndsWhatTakesTooLong(t *testing.T) {
	h := open(t, 1)
	b := newBegan()
	c := h.client(h.inns[0].address, func(o *Options) { o.Handle, o.Drain = b.handle, 20*time.Millisecond })
	s := h.inns[0].stream()
	s.execute(execution("runs", 1))
	<-b.begun
	_ = c.Close()
	if a := h.answered(s, 1)[0]; a.Success || !strings.Contains(a.Detail, "too long") {
		t.Errorf("answered %v", a)
	}
}

// Without fire ids, executions are identified by their reminders.
func TestServiceWithoutFireIDs(t *testing.T) {
	h := open(t, 1)
	b := newBegan()
	h.client(h.inns[0].address, func(o *Options) { o.Handle = b.handle })
	s := h.inns[0].stream()
	plain := &reminderv1.ExecuteReminderRequest{ReminderId: "reminder||B||1||" + vector, Reminder: &reminderv1.Reminder{}}
	s.execute(plain)
	<-b.begun
	s.execute(plain)             // it is running
	s.execute(execution("f", 1)) // which shows that the other was taken
	<-b.begun
	b.end <- nil
	b.end <- nil
	h.answered(s, 2)
	s.execute(plain) // it is another one
	<-b.begun
	b.end <- nil
	h.answered(s, 3)
}
