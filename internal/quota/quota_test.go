package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// node is one node of a test: its book, with the shared state behind it.
type node struct {
	*Book
	shared *access.Shared
	store  *counting
	groups atomic.Int64
}

func newNode(t *testing.T, store rouse.Store, name string) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &node{store: &counting{Store: store}}
	n.shared = access.NewShared(n.store, log)
	n.Book = New(n.store, n.shared, Options{Node: func() string { return name }, Now: n.store.Now, Log: log,
		Groups: func(string) int { return int(n.groups.Load()) }})
	if err := n.shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// nodes runs nodes until the test ends. Their rounds are at different times.
func nodes(t *testing.T, n int) []*node {
	t.Helper()
	return nodesLate(t, n, func(i int) (refresh, share time.Duration) {
		late := time.Duration(i) * 617 * time.Millisecond
		return late % access.RefreshEvery, 3 * late % publishEvery
	})
}

// nodesAnyhow runs some nodes that differ by chance.
func nodesAnyhow(t *testing.T, r *rand.Rand) []*node {
	t.Helper()
	return nodesLate(t, 3+r.IntN(5), func(int) (refresh, share time.Duration) {
		return time.Duration(r.Int64N(int64(access.RefreshEvery))), time.Duration(r.Int64N(int64(publishEvery)))
	})
}

// nodesLate runs nodes whose rounds begin after a time.
func nodesLate(t *testing.T, n int, late func(i int) (refresh, share time.Duration)) []*node {
	t.Helper()
	store := mem.New()
	list := make([]*node, n)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{}, 2*n)
	for i := range list {
		nd := newNode(t, store, fmt.Sprintf("node-%d", i))
		list[i] = nd
		refresh, share := late(i)
		go func() { time.Sleep(refresh); nd.shared.Run(ctx); done <- struct{}{} }()
		go func() { time.Sleep(share); nd.Run(ctx, n == 1); done <- struct{}{} }()
	}
	t.Cleanup(func() {
		end()
		for range 2 * n {
			<-done
		}
	})
	return list
}

func (n *node) put(t *testing.T, q rouse.Quotas) {
	t.Helper()
	if _, err := n.Put(t.Context(), "acme", q, rouse.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

// drive asks each node for so many writes a second, for a while, and returns how many were allowed in all.
func drive(list []*node, perSecond []int, d time.Duration) (allowed int) {
	const step = 20 * time.Millisecond
	owed := make([]float64, len(list))
	for at := time.Duration(0); at < d; at += step {
		for i, n := range list {
			for owed[i] += float64(perSecond[i]) * step.Seconds(); owed[i] >= 1; owed[i]-- {
				got, _ := n.Writes("acme", 1)
				allowed += got
			}
		}
		time.Sleep(step)
	}
	return allowed
}

// TestARateHoldsOverAllNodes has nodes of which much, little and nothing is asked.
func TestARateHoldsOverAllNodes(t *testing.T) {
	for _, asked := range [][]int{{5000}, {1000, 1000, 1000}, {3000, 100, 0}, {150, 10, 10}, {0, 0, 2000}} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := nodes(t, len(asked))
				list[0].put(t, rouse.Quotas{Creates: 200})
				drive(list, asked, 10*time.Second) // the nodes get to know what is asked
				got := drive(list, asked, time.Minute)
				sum := 0
				for _, n := range asked {
					sum += n
				}
				want := float64(min(sum, 200)) * 60
				if f := float64(got); f < 0.9*want || f > 1.1*want {
					t.Errorf("%d in a minute, want %g", got, want)
				}
			})
		})
	}
}

// TestARateHoldsFromTheFirstMinute has nodes of which all is asked at once: none knows yet what the others
// are asked.
func TestARateHoldsFromTheFirstMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 6)
		list[0].put(t, rouse.Quotas{Creates: 200})
		time.Sleep(time.Minute)
		asked := []int{500, 400, 300, 200, 100, 50}
		if got := drive(list, asked, time.Minute); got < 0.9*60*200 || got > 1.1*60*200 {
			t.Errorf("%d in a minute, want 12000", got)
		}
	})
}

