package stream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
)

func TestNoMoreUnsettledThanCredits(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(3))
		d.deliver(fires(10)...)
		first := p.got()
		if len(first) != 3 {
			t.Fatalf("%d fires for 3 credits", len(first))
		}
		p.done(first[0])
		second := p.got()
		if len(second) != 1 {
			t.Errorf("%d fires after 1 was settled", len(second))
		}
		p.grant(2)
		third := p.got()
		if len(third) != 2 {
			t.Errorf("%d fires for 2 more credits", len(third))
		}
		p.done(slices.Concat(first[1:], second, third)...)
		last := p.got()
		if len(last) != 4 {
			t.Errorf("%d fires at the end, want the other 4", len(last))
		}
		p.done(last...)
		for i := range 10 {
			d.want(fmt.Sprintf("f%03d", i), rouse.Done, 0)
		}
	})
}

// TestDrainSendsNothingNew: credits that come during a drain get no fires that waited for them.
func TestDrainSendsNothingNew(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fires(2)...)
		had := p.got()
		s.Drain()
		p.grant(3)
		d.deliver(fire("later"))
		sameNames(t, p.gotNames())
		p.done(had...)
		d.want("f000", rouse.Done, 0)
		d.want("f001", rouse.Deferred, time.Second)
		d.want("later", rouse.Deferred, time.Second)
	})
}

func TestNoCreditsNoFires(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(0))
		d.deliver(fire("a"))
		sameNames(t, p.gotNames())
		p.grant(1)
		sameNames(t, p.gotNames(), "a")
	})
}

func TestFactsArriveUnchanged(t *testing.T) {
	now := rouse.Instant(1_900_000_000_000)
	bubble(t, Options{Now: func() rouse.Instant { return now }}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fire("a", timeout(7*time.Second), labels(map[string]string{"k": "v"}), func(f *rouse.Fire) { f.Manual, f.Last = true, true }))
		f := p.got()[0]
		if f.Id != "id-a" || f.Namespace != "default" || f.Generation != 3 || f.Attempt != 1 || f.Token != 9 || !f.Manual || !f.Last ||
			string(f.Payload) != "payload of a" || f.Labels["k"] != "v" || f.DeadlineMs != int64(now)+7000 {
			t.Errorf("arrived as %v", f)
		}
		if told := p.header.Get(NowHeader); len(told) != 1 || told[0] != strconv.FormatInt(int64(now), 10) {
			t.Errorf("the store's clock is told as %v", told)
		}
	})
}

// Messages are used again: what one fire had must not show in the next.
func TestMessagesCarryNothingOver(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(1))
		d.deliver(fire("a", labels(map[string]string{"k": "v"}), func(f *rouse.Fire) { f.Manual, f.Last, f.Spec.ContentType = true, true, "text/plain" }))
		p.done(p.got()...)
		d.deliver(fire("b", func(f *rouse.Fire) { f.Spec.Payload = nil }))
		if f := p.got()[0]; f.Name != "b" || len(f.Labels) != 0 || f.Manual || f.Last || f.ContentType != "" || len(f.Payload) != 0 {
			t.Errorf("arrived as %v", f)
		}
	})
}

func TestFilters(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		prefix, label := jobs(10), jobs(10)
		prefix.NamePrefix = "mail-"
		label.Labels = map[string]string{"tier": "gold", "zone": "eu"}
		a, b := join(s, prefix), join(s, label)
		gold := map[string]string{"tier": "gold", "zone": "eu", "more": "x"}
		d.deliver(
			fire("mail-1"), fire("gold-1", labels(gold)), fire("mail"),
			fire("gold-2", labels(map[string]string{"tier": "gold"})), fire("gold-3", labels(map[string]string{"tier": "gold", "zone": "us"})),
			fire("mail-2", labels(gold)), fire("mail-3", labels(gold)))
		got := append(a.gotNames(), b.gotNames()...)
		slices.Sort(got)
		sameNames(t, got, "gold-1", "mail-1", "mail-2", "mail-3")
		c := join(s, jobs(10)) // takes what waited, in its order
		sameNames(t, c.gotNames(), "mail", "gold-2", "gold-3")
	})
}

// A subscriber with a filter skips the fires for others, and continues from there.
func TestFilteredSubscriberFindsItsOwnAmongTheWaiting(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		d.deliver(fire("x1"), fire("m1"), fire("x2"), fire("m2"), fire("m3"), fire("x3"))
		open := jobs(1)
		open.NamePrefix = "m"
		p := join(s, open)
		for _, want := range []string{"m1", "m2", "m3"} {
			got := p.got()
			if len(got) != 1 || got[0].Name != want {
				t.Fatalf("got %v, want %s", got, want)
			}
			p.done(got...)
		}
		d.deliver(fire("m4"))
		sameNames(t, p.gotNames(), "m4")
		q := join(s, jobs(9))
		sameNames(t, q.gotNames(), "x1", "x2", "x3")
	})
}

