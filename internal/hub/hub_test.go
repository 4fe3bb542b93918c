package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// client is the state of a simulated subscriber.
type client struct {
	credits int
	prefix  string // of the names that it wants
	limits  map[GateKey]int
	lose    func(*testSub, *testItem)
}

type (
	testHub  = Hub[string, client, struct{}]
	testSub  = Sub[string, client, struct{}]
	testItem = Item[string, client, struct{}]
)

// door is a simulated door: an item whose name has a digit waits for the gate of that digit.
type door struct {
	t       *testing.T
	h       *testHub
	r       *rand.Rand
	gated   bool
	subs    []*testSub
	made    map[string]int // reports, by fire id
	number  int
	running sync.WaitGroup
	ctx     context.Context
}

func newDoor(t *testing.T, ctx context.Context, seed uint64, gated bool) *door {
	d := &door{t: t, r: rand.New(rand.NewPCG(seed, 7)), gated: gated, made: map[string]int{}, ctx: ctx}
	o := Options[string, client, struct{}]{MaxSubs: 8, Names: gated, Reuse: !gated, Now: func() rouse.Instant { return 1 },
		Clone:    func(s string) string { return s },
		Ready:    func(sub *testSub, _ *testItem) bool { return sub.Held() < sub.Of.credits },
		Assigned: func(*testSub, *testItem) {},
		Back:     func(*testSub, *testItem) {},
		Expired:  func(*testItem) rouse.Outcome { return rouse.Outcome{Verdict: rouse.Failed} },
	}
	if gated {
		o.Gate = func(it *testItem) (string, bool) { return it.Fire().Name[:1], true }
		o.Parted = func(sub *testSub, items []*testItem, _ int) {
			d.h.Unlimit(d.h.Channel("c"), sub.Of.limits)
			for _, it := range slices.Backward(items) {
				d.h.Await(it, true)
			}
		}
	} else {
		o.Wants = func(sub *testSub, it *testItem) bool {
			return sub.Of.prefix == "" || sub.Of.prefix == it.Fire().Name[:1]
		}
		o.Until = func(it *testItem) time.Duration { return it.Came() + time.Duration(d.r.IntN(5000))*time.Millisecond }
		o.Parted = func(_ *testSub, items []*testItem, sent int) {
			for n, it := range items {
				if n < sent {
					d.h.Report(it, rouse.Outcome{Verdict: rouse.Failed})
				} else {
					d.h.Offer(it)
				}
			}
		}
	}
	d.h = New(o)
	return d
}

// step makes one random change.
func (d *door) step() {
	r, h := d.r, d.h
	switch op := r.IntN(10); {
	case op < 3:
		fires := make([]rouse.Fire, 1+r.IntN(6))
		for i := range fires {
			d.number++
			fires[i] = rouse.Fire{ID: fmt.Sprint(d.number), Name: fmt.Sprint(r.IntN(3), "-", r.IntN(50))}
		}
		delivery := h.NewDelivery(d.ctx, fires, func(i int, _ rouse.Outcome) { d.made[fires[i].ID]++ })
		delivery.Key = "c"
		stay := h.Take(delivery)
		d.running.Go(stay)
		return
	case op == 3 && len(d.subs) < 8:
		sub := NewSub[string, client, struct{}](client{credits: r.IntN(6), limits: map[GateKey]int{}})
		h.Lock()
		if err := h.Join(sub, "c"); err != nil {
			d.t.Error(err)
		}
		if d.gated {
			for range r.IntN(3) {
				sub.Of.limits[GateKey{r.IntN(3) > 0, fmt.Sprint(r.IntN(3))}] = 1 + r.IntN(5)
			}
			if key := (GateKey{false, "1"}); sub.Of.limits[key] > 0 { // all without a name are one
				delete(sub.Of.limits, key)
			}
			delete(sub.Of.limits, GateKey{false, "2"})
			h.Limit(h.Channel("c"), sub.Of.limits)
		} else if n := r.IntN(4); n < 3 {
			sub.Of.prefix = fmt.Sprint(n)
		}
		h.Unlock()
		d.subs = append(d.subs, sub)
		return
	case len(d.subs) == 0:
		return
	}
	n := r.IntN(len(d.subs))
	sub := d.subs[n]
	h.Lock()
	defer h.Unlock()
	switch r.IntN(7) {
	case 0:
		h.Part(sub, nil)
		d.subs = slices.Delete(d.subs, n, n+1)
	case 1:
		sub.Of.credits += r.IntN(3)
		h.Free(sub)
	case 2:
		for it := range sub.Queue() {
			if r.IntN(3) == 0 {
				break
			}
			h.MarkSent(it, h.Now()+time.Duration(r.IntN(3000))*time.Millisecond)
		}
	case 3:
		for it := range sub.Queue() {
			if r.IntN(2) == 0 {
				h.Report(it, rouse.Outcome{Verdict: rouse.Deferred})
			}
		}
	default:
		for it := range sub.InHand() {
			switch r.IntN(3) {
			case 0:
				h.Report(it, rouse.Outcome{Verdict: rouse.Done})
			case 1:
				h.Extend(it, it.Until()+time.Second)
			}
		}
	}
}

