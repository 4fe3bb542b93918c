package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

var (
	_ rouse.Strategy = (*Share)(nil)
	_ rouse.Runner   = (*Share)(nil)
)

// inFleet runs a test in a bubble, with nodes that share 64 buckets.
func inFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(ShareOptions{Buckets: 64})
		t.Cleanup(func() {
			f.end()
			for _, w := range f.wrong {
				t.Error(w)
			}
		})
		test(t, f)
	})
}

// eventually waits until a condition holds, and fails if it does not in time.
func eventually(t *testing.T, within time.Duration, what string, f func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !f() {
		if time.Since(begin) > within {
			t.Fatalf("after %v still not: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func (f *fleet) has(p *peer) int {
	n := 0
	for _, name := range f.owners() {
		if name == p.Node() {
			n++
		}
	}
	return n
}

func TestShareAloneHasAllBuckets(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		if a.Healthy() == nil {
			t.Error("healthy before it has reached the store")
		}
		synctest.Wait()
		g, done, err := a.Grant(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done(false)
		if !slices.Equal(g.Buckets, allOf(64)) || g.Hold != 0 || time.Until(g.Until) != 9*time.Second {
			t.Errorf("granted %+v", g)
		}
		if err := a.Healthy(); err != nil {
			t.Error(err)
		}
		if !a.Leader() {
			t.Error("it does not lead")
		}
	})
}

func TestShareGrantsObeyTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := NewShare(nil, ShareOptions{}).Grant(ctx); err == nil {
		t.Error("a grant after the context ended")
	}
}

func TestShareComesAndGoes(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			f.join(name)
			eventually(t, 5*time.Second, name+" has its part", func() bool { return f.has(f.nodes[name]) >= 64/(i+1)-4 })
			time.Sleep(5 * time.Second)
			f.balanced()
		}
		before := f.owners()
		f.nodes["c"].stop()
		eventually(t, 2500*time.Millisecond, "all buckets are taken over", func() bool { return len(f.owners()) == 64 })
		time.Sleep(5 * time.Second)
		f.balanced()
		moved := 0
		for b, owner := range f.owners() {
			if before[b] != owner {
				moved++
			}
		}
		if moved > 7*4 { // it had 3 or 4 shares
			t.Errorf("%d of 64 buckets moved when one of five nodes left", moved)
		}
	})
}

func TestShareTakesOverFromTheDeadWhenTheirLeasesEnd(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		synctest.Wait() // it leads
		f.join("b")
		c := f.join("c")
		time.Sleep(20 * time.Second)
		for range 5 {
			died := time.Now()
			c.cut()
			var none time.Duration
			eventually(t, 12*time.Second, "all buckets are taken over", func() bool { none = time.Since(died); return len(f.owners()) == 64 })
			if none > 10*time.Second+100*time.Millisecond {
				t.Errorf("it took %v", none)
			}
			f.balanced()
			c = f.join("c")
			time.Sleep(20*time.Second + 310*time.Millisecond)
			f.balanced()
		}
		if !a.Leader() {
			t.Error("the leader changed for nothing")
		}
	})
}

func TestShareHandsOverWhenNothingIsInProgress(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		time.Sleep(5 * time.Second)
		a.slow.Store(int64(20 * time.Second)) // twice the TTL
		f.join("b")
		eventually(t, 5*time.Second, "a's grant is without what is b's", func() bool { return len(f.owners()) == 32 })
		if d := eventually(t, 25*time.Second, "b has them", func() bool { return len(f.owners()) == 64 }); d < 19*time.Second {
			t.Errorf("b had them after %v", d)
		}
	})
}

func TestShareDoesNotWaitForEver(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.o.Handover = 15 * time.Second
		a := f.join("a")
		time.Sleep(5 * time.Second)
		a.slow.Store(int64(time.Hour))
		b := f.join("b")
		eventually(t, 5*time.Second, "a's grant is without what is b's", func() bool { return len(f.owners()) == 32 })
		f.left(a, allOf(64)) // a's further use no longer counts
		if d := eventually(t, 17*time.Second, "b has them", func() bool { return f.has(b) == 32 }); d < 14*time.Second {
			t.Errorf("b had them after %v", d)
		}
	})
}

func TestShareIsUnhealthyBeforeItsGrantEnds(t *testing.T) {
	for _, fault := range []int32{refused, hung, lost, late} {
		inFleet(t, func(t *testing.T, f *fleet) {
			a := f.join("a")
			time.Sleep(10 * time.Second)
			a.wire.fault.Store(fault)
			unhealthy := eventually(t, 10*time.Second, "it is not healthy", func() bool { return a.Healthy() != nil })
			if f.has(a) != 64 {
				t.Errorf("fault %d: its grant ended before it was unhealthy", fault)
			}
			if fault == refused && !strings.Contains(a.Healthy().Error(), errDown.Error()) {
				t.Errorf("it does not say why: %v", a.Healthy())
			}
			ended := eventually(t, 10*time.Second, "its grant has ended", func() bool { return f.has(a) == 0 })
			if ended < time.Second {
				t.Errorf("fault %d: unhealthy after %v, its grant ended %v later", fault, unhealthy, ended)
			}
			time.Sleep(time.Minute)
			if f.has(a) != 0 || a.Healthy() == nil {
				t.Errorf("fault %d: a minute later it has %d buckets, and its health is %v", fault, f.has(a), a.Healthy())
			}
			a.wire.fault.Store(fine)
			eventually(t, 12*time.Second, "it has all buckets again", func() bool { return f.has(a) == 64 && a.Healthy() == nil })
		})
	}
}

