package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

func TestLayoutsAreOfEqualShares(t *testing.T) {
	for _, c := range []struct{ buckets, shares, width uint32 }{
		{1, 1, 1}, {2, 2, 1}, {16, 16, 1}, {64, 16, 4}, {100, 17, 6}, {1024, 16, 64},
	} {
		l := NewLayout(c.buckets)
		from, end := l.Range(0)
		if !l.isValid() || uint32(len(l.Starts)) != c.shares || from != 0 || end != c.width {
			t.Errorf("%d buckets: %+v", c.buckets, l)
		}
		if _, end := l.Range(len(l.Starts) - 1); end != c.buckets {
			t.Errorf("%d buckets: the last share ends at %d", c.buckets, end)
		}
	}
}

func TestLayoutSplitsAndMerges(t *testing.T) {
	first := NewLayout(64)
	l, err := first.Split(6)
	if err != nil || !slices.Equal(l.Starts[:4], []uint32{0, 4, 6, 8}) || len(first.Starts) != 16 {
		t.Fatalf("%+v of %+v: %v", l, first, err)
	}
	for b, share := range map[uint32]int{0: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 2, 8: 3, 63: 16} {
		if l.Of(b) != share {
			t.Errorf("bucket %d is in share %d, want %d", b, l.Of(b), share)
		}
	}
	if l, err = l.Merge(6); err != nil || !l.equalLayout(first) {
		t.Errorf("%+v: %v", l, err)
	}
	if l, err = l.Merge(60); err != nil || len(l.Starts) != 15 {
		t.Errorf("%+v: %v", l, err)
	}
	for at, what := range map[uint32]string{4: "already", 64: "last one is 63"} {
		if _, err := first.Split(at); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("split at %d: %v", at, err)
		}
	}
	for _, at := range []uint32{0, 5, 99} {
		if _, err := first.Merge(at); err == nil {
			t.Errorf("merged at %d", at)
		}
	}
}

func TestLayoutIsTheFirstOneUntilAValidOneIsWritten(t *testing.T) {
	for _, data := range []string{"", "{", `{"buckets":64}`, `{"buckets":64,"starts":[1,2]}`, `{"buckets":64,"starts":[0,9,9]}`,
		`{"buckets":64,"starts":[0,64]}`, `{"buckets":32,"starts":[0,9]}`} {
		if l := layoutOf(rouse.Lease{Data: []byte(data)}, 64); !l.equalLayout(NewLayout(64)) {
			t.Errorf("%q is read as %+v", data, l)
		}
	}
	if l := layoutOf(rouse.Lease{Data: []byte(`{"buckets":64,"starts":[0,9]}`)}, 64); len(l.Starts) != 2 {
		t.Errorf("read as %+v", l)
	}
}

