package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/store/mem"
)

var (
	_ rouse.Strategy = (*Tick)(nil)
	_ rouse.Runner   = (*Tick)(nil)
)

// ticking is a number of nodes on one clock, and records which node won which tick.
type ticking struct {
	store *mem.Store
	skew  time.Duration // of the store's clock
	mu    sync.Mutex
	won   []string
	at    []time.Time
	wires map[string]*wire
	stops []func()
}

func newTicking(t *testing.T) *ticking {
	g := &ticking{wires: map[string]*wire{}}
	g.store = mem.NewWithClock(func() time.Time {
		g.mu.Lock()
		defer g.mu.Unlock()
		return time.Now().Add(g.skew)
	})
	t.Cleanup(func() {
		for _, stop := range g.stops {
			stop()
		}
	})
	return g
}

func (g *ticking) join(name string, o TickOptions) {
	w := &wire{Locks: g.store}
	g.wires[name] = w
	o.Node = name
	s := NewTick(w, g.store, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, done, err := s.Grant(ctx)
			if err != nil {
				backoff.Sleep(ctx, time.Second)
				continue
			}
			g.mu.Lock()
			g.won, g.at = append(g.won, name), append(g.at, time.Now())
			g.mu.Unlock()
			done(false)
		}
	}()
	g.stops = append(g.stops, func() { cancel(); <-ended })
}

// wins returns how many ticks each node won in a time.
func (g *ticking) wins(in time.Duration) map[string]int {
	g.mu.Lock()
	g.won, g.at = nil, nil
	g.mu.Unlock()
	time.Sleep(in)
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]int{}
	for _, name := range g.won {
		out[name]++
	}
	return out
}

func sum(wins map[string]int) (n int) {
	for _, w := range wins {
		n += w
	}
	return n
}

func TestTickIsOneNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTicking(t)
		names := []string{"a", "b", "c"}
		for _, name := range names {
			g.join(name, TickOptions{Buckets: 4})
		}
		time.Sleep(10 * time.Second)
		for _, w := range g.wires {
			w.calls.Store(0)
		}
		wins := g.wins(1000 * time.Second)
		if n := sum(wins); n < 900 || n > 1001 {
			t.Errorf("%d ticks in 1000 s: %v", n, wins)
		}
		for _, name := range names {
			if wins[name] < 50 {
				t.Errorf("%s won %d of %d ticks", name, wins[name], sum(wins))
			}
			if calls := g.wires[name].calls.Load(); calls > 1050 {
				t.Errorf("%s asked the store %d times in 1000 s", name, calls)
			}
		}
		for i := 1; i < len(g.at); i++ {
			if d := g.at[i].Sub(g.at[i-1]); d < 900*time.Millisecond {
				t.Fatalf("tick %d, %v after the one before", i, d)
			}
		}
	})
}

func TestTickGrantsEveryBucketToBeHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTick(mem.New(), nil, TickOptions{Buckets: 3, Hold: time.Minute})
		g, done, err := s.Grant(t.Context())
		if err != nil || !slices.Equal(g.Buckets, []uint32{0, 1, 2}) || g.Hold != time.Minute || !g.Until.IsZero() {
			t.Fatalf("granted %+v: %v", g, err)
		}
		first := time.Now()
		for range 3 { // a claim that is not exhausted continues immediately
			done(true)
			if _, done, err = s.Grant(t.Context()); err != nil || time.Since(first) > 0 {
				t.Fatalf("%v after the claim that left something: %v", time.Since(first), err)
			}
		}
		done(false)
		if _, _, err = s.Grant(t.Context()); err != nil || time.Since(first) < 900*time.Millisecond {
			t.Errorf("the next tick came after %v: %v", time.Since(first), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err = s.Grant(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a grant whose context ended: %v", err)
		}
	})
}

func TestTickGoesOnWithoutTheDeadAndAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTicking(t)
		g.join("a", TickOptions{})
		g.join("b", TickOptions{})
		time.Sleep(10 * time.Second)
		g.wires["a"].fault.Store(frozen)
		if wins := g.wins(100 * time.Second); wins["b"] < 90 || wins["a"] > 0 {
			t.Errorf("a is stopped: %v", wins)
		}
		g.wires["b"].fault.Store(refused)
		if wins := g.wins(time.Hour); sum(wins) > 0 {
			t.Errorf("ticks without a store: %v", wins)
		}
		g.wires["a"].fault.Store(fine)
		g.wires["b"].fault.Store(fine)
		if wins := g.wins(10 * time.Second); sum(wins) < 8 || sum(wins) > 12 {
			t.Errorf("in 10 s after an outage of an hour: %v", wins)
		}
		l, _, err := readOneLease(t.Context(), g.store, "clock/now")
		if at, _ := rouse.ParseInstant(string(l.Data)); err != nil || time.Since(at.Time()) > 2*time.Second {
			t.Errorf("the clock is at %s: %v", l.Data, err)
		}
	})
}

func TestTickNoticesAnAdvanceThatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Locks: mem.New()}
		s := NewTick(w, nil, TickOptions{Node: "a"})
		if _, _, err := s.Grant(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.fault.Store(lost)
		if _, _, err := s.Grant(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("the answer was lost: %v", err)
		}
		w.fault.Store(fine)
		asked, calls := time.Now(), w.calls.Load()
		if _, _, err := s.Grant(t.Context()); err != nil || time.Since(asked) > 700*time.Millisecond || w.calls.Load() != calls+1 {
			t.Errorf("after %v and %d calls: %v", time.Since(asked), w.calls.Load()-calls, err)
		}
	})
}

func TestTickGoesOnWhenTheStoresClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTicking(t)
		g.join("a", TickOptions{})
		g.join("b", TickOptions{})
		last := rouse.Instant(0)
		for _, skew := range []time.Duration{0, time.Hour, -time.Hour, 0} {
			g.mu.Lock()
			g.skew = skew
			g.mu.Unlock()
			if wins := g.wins(100 * time.Second); sum(wins) < 85 || sum(wins) > 105 {
				t.Errorf("the store's clock is %v off: %v ticks", skew, wins)
			}
			l, _, err := readOneLease(t.Context(), g.store, "clock/now")
			at, _ := rouse.ParseInstant(string(l.Data))
			if err != nil || at < last {
				t.Errorf("the clock went from %v to %v: %v", last, at, err)
			}
			last = at
		}
	})
}

func TestTickLooksForWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var mu sync.Mutex
		var found []string
		ctx, cancel := context.WithCancel(context.Background())
		put := func(name string, visible time.Duration) {
			r := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Bucket: uint32(len(name) % 2)}
			r.Visible = rouse.Reached(time.Now().Add(visible))
			if _, err := store.Apply(ctx, []rouse.Change{{Key: r.Key, To: &r}}); err != nil {
				t.Error(err)
			}
		}
		put("old", -time.Hour)
		put("older", -time.Hour)
		put("late", -9*time.Minute)
		put("soon", time.Hour)
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			s := NewTick(store, store, TickOptions{Node: name, Buckets: 2, Missed: func(n int) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, fmt.Sprint(n))
			}})
			wg.Go(func() { s.Run(ctx) })
		}
		defer wg.Wait()
		defer cancel()
		seen := func() (got []string) {
			mu.Lock()
			defer mu.Unlock()
			got, found = found, nil
			return got
		}
		time.Sleep(confirmTicks * time.Second)
		synctest.Wait()
		if got := seen(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("the first look found %v", got)
		}
		time.Sleep(150 * time.Second)
		if got := seen(); !slices.Equal(got, []string{"3", "3"}) {
			t.Errorf("two looks, by one of two nodes each, found %v", got)
		}
		if _, err := store.Claim(ctx, rouse.Window{Buckets: []uint32{0, 1}, Limit: 10, Hold: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got := seen(); len(got) < 1 || slices.Max(got) != "0" {
			t.Errorf("after the claim they found %v", got)
		}
	})
}

// TestTickDoesNotCountWhatAnOutageLeft: the first clock claims it a moment after the second one has seen it.
func TestTickDoesNotCountWhatAnOutageLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		r := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: "a"}, Visible: rouse.Reached(time.Now().Add(-time.Hour))}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: &r}}); err != nil {
			t.Fatal(err)
		}
		var found []int
		ctx, cancel := context.WithCancel(t.Context())
		s := NewTick(store, store, TickOptions{Node: "a", Missed: func(n int) { found = append(found, n) }})
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(ctx) })
		synctest.Wait() // it has seen the row
		g, done, err := s.Grant(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b, err := store.Claim(t.Context(), rouse.Window{Buckets: g.Buckets, Limit: 10, Hold: g.Hold}); err != nil || len(b.Rows) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		done(false)
		time.Sleep(20 * time.Second)
		cancel()
		wg.Wait()
		if !slices.Equal(found, []int{0}) {
			t.Errorf("missed: %v", found)
		}
	})
}

// What the second clock finds is claimed even if the first one does not advance: here its
// value is far ahead.
func TestTickClaimsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		ahead := rouse.Reached(time.Now().Add(time.Hour))
		if _, err := store.Lock(t.Context(), "another", forEver, []rouse.Want{{Name: "clock/now", Data: []byte(ahead.String())}}); err != nil {
			t.Fatal(err)
		}
		s := NewTick(store, store, TickOptions{Node: "a", Every: 30 * time.Minute, Delay: 2 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { s.Run(ctx) })
		grant := func(within time.Duration) error {
			asking, stop := context.WithTimeout(ctx, within)
			defer stop()
			_, done, err := s.Grant(asking)
			done(false)
			return err
		}
		if err := grant(10 * time.Minute); err == nil {
			t.Fatal("granted though nothing was missed, and no tick was over")
		}
		row := rouse.Row{Key: rouse.Key{Namespace: "ns", Name: "late"}, Visible: rouse.Reached(time.Now())}
		if _, err := store.Apply(ctx, []rouse.Change{{Key: row.Key, To: &row}}); err != nil {
			t.Fatal(err)
		}
		if err := grant(4 * time.Minute); err != nil {
			t.Errorf("what was missed is not claimed: %v", err)
		}
	})
}