// A process that was suspended for longer than its leases may get the answer to its renewal before its
// engine asks for a grant: the engine must see the gap.
func TestShareLeavesAGapWhereAnotherMayHaveHadTheBucket(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		s, _ := f.alone(t)
		g, _, _ := s.Grant(t.Context())
		if len(g.Buckets) != 64 {
			t.Fatalf("granted %+v", g)
		}
		time.Sleep(20 * time.Second)
		s.runShareRound(t.Context())
		if g, _, _ = s.Grant(t.Context()); len(g.Buckets) != 0 {
			t.Fatalf("it is granted %v, as if nothing had been", g.Buckets)
		}
		s.Left([]uint32{0, 2})
		if g, _, _ = s.Grant(t.Context()); !slices.Equal(g.Buckets, []uint32{0, 2}) {
			t.Fatalf("it is granted %v after it left 0 and 2", g.Buckets)
		}
		if g, _, _ = s.Grant(t.Context()); len(g.Buckets) != 2 {
			t.Fatalf("it is granted %v", g.Buckets)
		}
		s.Left([]uint32{0, 2}) // it cannot have left what it is granted
		time.Sleep(20 * time.Second)
		s.runShareRound(t.Context())
		if g, _, _ = s.Grant(t.Context()); len(g.Buckets) != 0 {
			t.Fatalf("it is granted %v, although it reported that it left its buckets", g.Buckets)
		}
	})
}

// alone is a share on a wire; the test runs its rounds.
func (f *fleet) alone(t *testing.T) (*Share, *wire) {
	w := &wire{Locks: f.store}
	s := NewShare(w, ShareOptions{MemberOptions: MemberOptions{Node: "a"}})
	s.runShareRound(t.Context())
	return s, w
}

// neighbour makes a node without a process come or go.
func (f *fleet) neighbour(t *testing.T, there bool) {
	var err error
	if name := nodePrefix + "b"; there {
		_, err = f.store.Lock(t.Context(), "b", time.Hour, []rouse.Want{{Name: name}})
	} else {
		err = f.store.Unlock(t.Context(), "b", []string{name})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestShareDoesNotRelyOnALeaseWhoseEndIsOnItsWay(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		s, w := f.alone(t)
		s.Grant(t.Context())
		f.neighbour(t, true)
		s.refreshBuckets(t.Context())
		g, _, _ := s.Grant(t.Context())
		s.Left(allOf(64))
		w.fault.Store(late)
		s.releaseBuckets(t.Context())
		w.fault.Store(fine)
		f.neighbour(t, false)
		for range 20 {
			s.loop.look = time.Time{}
			s.runShareRound(t.Context())
			g, _, _ = s.Grant(t.Context())
			for _, l := range must(f.store.Leases(t.Context(), bucketPrefix)) {
				var b uint32
				if _, err := fmt.Sscanf(l.Name, bucketPrefix+"%d", &b); err != nil {
					t.Fatal(err)
				}
				if slices.Contains(g.Buckets, b) && l.Until.Time().Before(g.Until) {
					t.Fatalf("granted %d until %v, its lease ends at %v", b, g.Until, l.Until)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if len(g.Buckets) != 64 {
			t.Errorf("after all it has %d buckets", len(g.Buckets))
		}
	})
}

func TestShareGivesBackWhatItGotWithoutKnowing(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		w := &wire{Locks: f.store}
		s := NewShare(w, ShareOptions{MemberOptions: MemberOptions{Node: "a"}})
		s.renewBuckets(t.Context())
		w.fault.Store(lost)
		s.takeBuckets(t.Context(), allOf(64))
		w.fault.Store(fine)
		f.neighbour(t, true)
		s.loop.look = time.Time{}
		s.runShareRound(t.Context())
		live := 0
		for _, l := range must(f.store.Leases(t.Context(), bucketPrefix)) {
			if l.Until.Time().After(time.Now()) {
				live++
			}
		}
		if g, _, _ := s.Grant(t.Context()); live != 32 || len(g.Buckets) != 32 {
			t.Errorf("%d leases have not ended, granted are %v", live, g.Buckets)
		}
	})
}

// A lease lasts from when the store received the request, and the answer may take long.
func TestShareTrustsALeaseFromWhenItAsked(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		a.wire.fault.Store(sluggish)
		for range 100 {
			time.Sleep(330 * time.Millisecond)
			g, _, _ := a.Grant(t.Context())
			for _, l := range must(f.store.Leases(t.Context(), bucketPrefix)) {
				if margin := l.Until.Time().Sub(g.Until); len(g.Buckets) > 0 && margin < time.Second-time.Millisecond {
					t.Fatalf("the grant ends %v before %s", margin, l.Name)
				}
			}
		}
	})
}

