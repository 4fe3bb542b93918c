package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// fits writes a row of so many bytes if there is room for it.
func (n *node) fits(t *testing.T, name string, size int) bool {
	t.Helper()
	return n.fitsAfter(t, name, size, 0)
}

// fitsAfter does so a while after its admission.
func (n *node) fitsAfter(t *testing.T, name string, size int, underway time.Duration) bool {
	t.Helper()
	key := rouse.Key{Namespace: "acme", Name: name}
	row := rouse.Row{Key: key, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateScheduled, Body: []byte(strings.Repeat("x", size-len(name)-4))}
	_, err := n.Fit("acme", []int64{row.Size()})
	if err != nil {
		var q *rouse.QuotaError
		var again *rouse.RetryAfter
		if !errors.As(err, &q) || q.Quota != rouse.QuotaBytes || !errors.As(err, &again) || again.After <= 0 {
			t.Fatal(err)
		}
		return false
	}
	time.Sleep(underway)
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: key, To: &row, If: rouse.AnyRevision}}); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestBytesHoldOverAllNodes has nodes that write as much as they are allowed to, of rows of several sizes, in
// a namespace that has some already.
func TestBytesHoldOverAllNodes(t *testing.T) {
	for _, c := range []struct {
		nodes, size, most int
		every             time.Duration // between two writes of a node
	}{{1, 1000, 500_000, time.Millisecond}, {3, 100, 200_000, time.Millisecond}, {3, 1000, 500_000, 10 * time.Millisecond},
		{3, 10_000, 1_000_000, time.Second}, {5, 2000, 1_000_000, 50 * time.Millisecond}} {
		most := c.most
		t.Run(fmt.Sprintf("%d nodes, %d bytes", c.nodes, c.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := nodes(t, c.nodes)
				written, refused := 0, 0
				for range 10 { // before there is a quota
					if !list[0].fits(t, fmt.Sprint("old", written), 10_000) {
						t.Fatal("refused without a quota")
					}
					written += 10_000
				}
				list[0].put(t, rouse.Quotas{Bytes: int64(most)})
				time.Sleep(measureEvery + 2*access.RefreshEvery + 2*publishEvery)
				for at := 0; at < 20*most/c.size/c.nodes && refused < 1000; at++ {
					for i, n := range list {
						if n.fits(t, fmt.Sprintf("%d-%d", i, at), c.size) {
							written += c.size
						} else {
							refused++
						}
					}
					time.Sleep(c.every)
				}
				time.Sleep(time.Minute) // of all that was left, half was given to each in turn
				for at := range 60 {
					for i, n := range list {
						for k := 0; n.fits(t, fmt.Sprintf("late-%d-%d-%d", i, at, k), c.size); k++ {
							written += c.size
						}
					}
					time.Sleep(publishEvery)
				}
				if float64(written) < 0.9*float64(most) || float64(written) > 1.1*float64(most) || refused == 0 {
					t.Errorf("%d bytes were written, %d writes were refused", written, refused)
				}
				for i, n := range list {
					if _, u, err := n.Get(t.Context(), "acme"); err != nil || float64(u.Bytes) < 0.9*float64(written) || float64(u.Bytes) > 1.1*float64(written) {
						t.Errorf("node %d shows %d bytes, %v; want %d", i, u.Bytes, err, written)
					}
				}
			})
		})
	}
}

// TestQuotasHoldWhateverTheRounds has nodes that learn of each other at any time, and all of them take what
// they can.
func TestQuotasHoldWhateverTheRounds(t *testing.T) {
	const most, size = 500_000, 500
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			list := nodesAnyhow(t, rand.New(rand.NewPCG(seed, 0)))
			time.Sleep(10 * time.Second)
			list[0].put(t, rouse.Quotas{Bytes: most, PoolGroups: most / size})
			time.Sleep(5 * time.Second)
			bytes, groups := 0, 0
			for at := range 15_000 {
				for i, n := range list {
					if n.fits(t, fmt.Sprintf("%d-%d", i, at), size) {
						bytes += size
					}
					if n.GroupRoom("acme") {
						n.groups.Add(1)
						groups++
					}
				}
				time.Sleep(2 * time.Millisecond)
			}
			if float64(bytes) > 1.1*most || float64(groups) > 1.1*most/size {
				t.Errorf("seed %d: %d nodes have %d bytes of %d, and %d groups of %d", seed, len(list), bytes, most, groups, most/size)
			}
		})
	}
}