// TestSharesDoNotFollowBursts has two nodes that are asked in turns.
func TestSharesDoNotFollowBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 2)
		list[0].put(t, rouse.Quotas{Creates: 200})
		got := 0
		for range 20 {
			got += drive(list, []int{200, 0}, publishEvery) + drive(list, []int{0, 200}, publishEvery)
		}
		if asked := 40 * int(publishEvery.Seconds()) * 200; got < asked*6/10 {
			t.Errorf("%d of %d", got, asked)
		}
	})
}

// TestSharesFollowTheDemand moves all requests to another node, which then gets the rate.
func TestSharesFollowTheDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := nodes(t, 3)
		list[0].put(t, rouse.Quotas{Creates: 300})
		drive(list, []int{1000, 0, 0}, time.Minute)
		drive(list, []int{0, 1000, 0}, 10*time.Second)
		if got := drive(list, []int{0, 1000, 0}, 10*time.Second); got < 2700 || got > 3300 {
			t.Errorf("%d in 10 s, want 3000", got)
		}
	})
}

// TestTheNumberOfTimersHoldsOverAllNodes has three nodes that write as much as they are allowed to.
func TestTheNumberOfTimersHoldsOverAllNodes(t *testing.T) {
	for _, batch := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := nodes(t, 3)
				list[0].put(t, rouse.Quotas{Timers: 1000})
				time.Sleep(2*access.RefreshEvery + 2*publishEvery) // the nodes get to know each other
				written, refused := 0, 0
				for range 3000 / batch {
					for _, n := range list {
						got, err := n.Room(t.Context(), "acme", batch)
						if err != nil {
							refused++
							var q *rouse.QuotaError
							var again *rouse.RetryAfter
							if !errors.As(err, &q) || q.Quota != rouse.QuotaTimers || q.Limit != "1000" || !errors.As(err, &again) {
								t.Fatal(err)
							}
						}
						for range got {
							n.write(t, fmt.Sprint(written))
							written++
						}
					}
					time.Sleep(10 * time.Millisecond)
				}
				if written < 1000 || written > 1100 || refused == 0 {
					t.Errorf("%d were written, %d batches were refused", written, refused)
				}
			})
		})
	}
}

func (n *node) write(t *testing.T, name string) {
	t.Helper()
	key := rouse.Key{Namespace: "acme", Name: name}
	row := rouse.Row{Key: key, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateScheduled, Body: []byte("x")}
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: key, To: &row}}); err != nil {
		t.Fatal(err)
	}
}

// TestAFullNamespaceIsNotCountedForEachRequest bounds what refusals cost the store.
func TestAFullNamespaceIsNotCountedForEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodes(t, 1)[0]
		n.put(t, rouse.Quotas{Timers: 1})
		n.write(t, "one")
		before := n.store.n.Load()
		for range 1000 {
			if got, err := n.Room(t.Context(), "acme", 1); got != 0 || !errors.Is(err, rouse.ErrQuota) {
				t.Fatal(got, err)
			}
			time.Sleep(time.Millisecond)
		}
		if counts := n.store.n.Load() - before; counts > 10 {
			t.Errorf("%d counts in a second", counts)
		}
		if err := n.Delete(t.Context(), "acme"); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("a namespace with a timer is deleted: %v", err)
		}
	})
}