func TestLayoutEditsDoNotOverwriteEachOther(t *testing.T) {
	store := mem.New()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 3 {
				at := uint32(4*n + i + 1)
				if _, err := EditLayout(t.Context(), store, 64, func(l Layout) (Layout, error) { return l.Split(at) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l, err := ReadLayout(t.Context(), store, 64)
	if err != nil || len(l.Starts) != 16+8*3 {
		t.Errorf("%+v: %v", l, err)
	}
	refusal := errors.New("no")
	if _, err := EditLayout(t.Context(), store, 64, func(l Layout) (Layout, error) { return l, refusal }); !errors.Is(err, refusal) {
		t.Errorf("an edit that refuses: %v", err)
	}
	if _, err := EditLayout(t.Context(), store, 64, func(Layout) (Layout, error) { return Layout{}, nil }); err == nil {
		t.Error("what is no layout was written")
	}
}

func TestShareFollowsTheLayout(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		for _, name := range []string{"a", "b", "c"} {
			f.join(name)
		}
		time.Sleep(20 * time.Second)
		before := f.owners()
		for _, at := range []uint32{1, 2, 3} { // the first share is hot
			if _, err := f.nodes["b"].Split(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		f.balanced()
		after := f.owners()
		if after[0] == after[1] && after[1] == after[2] && after[2] == after[3] {
			t.Error("the split share is still one node's")
		}
		moved := 0
		for b := range after {
			if before[b] != after[b] {
				moved++
			}
		}
		if moved > 16 {
			t.Errorf("%d buckets moved", moved)
		}
		for _, at := range []uint32{1, 2, 3} {
			if _, err := f.nodes["c"].Merge(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		f.balanced()
		if now := f.owners(); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("merged again, owners are %v, they were %v", now, before)
		}
		if l, err := f.nodes["a"].Layout(t.Context()); err != nil || !l.equalLayout(NewLayout(64)) {
			t.Errorf("the layout is %+v: %v", l, err)
		}
	})
}

func TestFitSplitsWhatIsHot(t *testing.T) {
	l := NewLayout(64)
	load := map[uint32]float64{}
	for b := range uint32(64) {
		load[b] = 50
	}
	if to, better := l.fitLoads(load, 3, 100); better {
		t.Errorf("even loads: %+v", to)
	}
	load[9] = 2000
	for step, at := range []uint32{10, 9} { // until the hot bucket is a share of its own
		to, better := l.fitLoads(load, 3, 100)
		if !better || len(to.Starts) != len(l.Starts)+1 || !slices.Contains(to.Starts, at) {
			t.Fatalf("step %d: %+v", step, to)
		}
		l = to
	}
	if to, better := l.fitLoads(load, 3, 100); better {
		t.Errorf("a share of one bucket: %+v", to)
	}
	if to, better := NewLayout(64).fitLoads(map[uint32]float64{9: 90}, 3, 100); better {
		t.Errorf("hot in relation only: %+v", to)
	}
}

func TestFitMergesWhatIsIdle(t *testing.T) {
	l := NewLayout(64)
	for _, at := range []uint32{9, 10, 33} {
		l, _ = l.Split(at)
	}
	load := map[uint32]float64{20: 40, 21: 80, 40: 70}
	for range 3 {
		to, better := l.fitLoads(load, 2, 200)
		if !better || len(to.Starts) != len(l.Starts)-1 {
			t.Fatalf("%+v", to)
		}
		l = to
	}
	if to, better := l.fitLoads(load, 2, 200); better || !l.equalLayout(NewLayout(64)) {
		t.Errorf("%+v became %+v: not the narrow ones were merged, or not enough left", l, to)
	}
}

func TestFitMakesAShareForEachNode(t *testing.T) {
	l := NewLayout(64)
	steps := 0
	for better := true; better; steps++ {
		l, better = l.fitLoads(nil, 20, 100)
	}
	if len(l.Starts) != 40 || steps != 25 {
		t.Errorf("%d shares after %d steps", len(l.Starts), steps)
	}
}

// For all loads, balancing ends and does not oscillate.
func TestFitSettles(t *testing.T) {
	for seed := range uint32(50) {
		l := NewLayout(64)
		load := map[uint32]float64{}
		for b := range uint32(64) {
			load[b] = float64(pairWeight("load", b+seed*64)%1000) * float64(pairWeight("hot", b+seed*64)%7) / 5
		}
		for steps := 0; ; steps++ {
			to, better := l.fitLoads(load, int(seed%10)+1, 100)
			if !better {
				break
			}
			if l = to; steps > 100 {
				t.Fatalf("seed %d: still not: %+v", seed, l)
			}
		}
	}
}

func TestLeaderSplitsAndMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(ShareOptions{Buckets: 64})
		t.Cleanup(f.end)
		hot := 900.0
		var mu sync.Mutex
		f.o.Load = func() map[uint32]float64 {
			mu.Lock()
			defer mu.Unlock()
			return map[uint32]float64{32: hot / 3, 33: hot / 3, 34: hot / 3}
		}
		f.join("a")
		f.join("b")
		starts := func() []uint32 {
			l, err := ReadLayout(context.Background(), f.store, 64)
			if err != nil {
				t.Fatal(err)
			}
			return l.Starts
		}
		time.Sleep(25 * time.Second)
		if n := len(starts()); n != 16 {
			t.Errorf("%d shares after one look at the loads", n)
		}
		time.Sleep(10 * time.Minute)
		if s := starts(); !slices.Contains(s, 33) || !slices.Contains(s, 34) || len(s) != 16 {
			t.Errorf("shares begin at %v: the hot ones are not alone, or the idle ones were not merged for them", s)
		}
		f.balanced()
		mu.Lock()
		hot = 0
		mu.Unlock()
		if _, err := f.nodes["a"].Split(t.Context(), 63); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if s := starts(); len(s) != 16 {
			t.Errorf("shares begin at %v, all are idle", s)
		}
		f.balanced()
		for _, w := range f.wrong {
			t.Error(w)
		}
	})
}
