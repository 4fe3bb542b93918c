package quota

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// TestPlacesAreDivided: the sum is always the whole, those that want more get no less, and over some turns
// each node that wants some gets one.
func TestPlacesAreDivided(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for range 2000 {
		d := division{wants: make([]float64, 1+r.IntN(6))}
		most := r.IntN(30)
		wanted := false
		for i := range d.wants {
			if r.IntN(3) > 0 {
				d.wants[i], wanted = r.Float64()*float64(r.IntN(1000)), true
			}
		}
		had := make([]bool, len(d.wants))
		for range d.wants {
			d.turn++
			sum := 0
			places := d.placesOf(most)
			for i, n := range places {
				sum += n
				had[i] = had[i] || n > 0
				for k, m := range places {
					if n < 0 || d.wants[i] > d.wants[k] && n < m-1 {
						t.Fatalf("%v of %d for %v", places, most, d.wants)
					}
				}
			}
			if sum != most {
				t.Fatalf("%v of %d for %v", places, most, d.wants)
			}
		}
		for i := range had {
			if most > 0 && wanted && d.wants[i] > 0 && !had[i] {
				t.Fatalf("node %d of %v gets no place of %d", i, d.wants, most)
			}
		}
	}
}

// offStore is a store that can be away.
type offStore struct {
	rouse.Store
	away atomic.Bool
}

var errAway = errors.New("away")

func (s *offStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.Apply(ctx, changes)
}

// TestSharesOfTargetsNeedTheOthers: a node has no share until the others know of it, and none that could not
// tell them that it is there; but alone it has all, at once if it is certain that there is no other.
func TestSharesOfTargetsNeedTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rouse.Limit{Namespace: "ns", Name: "target:a", Concurrency: 12, Rate: rouse.LimitRate{Count: 1, Per: time.Second}}
		store := mem.New()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{}, 6)
		running := 0
		run := func(store rouse.Store, name string, alone bool) *Book {
			log := slog.New(slog.DiscardHandler)
			shared := access.NewShared(store, log)
			b := New(store, shared, Options{Node: func() string { return name }, Now: store.Now, Log: log,
				Targets: func() []rouse.Limit { return []rouse.Limit{l} }, Divided: func() {},
				Uses: func() map[rouse.Key]rouse.LimitUse { return nil }})
			if err := shared.Load(ctx); err != nil {
				t.Fatal(err)
			}
			running += 2
			go func() { shared.Run(ctx); done <- struct{}{} }()
			go func() { b.Run(ctx, alone); done <- struct{}{} }()
			return b
		}
		t.Cleanup(func() {
			end()
			for range running {
				<-done
			}
		})
		want := func(what string, b *Book, most int, part float64) {
			t.Helper()
			synctest.Wait()
			if m, p := b.TargetShare(&l); m != most || p != part {
				t.Errorf("%s: a share of %d and %v, want %d and %v", what, m, p, most, part)
			}
		}
		want("certainly alone", run(mem.New(), "x", true), 12, 1)
		off := &offStore{Store: store}
		one := run(off, "one", false)
		want("in the first round", one, 0, 0)
		time.Sleep(2*publishEvery - 1)
		want("alone", one, 12, 1)
		time.Sleep(time.Minute)
		two := run(store, "two", false)
		want("that has just begun", two, 0, 0)
		time.Sleep(settled * publishEvery)
		want("with another one", one, 6, 0.5)
		time.Sleep(publishEvery)
		want("with another one", two, 6, 0.5)
		off.away.Store(true)
		time.Sleep(goneAfter)
		want("without a store", one, 0, 0)
		time.Sleep((settled + 1) * publishEvery)
		want("whose peer is gone", two, 12, 1)
		off.away.Store(false)
		time.Sleep((settled + 2) * publishEvery)
		want("that is back", one, 6, 0.5)
	})
}

// TestPlacesOfOthersAreNotFree: until their attempts have ended.
func TestPlacesOfOthersAreNotFree(t *testing.T) {
	l := rouse.Limit{Concurrency: 4}
	ts := new(targetShare)
	share := func(has int) (shares []int) {
		for range settled {
			d := division{part: 1, wants: []float64{1, 3}, has: []int{has, 0}, mine: 1}
			copy(ts.divisions[1:], ts.divisions[:])
			ts.divisions[0] = d
			most, _ := ts.shareOf(&l)
			shares = append(shares, most)
		}
		return shares
	}
	for i := range ts.divisions {
		ts.divisions[i] = division{part: 1, wants: []float64{3, 1}, mine: 1}
	}
	if got := share(3); !slices.Equal(got, []int{0, 0, 1}) {
		t.Errorf("a larger share by rounds is %v while the other one has 3 in progress", got)
	}
	if got := share(1); got[2] != 2 {
		t.Errorf("a share is %v when its places are free", got)
	}
}

// TestAShareIsUsedOnceItIsPublished: the places that become free are in a node's note before it uses them, so
// that of two nodes that find the same place free at least one knows of the other.
func TestAShareIsUsedOnceItIsPublished(t *testing.T) {
	l := rouse.Limit{Namespace: "ns", Name: "target:a", Concurrency: 10}
	key := rouse.Key{Namespace: l.Namespace, Name: l.Name}
	store := mem.New()
	b := New(store, access.NewShared(store, slog.New(slog.DiscardHandler)), Options{Node: func() string { return "a" }, Now: store.Now,
		Targets: func() []rouse.Limit { return []rouse.Limit{l} }, Divided: func() {},
		Uses: func() map[rouse.Key]rouse.LimitUse { return map[rouse.Key]rouse.LimitUse{key: {Waiting: 100}} }})
	b.divideTargets(0, map[string]published{"a": {}, "b": {}}, false)
	b.targets.begins = 0
	other := targetDemand{Wants: 100, Has: 5}
	most := 0
	for round := range 20 {
		mine := b.targetDemands()
		has := mine[targetName(key)].Has
		b.divideTargets(0, map[string]published{"a": {Targets: mine}, "b": {Targets: map[string]targetDemand{targetName(key): other}}}, false)
		if most, _ = b.TargetShare(&l); round > 0 && most > has {
			t.Errorf("round %d: %d places, and the others know of %d", round, most, has)
		}
		if round == 10 {
			if most != 5 {
				t.Errorf("%d places of 10 with another node that wants as many", most)
			}
			other = targetDemand{}
		}
	}
	if most != 9 { // the other one keeps one
		t.Errorf("%d places of 10 alone", most)
	}
}