// TestDraftsAreNotCountedForEach: a count serves many drafts, and those that were written after it take what
// it left.
func TestDraftsAreNotCountedForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodes(t, 1)[0]
		n.put(t, rouse.Quotas{Timers: 20})
		taken := 0
		takeUp := func(drafts int, age time.Duration) (counts int64) {
			t.Helper()
			taken = 0
			before := n.store.n.Load()
			for range drafts {
				switch err := n.TakeUp(t.Context(), "acme", age); {
				case err == nil:
					taken++
				case !errors.Is(err, rouse.ErrQuota):
					t.Fatal(err)
				}
			}
			return n.store.n.Load() - before
		}
		want := func(step string, counts, most int64, taking int) {
			t.Helper()
			if counts > most || taken != taking {
				t.Errorf("%s: %d counts, %d taken up, want %d and %d", step, counts, taken, most, taking)
			}
		}
		for i := range 10 {
			n.write(t, fmt.Sprint(i))
		}
		want("written before the count", takeUp(1000, time.Hour), 2, 1000) // one may be the regular one
		time.Sleep(draftsFreshFor / 2)
		for i := range 11 {
			n.write(t, fmt.Sprint("new", i))
		}
		want("written after it", takeUp(11, time.Millisecond), 2, 10)
		want("too many", takeUp(1000, time.Millisecond), 0, 0)
		time.Sleep(draftsFreshFor)
		n.put(t, rouse.Quotas{Timers: 21})
		want("with a larger quota", takeUp(1000, time.Hour), 1, 1000)
	})
}

// record writes a record of a timer of a namespace.
func (n *node) record(t *testing.T, namespace, name string) {
	t.Helper()
	key := rouse.Key{Namespace: namespace, Name: name}
	log := []rouse.Record{{Namespace: namespace, Name: name, Ending: rouse.EndFired, Ended: rouse.At(time.Now())}}
	if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: key, If: rouse.AnyRevision, Keep: true, Log: log}}); err != nil {
		t.Fatal(err)
	}
}

// recorded returns how many records a namespace has.
func (n *node) recorded(t *testing.T, namespace string) int {
	t.Helper()
	page, err := n.store.Records(t.Context(), rouse.RecordQuery{Namespace: namespace, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Records)
}

// slowTrim is a store that deletes the records of a timer slowly.
type slowTrim struct{ rouse.Store }

func (s slowTrim) TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Store.TrimTimer(ctx, namespace, name, keep)
}

// TestADeletedNamespaceLeavesNoRecords: the next one of its name shows none of before. One call deletes as
// many as it has time for, and one that is refused because of a timer deletes none.
func TestADeletedNamespaceLeavesNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1500
		n := newNode(t, slowTrim{mem.New()}, "a")
		n.put(t, rouse.Quotas{})
		for i := range many {
			n.record(t, "acme", fmt.Sprint("timer", i))
			n.record(t, "acme", "often")
		}
		n.record(t, "other", "timer")
		n.write(t, "one")
		if err := n.Delete(t.Context(), "acme"); !errors.Is(err, rouse.ErrConflict) || n.recorded(t, "acme") != 2*many {
			t.Fatalf("with a timer: %v, %d records", err, n.recorded(t, "acme"))
		}
		if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: rouse.Key{Namespace: "acme", Name: "one"}, If: rouse.AnyRevision}}); err != nil {
			t.Fatal(err)
		}
		err := n.Delete(t.Context(), "acme")
		if left := n.recorded(t, "acme"); !errors.Is(err, rouse.ErrOverloaded) || !n.Exists("acme") || left == 0 || left > many {
			t.Fatalf("more than one call deletes: %v, %d records are left", err, left)
		}
		go func() { // it ends while the namespace is being deleted
			for n.Exists("acme") {
				time.Sleep(time.Millisecond)
			}
			n.record(t, "acme", "late")
		}()
		for errors.Is(err, rouse.ErrOverloaded) {
			err = n.Delete(t.Context(), "acme")
		}
		if err != nil || n.Exists("acme") || n.recorded(t, "acme") != 0 || n.recorded(t, "other") != 1 {
			t.Errorf("%v; %d records are left, and %d of another namespace", err, n.recorded(t, "acme"), n.recorded(t, "other"))
		}
	})
}

// slowApply is a store that takes long to delete, and the most rows that it was asked to delete at a time.
type slowApply struct {
	rouse.Store
	most int
}

func (s *slowApply) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if len(changes) > 1 {
		s.most = max(s.most, len(changes))
		time.Sleep(5 * time.Second)
	}
	return s.Store.Apply(ctx, changes)
}