func TestShareDropsWhatAnotherHasTaken(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		time.Sleep(5 * time.Second)
		for _, l := range must(f.store.Leases(t.Context(), bucketName(7))) {
			if _, err := f.store.Lock(t.Context(), "thief", time.Minute, []rouse.Want{{Name: l.Name, If: l.Epoch}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * time.Second)
		if _, ok := f.owners()[7]; ok || f.has(a) != 63 {
			t.Errorf("a has %d buckets", f.has(a))
		}
		time.Sleep(time.Minute)
		if f.has(a) != 64 {
			t.Errorf("it has %d buckets after the other's lease ended", f.has(a))
		}
	})
}

func must(l []rouse.Lease, _ rouse.Instant, err error) []rouse.Lease {
	if err != nil {
		panic(err)
	}
	return l
}

func TestShareAtRestAsksLittle(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		for _, name := range []string{"a", "b", "c"} {
			f.join(name)
		}
		time.Sleep(30 * time.Second)
		for _, p := range f.nodes {
			p.wire.calls.Store(0)
		}
		time.Sleep(1000 * time.Second)
		for _, p := range f.nodes {
			if n := p.wire.calls.Load(); n > 905 {
				t.Errorf("%s asked the store %d times in 1000 s", p.Node(), n)
			}
		}
	})
}

func TestShareTellsOfChanges(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		s := NewShare(f.store, ShareOptions{MemberOptions: MemberOptions{Node: "a"}})
		changed := func() bool {
			select {
			case <-s.Changed():
				return true
			default:
				return false
			}
		}
		s.runShareRound(t.Context())
		if !changed() {
			t.Error("not told of the first buckets")
		}
		if s.Grant(t.Context()); changed() {
			t.Error("signalled although the grant was the same")
		}
		time.Sleep(s.o.TTL / 6)
		if s.runShareRound(t.Context()); changed() {
			t.Error("told of a look that changed nothing")
		}
		time.Sleep(s.o.TTL/6 + time.Millisecond)
		if s.runShareRound(t.Context()); !changed() {
			t.Error("not told of a renewal")
		}
		s.Grant(t.Context())
		time.Sleep(s.o.TTL)
		s.releaseBuckets(t.Context())
		if !changed() {
			t.Error("not told that the grant has ended")
		}
	})
}

func TestShareOfANameThatIsTakenHasNothing(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a := f.join("a")
		time.Sleep(5 * time.Second)
		twin := NewShare(f.store, ShareOptions{MemberOptions: MemberOptions{Node: "a"}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { twin.Run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		if g, _, _ := twin.Grant(ctx); len(g.Buckets) > 0 || f.has(a) != 64 {
			t.Errorf("the second one has %v, the first %d", g.Buckets, f.has(a))
		}
		if err := twin.Healthy(); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("its health is %v", err)
		}
		cancel()
		<-ended
		if err := a.Healthy(); err != nil || f.has(a) != 64 {
			t.Errorf("when it left, the first has %d: %v", f.has(a), err)
		}
	})
}

func TestShareNodesSayWhatTheyAre(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		for i, name := range []string{"b", "a"} {
			f.o.Data = func() []byte { return fmt.Appendf(nil, `{"address": "10.0.0.%d"}`, i) }
			f.join(name)
			time.Sleep(10 * time.Second)
		}
		nodes, err := f.nodes["b"].Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%+v %v", nodes, err)
		}
		a, b := nodes[0], nodes[1]
		if a.ID != "a" || a.Owner != f.nodes["a"].Owner() || string(a.Data) != `{"address":"10.0.0.1"}` || a.Leader || len(a.Buckets) != 32 {
			t.Errorf("%+v", a)
		}
		if b.ID != "b" || !b.Leader || !f.nodes["b"].Leader() || len(b.Buckets) != 32 || slices.Contains(a.Buckets, b.Buckets[0]) {
			t.Errorf("%+v", b)
		}
		f.nodes["b"].cut()
		eventually(t, 14*time.Second, "a leads", f.nodes["a"].Leader)
		eventually(t, time.Second, "a has all buckets", func() bool { return f.has(f.nodes["a"]) == 64 })
		if nodes, err = f.nodes["a"].Nodes(t.Context()); err != nil || len(nodes) != 1 || !nodes[0].Leader || len(nodes[0].Buckets) != 64 {
			t.Errorf("%+v %v", nodes, err)
		}
	})
}
