package stream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// polling is a poll in progress.
type polling struct {
	names []string
	fires []*rousev1.Fire
	err   error
	took  time.Duration
	over  chan struct{}
}

func pollFor(ctx context.Context, s *Sink, open *rousev1.Open, wait time.Duration) *polling {
	p := &polling{over: make(chan struct{})}
	go func() {
		defer close(p.over)
		began := time.Now()
		p.fires, p.err = s.Poll(ctx, open, wait)
		p.took = time.Since(began)
		for _, f := range p.fires {
			p.names = append(p.names, f.Name)
		}
	}()
	synctest.Wait()
	return p
}

// A poll takes what waits, up to its credits, as accepted: the receiver has the timeout of an attempt.
func TestAPollTakesWhatWaits(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		d.deliver(fire("a", timeout(7*time.Second)), fire("b"), fire("c"))
		p := pollFor(t.Context(), s, jobs(2), 30*time.Second)
		<-p.over
		sameNames(t, p.names, "a", "b")
		if p.took != 0 || p.err != nil {
			t.Errorf("took %v, %v", p.took, p.err)
		}
		if f := p.fires[0]; f.Id != "id-a" || f.Token != 9 || string(f.Payload) != "payload of a" || f.DeadlineMs != int64(rouse.Reached(time.Now()))+7000 {
			t.Errorf("fire %v", f)
		}
		d.want("a", rouse.Accepted, 7*time.Second)
		d.want("b", rouse.Accepted, rouse.DefaultRetry.Timeout)
		if o, _ := d.of("a"); o.Lost { // no receiver is known to have it
			t.Errorf("%+v", o)
		}
		d.open("c")
		p = pollFor(t.Context(), s, jobs(2), 0)
		<-p.over
		sameNames(t, p.names, "c")
	})
}

func TestAPollWaits(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		mail := jobs(5)
		mail.NamePrefix = "mail"
		p := pollFor(t.Context(), s, mail, 30*time.Second)
		time.Sleep(20 * time.Second)
		d.deliver(fire("other"))
		d.deliver(fire("mail"))
		<-p.over
		sameNames(t, p.names, "mail")
		if p.took != 20*time.Second {
			t.Errorf("took %v", p.took)
		}
		d.want("mail", rouse.Accepted, rouse.DefaultRetry.Timeout)
		d.open("other")
		p = pollFor(t.Context(), s, mail, 30*time.Second)
		<-p.over
		if p.took != 30*time.Second || p.err != nil || p.fires != nil {
			t.Errorf("nothing came: %v, %v after %v", p.fires, p.err, p.took)
		}
	})
}

// The fires of a caller that has gone go to others, without an attempt.
func TestAPollWhoseCallerHasGone(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pollFor(ctx, s, jobs(5), 30*time.Second)
		cancel()
		d.deliver(fire("a"))
		<-p.over
		if !errors.Is(p.err, context.Canceled) || p.fires != nil {
			t.Errorf("%v, %v", p.fires, p.err)
		}
		d.open("a")
		p = pollFor(ctx, s, jobs(5), 30*time.Second)
		<-p.over
		if p.err == nil {
			t.Errorf("%v for a caller that had gone before", p.fires)
		}
		sameNames(t, join(s, jobs(5)).gotNames(), "a")
	})
}

// A service that stops answers polls at once, and refuses later ones.
func TestAPollOfAServiceThatStops(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := pollFor(t.Context(), s, jobs(5), 30*time.Second)
		time.Sleep(time.Second)
		s.Close()
		<-p.over
		if p.err != nil || p.fires != nil || p.took != time.Second {
			t.Errorf("%v, %v after %v", p.fires, p.err, p.took)
		}
		if _, err := s.Poll(t.Context(), jobs(5), 0); !errors.Is(err, rouse.ErrClosed) {
			t.Errorf("then: %v", err)
		}
	})
}

func TestPollsAreChecked(t *testing.T) {
	s := New(Options{MaxSubscribers: 1, Admit: func(_ context.Context, o *rousev1.Open) error {
		if o.Channel == "no" {
			return rouse.ErrConflict
		}
		return nil
	}})
	for _, c := range []struct {
		open *rousev1.Open
		want error
	}{{jobs(1), nil}, {&rousev1.Open{Namespace: "default", Channel: "no"}, rouse.ErrConflict}} {
		if _, err := s.Poll(t.Context(), c.open, 0); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.open, err, c.want)
		}
	}
	var inv *rouse.Invalid
	if _, err := s.Poll(t.Context(), &rousev1.Open{Namespace: "default", Channel: "a\nb"}, 0); !errors.As(err, &inv) {
		t.Errorf("a channel with a line break: %v", err)
	}
	sub, err := s.addSubscriber(channelKey{"default", "jobs"}, jobs(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Poll(t.Context(), jobs(1), 0); !errors.Is(err, rouse.ErrOverloaded) {
		t.Errorf("one subscriber too many: %v", err)
	}
	s.hub.Leave(sub, nil)
}