// TestADeletedNamespaceLeavesNoKeys: the next one of its name carries out requests with keys that requests of
// before had. One call deletes as many rows as it has time for, some in each commit, and the next one goes
// on.
func TestADeletedNamespaceLeavesNoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowApply{Store: mem.New()}
		n := newNode(t, store, "a")
		n.put(t, rouse.Quotas{})
		kept := rouse.CutLater(&rouse.Timer{Key: rouse.Key{Namespace: "acme", Name: "sent"}}, rouse.Occurrence{Due: 1}, 2, rouse.CauseDeleted, "")
		put := func(row rouse.Row) {
			t.Helper()
			if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row}}); err != nil {
				t.Fatal(err)
			}
		}
		keyed := func(namespace string, i int) {
			t.Helper()
			for _, key := range []rouse.Key{{Namespace: namespace, Name: fmt.Sprint(access.NoteName, i)},
				{Namespace: namespace, Name: fmt.Sprint("timer", i), Fire: access.MarkFire},
				{Namespace: namespace, Name: "dead", Fire: fmt.Sprint("f", i, access.MarkFire)}} {
				put(rouse.Row{Key: key, State: rouse.StateNote, Visible: rouse.Never, Due: rouse.Never, Body: []byte("[]")})
			}
		}
		const many = 1000
		for i := range many {
			keyed("acme", i)
		}
		keyed("other", 1)
		put(kept.Row())
		rows := func(namespace string) int64 {
			t.Helper()
			left, err := store.Count(t.Context(), rouse.Query{Namespace: namespace, States: []rouse.State{rouse.StateNote}})
			if err != nil {
				t.Fatal(err)
			}
			return left
		}
		err := n.Delete(t.Context(), "acme")
		if left := rows("acme"); !errors.Is(err, rouse.ErrOverloaded) || !n.Exists("acme") || left == 1 || left > 2*many {
			t.Fatalf("more than one call deletes: %v, %d rows are left", err, left)
		}
		go func() { // a request that was admitted before
			for n.Exists("acme") {
				time.Sleep(time.Millisecond)
			}
			keyed("acme", many)
		}()
		for errors.Is(err, rouse.ErrOverloaded) {
			err = n.Delete(t.Context(), "acme")
		}
		if err != nil || n.Exists("acme") || rows("acme") != 1 || rows("other") != 3 {
			t.Errorf("%v; %d rows are left, want that of an attempt under way; %d of another namespace", err, rows("acme"), rows("other"))
		}
		if store.most > leftPage {
			t.Errorf("%d rows were deleted in one commit", store.most)
		}
	})
}

// counting counts the calls of a store: all, those of Count, and the lists of the namespace acme.
type counting struct {
	rouse.Store
	all, n, lists atomic.Int64
}

func (c *counting) Now(ctx context.Context) (rouse.Instant, error) {
	c.all.Add(1)
	return c.Store.Now(ctx)
}

func (c *counting) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	c.all.Add(1)
	return c.Store.Get(ctx, keys)
}

func (c *counting) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	c.all.Add(1)
	return c.Store.Apply(ctx, changes)
}

func (c *counting) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	c.all.Add(1)
	if q.Namespace == "acme" {
		c.lists.Add(1)
	}
	return c.Store.List(ctx, q)
}

func (c *counting) Count(ctx context.Context, q rouse.Query) (int64, error) {
	c.all.Add(1)
	c.n.Add(1)
	return c.Store.Count(ctx, q)
}

// TestAnIdleNodeAsksTheStoreRarely bounds what following the shared state and publishing shares cost a store
// that other nodes may use: a look at all kinds in each RefreshEvery, and in each second round of shares the
// clock, a write, and a list of what is published.
func TestAnIdleNodeAsksTheStoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, mem.New(), "a")
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer end()
		running.Go(func() { n.shared.Run(ctx) })
		running.Go(func() { n.Run(ctx, false) })
		time.Sleep(time.Minute + time.Second) // calls at the start do not count
		before := n.store.all.Load()
		time.Sleep(time.Minute)
		asked := n.store.all.Load() - before
		const slack = 5 // everything is read again once a minute
		if most := int64(time.Minute/access.RefreshEvery + 3*time.Minute/(2*publishEvery) + slack); asked > most || asked == 0 {
			t.Errorf("an idle node asked the store %d times in a minute, want at most %d", asked, most)
		}
	})
}