// check demands that the counts are right, and that no item waits that a subscriber could take.
func (d *door) check() {
	d.t.Helper()
	h := d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	held, used := 0, map[*gate[string, client, struct{}]]int{}
	for it := range h.Items() {
		held++
		for _, g := range it.gates {
			used[g]++
		}
	}
	c := h.channels["c"]
	if c == nil {
		if held+h.held > 0 {
			d.t.Fatalf("%d of %d items are without a channel", held, h.held)
		}
		return
	}
	waiting, last := 0, uint64(0)
	for it := range c.AllWaiting() {
		waiting++
		if it.list == &c.line && it.turn <= last {
			d.t.Fatalf("turn %d after %d", it.turn, last)
		} else if it.list == &c.line {
			last = it.turn
		}
		for _, sub := range c.Subs {
			if c.areGatesOpen(h.share, h.itemGate(it)) && h.opts.Ready(sub, it) && (h.opts.Wants == nil || h.opts.Wants(sub, it)) {
				d.t.Fatalf("%s waits, and a subscriber could take it", it.Fire().Name)
			}
		}
	}
	if held != h.held || held != c.held || waiting != c.waiting {
		d.t.Fatalf("%d items (%d counted, %d in the channel), %d wait (%d counted)", held, h.held, c.held, waiting, c.waiting)
	}
	for _, g := range c.gates {
		if g.used != used[g] {
			d.t.Fatalf("a gate counts %d of %d items", g.used, used[g])
		}
	}
	for _, sub := range c.Subs {
		if sub.Held() > sub.Of.credits {
			d.t.Fatalf("%d items for %d credits", sub.Held(), sub.Of.credits)
		}
		sent := len(slices.Collect(sub.InHand()))
		if unsent := len(slices.Collect(sub.Queue())); sent != sub.sent || unsent != sub.Unsent() {
			d.t.Fatalf("%d items were sent (%d counted), %d were not (%d counted)", sent, sub.sent, unsent, sub.Unsent())
		}
	}
}

// Whatever subscribers do, each item is reported once, none waits that could be taken, and no count is lost.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(24) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := newDoor(t, ctx, seed, seed%2 == 0)
			for n := range 400 {
				d.step()
				d.check()
				if n%8 == 0 {
					time.Sleep(200 * time.Millisecond)
					synctest.Wait()
					d.check()
				}
			}
			d.h.Close()
			cancel()
			d.running.Wait()
			d.h.Lock()
			if n := d.h.Counts(); n != (Counts{}) {
				t.Errorf("left: %+v", n)
			}
			d.h.Unlock()
			for n := range d.number {
				if made := d.made[fmt.Sprint(n+1)]; made != 1 {
					t.Errorf("fire %d was reported %d times", n+1, made)
				}
			}
		})
	}
}

// A list expires what is over and no more, whether or not its deadlines are in order, and returns a bound of
// the next one.
func TestListExpires(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var l List[string, client, struct{}]
		var left []time.Duration
		sorted, at := r.IntN(2) == 0, time.Duration(0)
		for range r.IntN(30) {
			if at += time.Duration(r.IntN(5)); !sorted {
				at = time.Duration(r.IntN(60))
			}
			var before *testItem
			if !sorted && r.IntN(3) == 0 {
				before = l.head
			}
			l.insertItem(&testItem{until: at}, before)
			left = append(left, at)
		}
		for now := time.Duration(0); now < 160; now += time.Duration(r.IntN(30)) {
			next := l.expireItems(now, func(it *testItem) {
				if it.until > now {
					t.Fatalf("%d expires at %d", it.until, now)
				}
				l.removeItem(it)
			})
			left = slices.DeleteFunc(left, func(until time.Duration) bool { return until <= now })
			least := Never
			for _, until := range left {
				least = min(least, until)
			}
			if l.Len() != len(left) || next > least || next <= now {
				t.Fatalf("at %d: %d of %d items, next at %d of %d", now, l.Len(), len(left), next, least)
			}
		}
	}
}