// TestWritesUnderwayCount has writes that take a while, so that each measurement finds many that were
// admitted and are not in the store yet.
func TestWritesUnderwayCount(t *testing.T) {
	for _, count := range []int{1, 2} {
		t.Run(fmt.Sprint(count, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most, size, writers = 200_000, 2_000, 20
				list := nodes(t, count)
				list[0].put(t, rouse.Quotas{Bytes: most})
				time.Sleep(measureEvery + 2*access.RefreshEvery + 2*publishEvery)
				var writing sync.WaitGroup
				var written atomic.Int64
				for i, n := range list {
					for w := range writers {
						writing.Go(func() {
							for at := range 100 {
								if n.fitsAfter(t, fmt.Sprintf("%d-%d-%d", i, w, at), size, underway-100*time.Millisecond) {
									written.Add(size)
								}
								time.Sleep(time.Second)
							}
						})
					}
				}
				writing.Wait()
				if got := float64(written.Load()); got < 0.9*most || got > 1.1*most {
					t.Errorf("%v bytes were written, of %d", got, most)
				}
			})
		})
	}
}

// TestWhatEndsMakesRoom deletes rows, of which no node tells the book.
func TestWhatEndsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 2)
		list[0].put(t, rouse.Quotas{Bytes: 10_000})
		time.Sleep(measureEvery)
		for n := 0; ; n++ {
			if !list[1].fits(t, fmt.Sprint("a", n), 500) {
				if time.Sleep(publishEvery); n > 10_000 {
					t.Fatal("nothing is refused")
				}
				if !list[1].fits(t, fmt.Sprint("b", n), 500) && n > 100 {
					break
				}
			}
		}
		if _, err := list[1].Fit("acme", []int64{-100, 100}); err != nil {
			t.Errorf("a replacement that is no larger: %v", err)
		}
		page, err := list[0].store.List(t.Context(), rouse.Query{Namespace: "acme", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			if _, err := list[0].store.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: r.Revision}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2*measureEvery + 2*access.RefreshEvery + 2*publishEvery)
		if !list[1].fits(t, "fresh", 2000) {
			t.Error("an empty namespace is full")
		}
	})
}

// TestCalendarsAreMeasured: they are notes, which lists of timers do not have.
func TestCalendarsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodes(t, 1)[0]
		n.put(t, rouse.Quotas{Bytes: 100_000})
		c := rouse.Calendar{Namespace: "acme", Name: "closed", Days: make([]rouse.Day, 1000)}
		row := c.Row(0)
		key := rouse.CalendarKey("acme", "closed")
		if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: key, To: &row, If: rouse.NoRow}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*measureEvery + underway)
		if _, u, err := n.Get(t.Context(), "acme"); err != nil || u.Bytes != row.Size() {
			t.Errorf("%d bytes, %v; want %d", u.Bytes, err, row.Size())
		}
	})
}

// TestANodeThatEndsHasWritten ends one node between two measurements, and starts it again.
func TestANodeThatEndsHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 2)
		list[0].put(t, rouse.Quotas{Bytes: 100_000})
		time.Sleep(measureEvery)
		if !list[1].fits(t, "one", 20_000) {
			t.Fatal("refused")
		}
		time.Sleep(publishEvery + access.RefreshEvery + time.Second)
		again := newNode(t, list[0].store.Store, "node-1") // the run before published what it wrote
		if err := again.publishDemand(t.Context(), rouse.At(time.Now()), again.newPublished(1), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(access.RefreshEvery + publishEvery)
		if got := list[0].findSpace("acme").usedBytes(); got < 20_000 { // more until it is measured again
			t.Errorf("%d bytes, want those of the run that ended", got)
		}
	})
}

// TestMeasuringReadsWhatHasChanged bounds what an idle namespace costs the store.
func TestMeasuringReadsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodes(t, 1)[0]
		n.put(t, rouse.Quotas{Bytes: 100_000})
		n.fits(t, "one", 1000)
		time.Sleep(3 * measureEvery)
		before := n.store.lists.Load()
		time.Sleep(10 * time.Minute)
		if reads := n.store.lists.Load() - before; reads != 0 {
			t.Errorf("%d pages of a namespace that did not change were read", reads)
		}
	})
}

// TestGroupsHoldOverAllNodes has nodes that start as many groups of workers as they may.
func TestGroupsHoldOverAllNodes(t *testing.T) {
	for _, c := range []struct{ nodes, most int }{{1, 3}, {3, 40}, {3, 400}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := nodes(t, c.nodes)
				if !list[0].GroupRoom("acme") {
					t.Error("no room in a namespace that was not created")
				}
				list[0].put(t, rouse.Quotas{PoolGroups: int64(c.most)})
				time.Sleep(2 * (publishEvery + access.RefreshEvery))
				for range 2000 {
					for _, n := range list {
						if n.GroupRoom("acme") {
							n.groups.Add(1)
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				sum := 0
				groups := make([]int, len(list))
				for i, n := range list {
					groups[i] = int(n.groups.Load())
					sum += groups[i]
				}
				if float64(sum) < 0.9*float64(c.most) || float64(sum) > 1.1*float64(c.most) {
					t.Errorf("%v groups, want %d in all", groups, c.most)
				}
				if _, u, err := list[0].Get(t.Context(), "acme"); err != nil || u.PoolGroups != int64(sum) {
					t.Errorf("%d groups are shown, %v; want %d", u.PoolGroups, err, sum)
				}
			})
		})
	}
}