func TestNamespaces(t *testing.T) {
	store := mem.New()
	n := newNode(t, store, "a")
	if n.Exists("acme") {
		t.Error("a namespace exists that was not created")
	}
	is, err := n.Put(t.Context(), "acme", rouse.Quotas{Timers: 5, MinInterval: time.Minute}, rouse.NoRow)
	if err != nil || is.Quotas.Timers != 5 || is.Updated == 0 {
		t.Fatal(is, err)
	}
	for want, err := range map[error]error{
		rouse.ErrConflict: second(n.Put(t.Context(), "acme", rouse.Quotas{}, rouse.NoRow)),
		rouse.ErrNotFound: third(n.Get(t.Context(), "other")),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for _, bad := range []error{second(n.Put(t.Context(), "A B", rouse.Quotas{}, rouse.NoRow)), second(n.Put(t.Context(), "b", rouse.Quotas{Timers: -1}, rouse.NoRow)),
		second(n.Put(t.Context(), "b", rouse.Quotas{Fires: -1}, rouse.NoRow)), second(n.Put(t.Context(), "b", rouse.Quotas{MinInterval: -1}, rouse.NoRow))} {
		if !errors.As(bad, new(*rouse.Invalid)) {
			t.Errorf("%v", bad)
		}
	}
	if got, err := n.Writes("acme", 2); got != 2 || err != nil || !n.Exists("acme") {
		t.Errorf("without a rate: %d, %v", got, err)
	}
	other := newNode(t, store, "b")
	if list, err := other.List(t.Context(), rouse.NamespaceQuery{Limit: 10}); err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], is) {
		t.Errorf("another node sees %+v, %v", list, err)
	}
	n.write(t, "one")
	if got, u, err := other.Get(t.Context(), "acme"); err != nil || !reflect.DeepEqual(got, is) || u.Timers != 1 {
		t.Errorf("%+v, %+v, %v", got, u, err)
	}
	if _, err := store.Apply(t.Context(), []rouse.Change{{Key: rouse.Key{Namespace: "acme", Name: "one"}, If: rouse.AnyRevision}}); err != nil {
		t.Fatal(err)
	}
	calendar := rouse.CalendarKey("acme", "closed")
	row := (&rouse.Calendar{}).Row(0)
	for _, c := range []rouse.Change{{Key: calendar, To: &row, If: rouse.NoRow}, {Key: calendar, If: rouse.AnyRevision}} {
		if _, err := store.Apply(t.Context(), []rouse.Change{c}); err != nil {
			t.Fatal(err)
		}
		secrets := 1
		n.opts.Secrets = func(string) int { return secrets }
		if err := n.Delete(t.Context(), "acme"); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("a namespace with a calendar or secrets is deleted: %v", err)
		}
		if secrets = 0; c.To == nil {
			break
		}
		if err := n.Delete(t.Context(), "acme"); !errors.Is(err, rouse.ErrConflict) || !strings.Contains(err.Error(), "calendars") {
			t.Errorf("a namespace with a calendar is deleted: %v", err)
		}
	}
	if err := n.Delete(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
	if err := n.Delete(t.Context(), "acme"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
	for i := range MaxNamespaces {
		n.spaces[fmt.Sprint(i)] = &space{}
	}
	if err := second(n.Put(t.Context(), "more", rouse.Quotas{}, rouse.NoRow)); !errors.Is(err, rouse.ErrFull) {
		t.Errorf("one namespace too many: %v", err)
	}
	if err := second(n.Put(t.Context(), "1", rouse.Quotas{Timers: 1}, rouse.AnyRevision)); err != nil {
		t.Errorf("other quotas of one of them: %v", err)
	}
	clear(n.spaces)
	if list, err := n.List(t.Context(), rouse.NamespaceQuery{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// TestNamespacesAreForThoseWhoMay has a reader of one namespace, and an administrator.
func TestNamespacesAreForThoseWhoMay(t *testing.T) {
	store := mem.New()
	log := slog.New(slog.DiscardHandler)
	shared := access.NewShared(store, log)
	b := New(store, shared, Options{Node: func() string { return "n" }, Now: store.Now, Log: log, Access: access.NewControl(nil)})
	admin := access.With(t.Context(), &access.Principal{ID: "a", Grants: []access.Grant{{Role: "admin", Scope: access.Everything()}}})
	reader := access.With(t.Context(), &access.Principal{ID: "r", Grants: []access.Grant{{Role: "reader", Scope: access.Scope{Namespaces: []string{"acme"}}}}})
	for _, name := range []string{"acme", "other"} {
		if _, err := b.Put(admin, name, rouse.Quotas{}, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.List(reader, rouse.NamespaceQuery{Limit: 10})
	if err != nil || len(list) != 1 || list[0].Name != "acme" {
		t.Errorf("%+v, %v", list, err)
	}
	part := access.With(t.Context(), &access.Principal{ID: "p", Grants: []access.Grant{{Role: "admin", Scope: access.Scope{Namespaces: []string{"acme"}, Targets: []string{"stream:x"}}}}})
	for _, c := range []struct {
		ctx    context.Context
		hidden bool
	}{{reader, false}, {part, true}, {admin, false}} {
		if _, u, err := b.Get(c.ctx, "acme"); err != nil || u.Hidden != c.hidden {
			t.Errorf("%s reads %+v, %v", access.From(c.ctx).ID, u, err)
		}
	}
	for what, err := range map[string]error{
		"get": third(b.Get(reader, "other")), "put": second(b.Put(reader, "acme", rouse.Quotas{}, rouse.AnyRevision)),
		"delete": b.Delete(reader, "acme"), "anonymous list": second(b.List(t.Context(), rouse.NamespaceQuery{Limit: 10})),
	} {
		if !errors.Is(err, rouse.ErrForbidden) && !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNamespacesWithRowsAreListed has namespaces that were created, that have rows, and both; some have notes
// only, which are no rows of clients.
func TestNamespacesWithRowsAreListed(t *testing.T) {
	store := mem.New()
	log := slog.New(slog.DiscardHandler)
	b := New(store, access.NewShared(store, log), Options{Node: func() string { return "n" }, Now: store.Now, Log: log, Access: access.NewControl(nil)})
	to := func(role string, namespaces, targets []string) context.Context {
		scope := access.Everything()
		if namespaces != nil {
			scope.Namespaces = namespaces
		}
		if targets != nil {
			scope.Targets = targets
		}
		return access.With(t.Context(), &access.Principal{ID: role, Grants: []access.Grant{{Role: role, Scope: scope}}})
	}
	admin := to("admin", nil, nil)
	for _, name := range []string{"a", "both", "team-b", "z"} {
		if _, err := b.Put(admin, name, rouse.Quotas{}, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
	}
	write := func(namespace, name, fire string, state rouse.State) {
		row := rouse.Row{Key: rouse.Key{Namespace: namespace, Name: name, Fire: fire}, State: state, Visible: rouse.Never}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"both", "rows", "team-a", "team-b", "team-c"} {
		for i := range 3 {
			write(name, fmt.Sprint("timer-", i), "", rouse.StateScheduled)
		}
	}
	write("dead-only", "timer", "fire", rouse.StateDead)
	write("notes-only", "note", "", rouse.StateNote)
	all := func(ctx context.Context, l rouse.NamespaceQuery) (names []string) {
		l.All = true
		for {
			list, err := b.List(ctx, l)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range list {
				names = append(names, fmt.Sprint(n.Name, n.Counts))
			}
			if len(list) < l.Limit {
				return names
			}
			l.After = list[len(list)-1].Name
		}
	}
	every := []string{"a", "both", "dead-only", "rows", "team-a", "team-b", "team-c", "z"}
	for limit := 1; limit < 10; limit++ {
		for _, c := range []struct {
			who  context.Context
			want []string
		}{{admin, every}, {to("reader", []string{"team-*", "dead-only"}, nil), []string{"dead-only", "team-a", "team-b", "team-c"}},
			{to("reader", []string{"team-b", "team-c", "nowhere"}, nil), []string{"team-b", "team-c"}}, {to("reader", []string{"z"}, nil), []string{"z"}}} {
			var names []string
			for _, text := range all(c.who, rouse.NamespaceQuery{Limit: limit}) {
				names = append(names, strings.TrimSuffix(text, "map[]"))
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("%d at a time: %v, want %v", limit, names, c.want)
			}
		}
	}
	counted := all(admin, rouse.NamespaceQuery{Limit: 3, Counts: true})
	if want := []string{"amap[]", "bothmap[scheduled:3]", "dead-onlymap[dead:1]", "rowsmap[scheduled:3]"}; !slices.Equal(counted[:4], want) {
		t.Errorf("%v, want %v", counted[:4], want)
	}
	list, err := b.List(to("reader", nil, []string{"https://one.example/*"}), rouse.NamespaceQuery{Limit: 10, All: true, Counts: true})
	if err != nil || len(list) != len(every) || slices.ContainsFunc(list, func(n rouse.Namespace) bool { return n.Counts != nil }) {
		t.Errorf("a reader of one target sees %+v, %v", list, err)
	}
}

// TestATimerDuringTheDeletionOfItsNamespace: a timer that another node takes while the namespace is being
// deleted does not remain without it. Its jobs are removed with a namespace.
func TestATimerDuringTheDeletionOfItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		n := newNode(t, store, "a")
		q := rouse.Quotas{Timers: 5}
		if _, err := n.Put(t.Context(), "acme", q, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
		job := rouse.Job{Namespace: "acme", ID: "bulk-1"}
		timer := job.Row(0, []byte("{}"), rouse.Never)
		row := timer.Row()
		asked := row // of the request for the job
		asked.Key = rouse.Key{Namespace: "acme", Name: access.NoteName + "k"}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row, Also: []rouse.Row{asked}}}); err != nil {
			t.Fatal(err)
		}
		deleted := make(chan error)
		go func() { deleted <- n.Delete(t.Context(), "acme") }()
		time.Sleep(takenAfter / 2)
		if n.Exists("acme") {
			t.Error("it is not being deleted")
		}
		n.write(t, "late")
		if err := <-deleted; !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("deleted although it got a timer: %v", err)
		}
		if is, _, err := n.Get(t.Context(), "acme"); err != nil || is.Quotas != q {
			t.Errorf("%+v, %v", is, err)
		}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: rouse.Key{Namespace: "acme", Name: "late"}, If: rouse.AnyRevision}}); err != nil {
			t.Fatal(err)
		}
		if err := n.Delete(t.Context(), "acme"); err != nil {
			t.Error(err)
		}
		if left, err := store.Count(t.Context(), rouse.Query{Namespace: "acme", States: []rouse.State{rouse.StateNote}}); err != nil || left != 0 {
			t.Errorf("%d jobs and notes of requests for them are left, %v", left, err)
		}
	})
}

// TestDemandIsAskedWithoutLocks: what counts fires takes locks of the engine, under which the engine asks for
// quotas: with a lock of the book in hand, both would wait for each other.
func TestDemandIsAskedWithoutLocks(t *testing.T) {
	n := newNode(t, mem.New(), "a")
	n.put(t, rouse.Quotas{Fires: 100})
	asked := 0
	n.opts.Fires = func(string) int {
		asked++
		if !n.mu.TryLock() {
			t.Error("the book is locked while it asks for fires")
			return 0
		}
		n.mu.Unlock()
		sp := n.findSpace("acme")
		if !sp.mu.TryLock() {
			t.Error("the namespace is locked while it asks for fires")
			return 0
		}
		sp.mu.Unlock()
		return 10
	}
	if got := n.demandPerSecond(1)["acme"][fires]; asked != 1 || got != 5 {
		t.Errorf("asked %d times, a demand of %g, want 5", asked, got)
	}
}