func TestChannelsAndNamespacesAreApart(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		a := join(s, &rousev1.Open{Namespace: "default", Channel: "a", Credits: 9})
		none := join(s, &rousev1.Open{Credits: 9}) // of "default", too
		other := join(s, &rousev1.Open{Namespace: "other", Channel: "a", Credits: 9})
		d.deliver(fire("1", target("stream:a")))
		d.deliver(fire("2", target("stream:")))
		d.deliver(fire("3", target("stream:a"), func(f *rouse.Fire) { f.Namespace = "other" }))
		sameNames(t, a.gotNames(), "1")
		sameNames(t, none.gotNames(), "2")
		sameNames(t, other.gotNames(), "3")
	})
}

func TestSubscribersTakeTurns(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		ps := []*peer{join(s, jobs(100)), join(s, jobs(100)), join(s, jobs(100))}
		d.deliver(fires(30)...)
		for i, p := range ps {
			if n := len(p.got()); n != 10 {
				t.Errorf("subscriber %d got %d of 30", i, n)
			}
		}
		for i := range 6 { // one by one as well
			d.deliver(fire(fmt.Sprint("one-", i)))
		}
		for i, p := range ps {
			if n := len(p.got()); n != 2 {
				t.Errorf("subscriber %d got %d of 6", i, n)
			}
		}
		_ = ps[0].leave()
		d.deliver(fires(10)...)
		if a, b := len(ps[1].got()), len(ps[2].got()); a != 5 || b != 5 {
			t.Errorf("the two that stay got %d and %d of 10", a, b)
		}
	})
}

func TestMessagesAreBounded(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		d.deliver(fires(1000)...)
		p := join(s, jobs(5000))
		if n := len(p.got()); n != 1000 || p.messages != 4 {
			t.Errorf("%d fires came in %d messages, want 1000 in 4", n, p.messages)
		}
		p.messages = 0
		large := func(f *rouse.Fire) { f.Spec.Payload = make([]byte, rouse.MaxPayload) }
		var big []rouse.Fire
		for i := range 9 {
			big = append(big, fire(fmt.Sprint("big-", i), large))
		}
		d.deliver(big...)
		if n := len(p.got()); n != 9 || p.messages != 3 {
			t.Errorf("%d fires of %d bytes came in %d messages, want 9 in 3", n, rouse.MaxPayload, p.messages)
		}
	})
}

func TestNoSubscriber(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		start := time.Now()
		d.deliver(fire("now"), fire("hour", late(time.Hour)), fire("skewed", late(-time.Minute)))
		time.Sleep(1900 * time.Millisecond)
		d.open("now")
		time.Sleep(200 * time.Millisecond)
		for _, name := range []string{"now", "hour", "skewed"} { // however late: a subscriber may be on its way
			d.want(name, rouse.Deferred, time.Second)
		}
		if took := d.at["now"].Sub(start); took > 2*time.Second+2*hub.Coarse {
			t.Errorf("deferred after %v", took)
		}
		between := func(name string, least, most time.Duration) {
			t.Helper()
			if o, _ := d.of(name); o.Verdict != rouse.Deferred || o.After < least || o.After > most {
				t.Errorf("%s: %v after %v, want deferred after %v to %v", name, o.Verdict, o.After, least, most)
			}
		}
		time.Sleep(8 * time.Second)
		d.deliver(fire("new"), fire("12s", late(10*time.Second)), fire("hour, in vain for 10s", late(time.Hour)))
		time.Sleep(2100 * time.Millisecond)
		d.want("new", rouse.Deferred, time.Second) // as late as it is, whatever came before
		between("12s", 5*time.Second, 6100*time.Millisecond)
		between("hour, in vain for 10s", 5*time.Second, 5200*time.Millisecond)
		time.Sleep(time.Hour)
		d.deliver(fire("hour, in vain for an hour", late(time.Hour)))
		time.Sleep(2100 * time.Millisecond)
		d.want("hour, in vain for an hour", rouse.Deferred, 30*time.Second)
		_ = join(s, jobs(1)).leave() // a subscriber came, and will again
		d.deliver(fire("hour, in vain since a moment", late(time.Hour)))
		time.Sleep(2100 * time.Millisecond)
		d.want("hour, in vain since a moment", rouse.Deferred, time.Second)
		_ = join(s, jobs(0)) // a subscriber exists, but has no credits
		d.deliver(fire("hour, not taken", late(time.Hour)))
		time.Sleep(2100 * time.Millisecond)
		d.want("hour, not taken", rouse.Deferred, 30*time.Second)
	})
}

// The state of channels without subscribers is bounded.
func TestUnservedChannelsAreDropped(t *testing.T) {
	l := unserved{}
	for i := range 2 * maxUnserved {
		if d := l.unservedFor(channelKey{"default", fmt.Sprint(i)}, 1000); d != 0 {
			t.Fatalf("channel %d is new and was unserved for %v", i, d)
		}
	}
	if len(l) != maxUnserved {
		t.Errorf("%d are remembered, want %d", len(l), maxUnserved)
	}
	if d := l.unservedFor(channelKey{"default", fmt.Sprint(2*maxUnserved - 1)}, 3000); d != 2*time.Second {
		t.Errorf("unserved for %v, want 2s", d)
	}
}

