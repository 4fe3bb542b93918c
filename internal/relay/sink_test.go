package relay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
)

// post is a queue with programmed answers.
type post struct {
	mu     sync.Mutex
	answer func(m queue.Message) error
	sent   []queue.Message
}

func (p *post) Publish(ctx context.Context, messages []queue.Message) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(messages))
	for i, m := range messages {
		if errs[i] = p.answer(m); errs[i] == nil {
			p.sent = append(p.sent, m)
		}
	}
	return errs
}

type checks struct{}

func (checks) Check(spec *rouse.Spec) error {
	if spec.Target == "bad:" {
		return rouse.Refuse("target", spec.Target, "is bad", "give another one")
	}
	return nil
}
func (checks) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "other", Limit: 1, Batch: 1, Paced: spec.Target == "paced:"}
}
func (checks) Deliver(context.Context, []rouse.Fire, func(int, rouse.Outcome)) {
	panic("executors deliver")
}
func (checks) Obstacle(string, *rouse.Spec) string { return "circuit" }

func fires(n int) []rouse.Fire {
	list := make([]rouse.Fire, n)
	for i := range list {
		list[i] = rouse.Fire{ID: fmt.Sprintf("f%d", i), Namespace: "n", Name: "a", Token: uint64(i + 1), Attempt: 1, Spec: &rouse.Spec{Target: "a:"}}
	}
	return list
}

// deliver returns the outcome of each fire, and checks that there is exactly one.
func deliver(t *testing.T, s *Sink, ctx context.Context, list []rouse.Fire) []rouse.Outcome {
	t.Helper()
	out := make([]rouse.Outcome, len(list))
	s.Deliver(ctx, list, func(i int, o rouse.Outcome) {
		if out[i].Verdict != 0 {
			t.Errorf("fire %d has two outcomes: %v and %v", i, out[i], o)
		}
		out[i] = o
	})
	for i, o := range out {
		if o.Verdict == 0 {
			t.Errorf("fire %d has no outcome", i)
		}
	}
	return out
}

func TestWhatIsConfirmedIsAccepted(t *testing.T) {
	p := &post{answer: func(queue.Message) error { return nil }}
	s := NewSink(checks{}, p, SinkOptions{Allowance: time.Minute})
	list := fires(3)
	list[1].Spec = &rouse.Spec{Target: "a:", Retry: rouse.Retry{Timeout: 10 * time.Minute}}
	for i, o := range deliver(t, s, t.Context(), list) {
		want := time.Minute + list[i].Spec.Retry.Effective().Timeout
		if o.Verdict != rouse.Accepted || o.After != want {
			t.Errorf("fire %d: %+v, want accepted for %v", i, o, want)
		}
	}
	for i, m := range p.sent {
		if _, got, err := decodeParcel(m.Body); err != nil || got.Fire.ID != list[i].ID || m.ID != fmt.Sprintf("f%d.%d", i, i+1) {
			t.Errorf("message %s carries %+v: %v", m.ID, got, err)
		}
	}
	if s.Obstacle("n", list[0].Spec) != "circuit" {
		t.Error("the other sink's obstacle is not told")
	}
	if err := s.Check(&rouse.Spec{Target: "bad:"}); err == nil {
		t.Error("the other sink's check is not made")
	}
	if l := s.Lane("n", list[0].Spec); l.Limit < l.Batch || l.Batch < 2 || l.Spend || l.Paced {
		t.Errorf("lane %+v", l)
	}
	if a, b := s.Lane("n", list[0].Spec), s.Lane("n", &rouse.Spec{Target: "paced:"}); !b.Paced || b.Name == a.Name || b.Limit != a.Limit {
		t.Errorf("lanes %+v and %+v", a, b)
	}
}

func TestWhatTheQueueRefusesWaitsAndIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &post{answer: func(m queue.Message) error {
			switch {
			case strings.HasPrefix(m.ID, "f0."): // there is room after a while
				if time.Since(began) < time.Second {
					return queue.ErrFull
				}
			case strings.HasPrefix(m.ID, "f1."):
				return fmt.Errorf("%w: no", queue.ErrUnavailable)
			case strings.HasPrefix(m.ID, "f2."):
				return fmt.Errorf("%w: perhaps", queue.ErrUnconfirmed)
			}
			return nil
		}}
		s := NewSink(checks{}, p, SinkOptions{Patience: 3 * time.Second})
		out := deliver(t, s, t.Context(), fires(4))
		for i, want := range []rouse.Verdict{rouse.Accepted, rouse.Deferred, rouse.Deferred, rouse.Accepted} {
			if out[i].Verdict != want {
				t.Errorf("fire %d: %+v, want %v", i, out[i], want)
			}
			if want == rouse.Deferred && (out[i].After <= 0 || out[i].Detail == "") {
				t.Errorf("fire %d is put off without a time, or a reason: %+v", i, out[i])
			}
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it waited %v for a queue that refuses, want 3s", took)
		}
		if why := s.Obstacle("n", &rouse.Spec{}); !strings.Contains(why, "unavailable") {
			t.Errorf("the obstacle is %q", why)
		}
		p.answer = func(queue.Message) error { return nil }
		deliver(t, s, t.Context(), fires(1))
		if why := s.Obstacle("n", &rouse.Spec{}); why != "circuit" {
			t.Errorf("the obstacle is %q after the queue is back", why)
		}
	})
}

func TestWhatTheQueueNeverAcceptsEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := NewSink(checks{}, &post{answer: func(m queue.Message) error {
			if strings.HasPrefix(m.ID, "f1.") {
				return fmt.Errorf("%w: 100 bytes are its limit", queue.ErrRefused)
			}
			return nil
		}}, SinkOptions{})
		out := deliver(t, s, t.Context(), fires(3))
		if out[0].Verdict != rouse.Accepted || out[2].Verdict != rouse.Accepted {
			t.Errorf("the others: %+v, %+v", out[0], out[2])
		}
		if o := out[1]; o.Verdict != rouse.Rejected || !strings.Contains(o.Detail, "100 bytes are its limit") {
			t.Errorf("%+v", o)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		if why := s.Obstacle("n", &rouse.Spec{}); why != "circuit" {
			t.Errorf("the obstacle is %q", why)
		}
	})
}

func TestTheEndOfTheEngineEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{answer: func(queue.Message) error { return queue.ErrFull }}
		s := NewSink(checks{}, p, SinkOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		for i, o := range deliver(t, s, ctx, fires(3)) {
			if o.Verdict != rouse.Deferred {
				t.Errorf("fire %d: %+v", i, o)
			}
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestWhatNoQueueTakesIsRejected(t *testing.T) {
	p := &post{answer: func(queue.Message) error { return nil }}
	s := NewSink(checks{}, p, SinkOptions{})
	list := fires(3)
	list[1].Spec = &rouse.Spec{Target: "a:", Payload: make([]byte, queue.MaxBody)}
	out := deliver(t, s, t.Context(), list)
	if out[0].Verdict != rouse.Accepted || out[1].Verdict != rouse.Rejected || out[2].Verdict != rouse.Accepted {
		t.Errorf("%+v", out)
	}
}

func TestHowAnAttemptStands(t *testing.T) {
	timer := func(edit func(*rouse.Timer)) rouse.Row {
		tm := rouse.Timer{Key: rouse.Key{Namespace: "n", Name: "a"}, Generation: 3, Revision: 7, Due: 1000, Visible: 1000,
			Spec: rouse.Spec{Schedule: "@every 1s", Target: "a:"}}
		if edit != nil {
			edit(&tm)
		}
		row := tm.Row()
		row.Revision, row.Generation = tm.Revision, tm.Generation
		return row
	}
	fire := rouse.Fire{ID: rouse.FireID("n", "a", 3, 1000, false), Namespace: "n", Name: "a", Generation: 3, Due: 1000, Attempt: 1, Token: 7}
	for _, c := range []struct {
		what string
		row  rouse.Row
		want standing
	}{
		{"no row", rouse.Row{}, outdated},
		{"as it was sent", timer(nil), pending},
		{"held for longer", timer(func(t *rouse.Timer) { t.Revision = 8 }), doubtful},
		{"accepted", timer(func(t *rouse.Timer) { t.Revision, t.Attempts, t.Token, t.Visible = 8, 1, 7, 61_000 }), wanted},
		{"accepted with another token", timer(func(t *rouse.Timer) { t.Revision, t.Attempts, t.Token = 9, 1, 8 }), outdated},
		{"the attempt has failed", timer(func(t *rouse.Timer) { t.Revision, t.Attempts = 8, 1 }), outdated},
		{"the next occurrence", timer(func(t *rouse.Timer) { t.Revision, t.Due = 8, 2000 }), outdated},
		{"replaced", timer(func(t *rouse.Timer) { t.Revision, t.Generation = 8, 8 }), outdated},
		{"paused", timer(func(t *rouse.Timer) { t.Revision, t.Paused = 8, true }), outdated},
		{"from before it was sent", timer(func(t *rouse.Timer) { t.Revision = 6 }), outdated},
		{"damaged", func() rouse.Row { r := timer(nil); r.Body = r.Body[:5]; return r }(), outdated},
	} {
		got := standOf(&c.row, &fire, 1000)
		if got.standing != c.want {
			t.Errorf("%s: %d, want %d", c.what, got.standing, c.want)
		}
		if c.want == wanted && got.left != time.Minute {
			t.Errorf("%s: %v are left, want 1m", c.what, got.left)
		}
	}
	late := timer(func(t *rouse.Timer) { t.Spec.Deadline = time.Second })
	if !standOf(&late, &fire, 2001).expired || standOf(&late, &fire, 2000).expired {
		t.Error("the deadline is not seen")
	}
}