// TestTheFirstNamespaceIsShared: two nodes know of each other before there is a quota.
func TestTheFirstNamespaceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 2)
		time.Sleep(4*publishEvery + 2*access.RefreshEvery)
		const most = 40
		list[0].put(t, rouse.Quotas{PoolGroups: most})
		for range 600 {
			for _, n := range list {
				for n.Exists("acme") && n.GroupRoom("acme") {
					n.groups.Add(1)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if sum := list[0].groups.Load() + list[1].groups.Load(); sum < 0.9*most || sum > 1.1*most {
			t.Errorf("%d groups in all, want %d", sum, most)
		}
	})
}

// TestWhatIsKnownOfAnotherNodeMayBeOld: a measurement has what a node wrote until then. Less of it, which is
// known from before, takes nothing off the measured bytes.
func TestWhatIsKnownOfAnotherNodeMayBeOld(t *testing.T) {
	m := measured{Bytes: 1000, Written: map[string]int64{"a": 300, "b": 50}}
	for _, c := range []struct {
		known   map[string]int64
		since   int64
		differs bool
	}{{map[string]int64{"a": 300, "b": 50}, 0, false}, {map[string]int64{"a": 200, "b": 50}, 0, true}, {map[string]int64{"a": 200, "b": 90}, 40, true}, {map[string]int64{"c": 7}, 7, true}} {
		if since, differs := m.writtenSince(c.known), m.hasNewWrites(c.known); since != c.since || differs != c.differs {
			t.Errorf("%v: %d since, %v", c.known, since, differs)
		}
	}
}

// TestADeadNodeHoldsNothing kills a node that has groups of workers and has written, and starts none of its
// name again: its groups and its demand count no longer, its bytes do, also for a node that starts later, and
// its note is deleted.
func TestADeadNodeHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		list := nodes(t, 2)
		store := list[0].store.Store
		list[0].put(t, rouse.Quotas{PoolGroups: 5, Bytes: 100_000, Creates: 100})
		time.Sleep(measureEvery)
		for old := list[0].sizes.lastMeasured("acme"); list[0].sizes.lastMeasured("acme").Rows == old.Rows; time.Sleep(100 * time.Millisecond) {
			list[0].fits(t, "before", 1000)
		}
		dead := newNode(t, store, "killed") // just after a measurement, so that the next one is after its death
		dead.groups.Store(5)
		if !dead.fits(t, "one", 20_000) {
			t.Fatal("refused")
		}
		_, _ = dead.Writes("acme", 500)
		if err := dead.publishDemand(t.Context(), rouse.At(time.Now()), dead.newPublished(1), false); err != nil {
			t.Fatal(err)
		}
		noted := func() bool {
			row, err := store.Get(t.Context(), []rouse.Key{{Namespace: access.Reserved, Name: "\x01demand/killed"}})
			if err != nil {
				t.Fatal(err)
			}
			return row[0].Revision > 0
		}
		time.Sleep(publishEvery + access.RefreshEvery)
		if _, u, err := list[0].Get(t.Context(), "acme"); err != nil || u.PoolGroups != 5 || u.Creates == 0 || list[1].GroupRoom("acme") || !noted() {
			t.Errorf("while it lives: %+v, %v", u, err)
		}
		for ; noted(); time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 5*time.Minute {
				t.Fatal("its note stays for ever")
			}
		}
		late := newNode(t, store, "late")
		if got := late.findSpace("acme").usedBytes(); got < 21_000 {
			t.Errorf("a node that starts then finds %d bytes", got)
		}
		time.Sleep(publishEvery)
		for i, n := range list {
			if _, u, err := n.Get(t.Context(), "acme"); err != nil || u.PoolGroups != 0 || u.Creates != 0 || u.Bytes < 21_000 || !n.GroupRoom("acme") {
				t.Errorf("node %d after its death: %+v, %v", i, u, err)
			}
		}
		for i, n := range append(list, late) {
			if _, u, err := n.Get(t.Context(), "acme"); err != nil || u.Bytes > 22_000 {
				t.Errorf("node %d when all was measured: %d bytes, %v; want 21000", i, u.Bytes, err)
			}
		}
	})
}