func TestSubscriberComesInTime(t *testing.T) {
	bubble(t, Options{Wait: 5 * time.Second}, func(t *testing.T, s *Sink, d *sender) {
		d.deliver(fire("a"))
		time.Sleep(4 * time.Second)
		p := join(s, jobs(1))
		got := p.got()
		time.Sleep(4 * time.Second)
		d.open("a") // its wait is over, its time is not
		p.done(got...)
		d.want("a", rouse.Done, 0)
	})
}

func TestDeliverReturnsExceptForTheTimekeeper(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		p := join(s, jobs(10))
		d.deliver(fire("a"))
		returned := false
		go func() {
			s.Deliver(d.ctx, []rouse.Fire{fire("b")}, func(int, rouse.Outcome) {})
			returned = true
		}()
		got := p.got()
		if !returned {
			t.Error("a second Deliver waits for its fires")
		}
		p.done(got...)
		d.running.Wait() // the first one is not needed any more
	})
}

func TestEndOfContext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		ctx, cancel := context.WithCancel(t.Context())
		d.ctx = ctx
		p := join(s, jobs(2))
		d.deliver(fire("sent-1"), fire("sent-2"), fire("waits"))
		got := p.got()
		other := newSender(t, s) // another context, which continues
		other.deliver(fire("goes on"))
		cancel()
		d.running.Wait()
		d.want("sent-1", rouse.Deferred, time.Second)
		d.want("sent-2", rouse.Deferred, time.Second)
		d.want("waits", rouse.Deferred, time.Second)
		d.deliver(fire("too late"))
		d.want("too late", rouse.Deferred, time.Second)
		p.done(got...) // of no effect
		last := p.got()
		if len(last) != 1 || last[0].Name != "goes on" {
			t.Fatalf("got %v", last)
		}
		p.done(last...)
		other.want("goes on", rouse.Done, 0)
		other.running.Wait()
	})
}

// A fire that was assigned during the sending of the last message must not be sent if its context has
// ended.
func TestEndedContextTakesUnsentBack(t *testing.T) {
	s := New(Options{})
	sub, err := s.addSubscriber(channelKey{"default", "jobs"}, jobs(10))
	if err != nil {
		t.Fatal(err)
	}
	var out []rouse.Outcome
	ctx, cancel := context.WithCancel(t.Context())
	stay := s.Put(ctx, "default", "jobs", []rouse.Fire{fire("a")}, func(_ int, o rouse.Outcome) { out = append(out, o) })
	s.Put(t.Context(), "default", "jobs", []rouse.Fire{fire("b")}, func(int, rouse.Outcome) { t.Error("the other one is reported") })
	cancel()
	stay()
	if len(out) != 1 || out[0].Verdict != rouse.Deferred {
		t.Errorf("reported %+v", out)
	}
	s.hub.Lock()
	defer s.hub.Unlock()
	m := s.pullMessage(sub)
	if len(m.response.Fires) != 1 || m.response.Fires[0].Name != "b" {
		t.Errorf("sends %v", m.response.Fires)
	}
}

func TestEndedContextDeliversNothing(t *testing.T) {
	s := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out []rouse.Outcome
	s.Deliver(ctx, fires(1), func(_ int, o rouse.Outcome) { out = append(out, o) })
	if len(out) != 1 || out[0].Cause != rouse.CauseServerDown || s.counts().Channels != 0 {
		t.Errorf("delivers for a context that has ended: %+v", out)
	}
}

// A message that waits to be used again keeps no payload, and no row that a name is a part of, in memory.
func TestRecycledMessagesHoldNothing(t *testing.T) {
	m := new(message)
	f := fire("a", labels(map[string]string{"k": "v"}))
	for range 3 {
		rousev1.FireToProto(&f, m.nextFireSlot())
	}
	all := m.response.Fires
	m.recycleMessage()
	for _, p := range all {
		if p.Id+p.Namespace+p.Name+p.ContentType != "" || p.Payload != nil || p.Labels != nil {
			t.Errorf("holds %v", p)
		}
	}
}

func TestWrongTargetIsRejected(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Sink, d *sender) {
		d.deliver(fire("a", target("stream:\x01")))
		d.want("a", rouse.Rejected, 0)
	})
}

func TestLane(t *testing.T) {
	s := New(Options{Outstanding: 77})
	names := map[string]bool{}
	for _, ns := range []string{"a", "b"} {
		for _, target := range []string{"stream:", "stream:a", "stream:a/b", "stream:b"} {
			for range 2 { // the second time from the cache
				l := s.Lane(ns, &rouse.Spec{Target: target})
				if want := "stream:" + ns + "/" + strings.TrimPrefix(target, "stream:"); l.Name != want || l.Limit != 77 || l.Batch != maxFires {
					t.Errorf("lane %+v of %s %s", l, ns, target)
				}
				names[l.Name] = true
			}
		}
	}
	if len(names) != 8 {
		t.Errorf("%d lanes for 8 channels", len(names))
	}
	spec := &rouse.Spec{Target: "stream:a"}
	if n := testing.AllocsPerRun(100, func() { s.Lane("a", spec) }); n != 0 {
		t.Errorf("asking for a lane makes %v allocations", n)
	}
}