// The parts of a limit add up to it, and none is zero.
func TestMembersShareALimit(t *testing.T) {
	for _, c := range []struct{ all, of int }{{6, 1}, {6, 3}, {7, 3}, {8, 3}, {2, 3}} {
		sum := 0
		for i := range c.of {
			n := share{i, c.of}.ownLimit(c.all)
			if n < 1 || i > 0 && n > (share{i - 1, c.of}).ownLimit(c.all) {
				t.Errorf("member %d of %d has %d of %d", i, c.of, n, c.all)
			}
			sum += n
		}
		if want := max(c.all, c.of); sum != want {
			t.Errorf("%d members have %d of %d in all", c.of, sum, c.all)
		}
	}
}

// TestASubscriberHasOneSuspectAtATime: fires with which subscribers have gone repeatedly are kept apart, so
// that the one that is the reason is told from those that were in the same hands. Others are not held up.
func TestASubscriberHasOneSuspectAtATime(t *testing.T) {
	made := map[string]rouse.Outcome{}
	h := New(Options[string, client, struct{}]{MaxSubs: 8, Now: func() rouse.Instant { return 1 },
		Clone:    func(s string) string { return s },
		Ready:    func(sub *testSub, _ *testItem) bool { return sub.Held() < sub.Of.credits },
		Assigned: func(*testSub, *testItem) {},
		Back:     func(*testSub, *testItem) {},
		Parted: func(sub *testSub, items []*testItem, _ int) {
			for _, it := range items {
				sub.Of.lose(sub, it)
			}
		}})
	lose := func(sub *testSub, it *testItem) { h.Lose(sub, it, "it went away") }
	join := func() *testSub {
		sub := NewSub[string, client, struct{}](client{credits: 10, lose: lose})
		h.Lock()
		defer h.Unlock()
		if err := h.Join(sub, "c"); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	send := func(fires ...rouse.Fire) {
		d := h.NewDelivery(t.Context(), fires, func(i int, o rouse.Outcome) { made[fires[i].ID] = o })
		d.Key = "c"
		h.Take(d)
	}
	sub := join()
	send(rouse.Fire{ID: "a", Lost: rouse.Suspect}, rouse.Fire{ID: "b", Lost: rouse.MaxLost - 1}, rouse.Fire{ID: "c", Lost: 1}, rouse.Fire{ID: "d"})
	if o := made["b"]; sub.Held() != 3 || o.Verdict != rouse.Deferred || o.After < time.Second {
		t.Errorf("a subscriber has %d fires, and the second suspect is %+v", sub.Held(), o)
	}
	h.Leave(sub, nil)
	for _, id := range []string{"a", "c", "d"} {
		if o := made[id]; o.Verdict != rouse.Failed || !o.Lost {
			t.Errorf("%s of one that has gone is %+v", id, o)
		}
	}

	sub = join()
	for _, id := range []string{"e", "f"} { // the next one comes when the first has ended
		send(rouse.Fire{ID: id, Lost: rouse.Suspect})
		h.Lock()
		for it := range sub.Queue() {
			h.Report(it, rouse.Outcome{Verdict: rouse.Done})
		}
		h.Unlock()
		if made[id].Verdict != rouse.Done {
			t.Errorf("%s is %+v", id, made[id])
		}
	}

	send(rouse.Fire{ID: "g"}, rouse.Fire{ID: "h"})
	h.Leave(sub, fmt.Errorf("the token is over: %w", rouse.ErrUnauthenticated))
	if o := made["g"]; o.Verdict != rouse.Failed || o.Lost {
		t.Errorf("what one had whose credential has ended is %+v", o)
	}
	join()
	send(rouse.Fire{ID: "i"})
	h.Close()
	if o := made["i"]; o != Stopping {
		t.Errorf("what one had at the end of this process is %+v", o)
	}
}
