package timers

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/store/sqlite"
	"github.com/rousehq/rouse/test/servers"
)

// kinds are the stores.
var kinds = map[string]func(t *testing.T) (rouse.Store, error){
	"mem": func(*testing.T) (rouse.Store, error) { return mem.New(), nil },
	"pebble": func(t *testing.T) (rouse.Store, error) {
		return pebble.Open(filepath.Join(t.TempDir(), "pebble"), pebble.Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	},
	"sqlite": func(t *testing.T) (rouse.Store, error) {
		return sqlite.Open(filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Relaxed: true})
	},
	"postgres": func(t *testing.T) (rouse.Store, error) {
		return postgres.Open(context.Background(), servers.Postgres(t), postgres.Options{AllowUnsafe: true})
	},
	"redis": func(t *testing.T) (rouse.Store, error) {
		return redis.Open(context.Background(), servers.Redis(t), redis.Options{})
	},
}

// onEveryStore runs a test with the operations on each store, and with small bounds, so that few timers reach
// them.
func onEveryStore(t *testing.T, test func(t *testing.T, ts *Timers)) {
	usual := bounds
	bounds.window, bounds.searched, bounds.records = 25, 60, 60
	t.Cleanup(func() { bounds = usual })
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, New(s, nil, nil, Options{Compile: schedule.Compile}))
		})
	}
}

const day rouse.Instant = 1_750_000_000_000

// timer returns the n-th timer of a test: many of them are due at the same time.
func numbered(r *rand.Rand, n int) rouse.Timer {
	t := rouse.Timer{Key: rouse.Key{Namespace: string(rune('a' + n%3)), Name: fmt.Sprintf("%c-%03d", 'm'+n%4, n)}, Generation: 1}
	t.Spec = rouse.Spec{Schedule: "@every 1h", Target: fmt.Sprintf("stream:%d", n%3), Labels: map[string]string{"n": fmt.Sprint(n % 5)}, Payload: fmt.Appendf(nil, "Pay %d", n%7)}
	t.Due = day + rouse.Instant(r.IntN(4)*r.IntN(4)*r.IntN(1_000_000))
	t.Visible, t.Updated, t.Created, t.Anchor = t.Due, day+rouse.Instant(r.IntN(50)), day, day
	switch n % 8 {
	case 1:
		t.Paused, t.Visible = true, rouse.Never
	case 2:
		t.Due, t.Visible = rouse.Never, rouse.Never // ended, and kept
		t.Spec.Keep = -1
	case 3:
		t.Key.Fire, t.Visible = rouse.FireID(t.Key.Namespace, t.Key.Name, 1, t.Due, false), rouse.Never
		t.LastError, t.Attempts = fmt.Sprintf("error %d", n%2), 1
		t.Failures = []rouse.Attempt{{Sent: day, Code: 500 + n%3, Detail: "Boom"}}
	case 4:
		t.Visible = t.Due.Add(3600e9)
	}
	return t
}

func write(t *testing.T, s rouse.Store, tm *rouse.Timer) {
	t.Helper()
	row := tm.Row()
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.AnyRevision, To: &row}}); err != nil {
		t.Fatal(err)
	}
}

// pages reads a list to its end.
func pages(t *testing.T, ts *Timers, q rouse.Query) (names []string) {
	t.Helper()
	for n := 0; ; n++ {
		page, err := ts.Search(t.Context(), q)
		if err != nil || n > 2000 {
			t.Fatalf("%+v: page %d: %v", q, n, err)
		}
		for i := range page.Timers {
			if k := page.Timers[i].Key; !strings.HasPrefix(k.Name, "other") {
				names = append(names, k.Namespace+"/"+k.Name+"/"+k.Fire)
			}
		}
		if page.Next == nil {
			return names
		}
		q.After, q.AfterAt = page.Next.Key, page.Next.At
	}
}

// wanted is the list of a query by the plainest means.
func wanted(all []rouse.Timer, q rouse.Query) (names []string) {
	var list []rouse.Timer
	for _, t := range all {
		text := strings.ToLower(t.Key.Name + "\n" + t.LastError + "\n" + string(t.Spec.Payload))
		for _, f := range t.Failures {
			text += "\n" + strings.ToLower(f.Detail)
		}
		code := 0
		if len(t.Failures) > 0 {
			code = t.Failures[0].Code
		}
		prefix, begins := strings.CutSuffix(q.Sought.Target, "*")
		if q.Namespace != "" && q.Namespace != t.Key.Namespace || !strings.HasPrefix(t.Key.Name, q.Prefix) || !q.Wants(t.State()) ||
			q.Labels["n"] != "" && q.Labels["n"] != t.Spec.Labels["n"] || q.DueFrom != 0 && t.Due < q.DueFrom || q.DueUntil != 0 && t.Due >= q.DueUntil ||
			!strings.Contains(text, strings.ToLower(q.Sought.Text)) || q.Sought.Code != 0 && q.Sought.Code != code ||
			q.Sought.Target != "" && t.Spec.Target != q.Sought.Target && !(begins && strings.HasPrefix(t.Spec.Target, prefix)) {
			continue
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b rouse.Timer) int {
		x, y := rouse.Instant(0), rouse.Instant(0)
		switch q.Order {
		case rouse.OrderDue:
			x, y = a.Due, b.Due
			if q.Reverse && x == rouse.Never {
				x = -1
			}
			if q.Reverse && y == rouse.Never {
				y = -1
			}
		case rouse.OrderUpdated, rouse.OrderEnded:
			x, y = a.Updated, b.Updated
		}
		by, key := cmp.Compare(x, y), a.Key.Compare(b.Key)
		if q.Reverse {
			by = -by
			if q.Order == rouse.OrderName {
				key = -key
			}
		}
		return cmp.Or(by, key)
	})
	for _, t := range list {
		names = append(names, t.Key.Namespace+"/"+t.Key.Name+"/"+t.Key.Fire)
	}
	return names
}

// TestListsAreThoseOfAModel: with every order and filter, the pages of a list are together what the model
// has, while other timers come and go.
func TestListsAreThoseOfAModel(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		r := rand.New(rand.NewPCG(1, 2))
		var all []rouse.Timer
		for n := range 150 {
			all = append(all, numbered(r, n))
			write(t, ts.store, &all[n])
		}
		stop, writing := make(chan struct{}), sync.WaitGroup{}
		writing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				tm := numbered(rand.New(rand.NewPCG(3, uint64(n))), 8*(n%4))
				tm.Key.Name = fmt.Sprintf("other-%d", n%20)
				row := tm.Row()
				change := rouse.Change{Key: row.Key, If: rouse.AnyRevision, To: &row}
				if n%3 == 0 {
					change.To = nil
				}
				_, _ = ts.store.Apply(context.Background(), []rouse.Change{change})
			}
		})
		defer writing.Wait()
		defer close(stop)
		both := []rouse.State{rouse.StateDead, rouse.StateEnded}
		sought := []rouse.Sought{{}, {Text: "PAY 3"}, {Text: "boom"}, {Text: "-01"}, {Target: "stream:1"}, {Target: "stream:*", Code: 501}, {Text: "nothing has this"}}
		for n := range 32 {
			q := rouse.Query{Limit: 12 + r.IntN(40), Order: rouse.Order(n % 4), Reverse: n%8 >= 4, Sought: sought[n%len(sought)]}
			switch r.IntN(4) {
			case 0:
				q.Namespace = "b"
			case 1:
				q.Labels = map[string]string{"n": "2"}
			case 2:
				q.DueFrom, q.DueUntil = day+rouse.Instant(r.IntN(1000)), day+rouse.Instant(1000+r.IntN(5_000_000))
			}
			if q.States = [][]rouse.State{nil, {rouse.StateDead}, {rouse.StateScheduled, rouse.StatePaused}, {rouse.StateDead, rouse.StateScheduled}}[r.IntN(4)]; q.Order == rouse.OrderEnded {
				q.States = both
			}
			if got, want := pages(t, ts, q), wanted(all, q); !slices.Equal(got, want) {
				t.Fatalf("%+v:\n got %d %q\nwant %d %q", q, len(got), got, len(want), want)
			}
		}
	})
}

// TestLatestFirst: the first page of a list that has the latest due time first has timers, although times
// reach thousands of years ahead.
func TestLatestFirst(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 20 {
			tm := numbered(r, n)
			write(t, ts.store, &tm)
		}
		page, err := ts.Search(t.Context(), rouse.Query{Limit: 3, Order: rouse.OrderDue, Reverse: true})
		if err != nil || len(page.Timers) != 3 {
			t.Errorf("%d timers: %v", len(page.Timers), err)
		}
	})
}

// TestRecordsAreThoseOfAModel: with every filter and both orders, the pages of records are together what the
// model has.
func TestRecordsAreThoseOfAModel(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		r := rand.New(rand.NewPCG(1, 2))
		var all []rouse.Record
		for n := range 130 { // more than two of the parts that are read at a time
			rec := rouse.Record{Namespace: string(rune('a' + n%3)), Name: fmt.Sprintf("%c-%d", 'm'+n%4, n%6), Generation: 1, Ending: rouse.Ending(1 + n%4), Due: day,
				Ended: day + rouse.Instant(r.IntN(3)*r.IntN(9_000_000)), Reason: fmt.Sprintf("Reason %d", n), Code: 500 + n%3, Began: day + 1}
			rec.Cause = rouse.Causes(rec.Ending)[0]
			if rec.Ending != rouse.EndFired {
				rec.Target = fmt.Sprintf("stream:%d", n%2)
			}
			all = append(all, rec)
			key := rouse.Key{Namespace: rec.Namespace, Name: rec.Name}
			if _, err := ts.store.Apply(t.Context(), []rouse.Change{{Key: key, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{rec}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []rouse.RecordQuery{{}, {Namespace: "b"}, {Namespace: "a", Name: "m-0"}, {Endings: []rouse.Ending{rouse.EndDead, rouse.EndMissed}},
			{Causes: []rouse.Cause{rouse.CauseRejected}}, {Prefix: "n-"}, {Sought: rouse.Sought{Text: "REASON 1"}}, {Sought: rouse.Sought{Code: 501}},
			{Sought: rouse.Sought{Target: "stream:1"}}, {Sought: rouse.Sought{Target: "stream:*"}}, {Labels: map[string]string{"no": "timer"}},
			{From: rouse.RecordCursor{Ended: day + 1}}, {Until: rouse.RecordCursor{Ended: day + 5_000_000}},
			{From: rouse.RecordCursor{Ended: day + 2000}, Until: rouse.RecordCursor{Ended: day + 8_000_000}, Endings: []rouse.Ending{rouse.EndFired}}} {
			var want []string
			for _, rec := range all {
				prefix, begins := strings.CutSuffix(q.Sought.Target, "*")
				if (q.Namespace == "" || q.Namespace == rec.Namespace) && (q.Name == "" || q.Name == rec.Name) && strings.HasPrefix(rec.Name, q.Prefix) &&
					(q.Endings == nil || slices.Contains(q.Endings, rec.Ending)) && (q.Causes == nil || slices.Contains(q.Causes, rec.Cause)) &&
					strings.Contains(strings.ToLower(rec.Reason), strings.ToLower(q.Sought.Text)) && (q.Sought.Code == 0 || q.Sought.Code == rec.Code) &&
					(q.Sought.Target == "" || rec.Target == q.Sought.Target || begins && strings.HasPrefix(rec.Target, prefix)) && q.Labels == nil &&
					rec.Ended >= q.From.Ended && (q.Until.Ended == 0 || rec.Ended < q.Until.Ended) {
					want = append(want, rec.Reason)
				}
			}
			slices.Sort(want)
			q.Limit = 1 + r.IntN(30)
			newest := history(t, ts, q)
			q.Oldest = true
			oldest := history(t, ts, q)
			slices.Reverse(oldest)
			if !slices.Equal(newest, oldest) {
				t.Errorf("%+v:\nnewest %q\noldest %q", q, newest, oldest)
			}
			if slices.Sort(newest); !slices.Equal(newest, want) {
				t.Errorf("%+v:\n got %q\nwant %q", q, newest, want)
			}
		}
	})
}

// TestPagesOfRecordsAreBoundedInBytes: answers on records make pages shorter, newest first and oldest first,
// and none is left out; nothing is told of a search.
func TestPagesOfRecordsAreBoundedInBytes(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		bounds.records, bounds.recordBytes = MaxRecordsSearched, 10*rouse.MaxKeptAnswer
		t.Cleanup(func() { bounds.recordBytes = searchBytes })
		const total = pageBytes/rouse.MaxKeptAnswer + 40
		key := rouse.Key{Namespace: "a", Name: "x"}
		for n := range total {
			r := rouse.Record{Namespace: "a", Name: "x", Generation: 1, Ending: rouse.EndFired, Ended: day + rouse.Instant(n/3), Attempts: uint32(n),
				Answer: &rouse.Answer{ContentType: "text/plain", Payload: bytes.Repeat([]byte{byte(n)}, rouse.MaxKeptAnswer), Cut: n%2 == 0}}
			if _, err := ts.store.Apply(t.Context(), []rouse.Change{{Key: key, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{r}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, oldest := range []bool{false, true} {
			q, seen, pages := rouse.RecordQuery{Namespace: "a", Limit: 1000, Oldest: oldest}, map[uint32]bool{}, 0
			for more := true; more; pages++ {
				page, err := ts.Records(t.Context(), q)
				if err != nil || page.Searched != 0 {
					t.Fatalf("searched %d, %v", page.Searched, err)
				}
				size := 0
				for _, r := range page.Records {
					a := r.Answer
					if len(a.Payload) != rouse.MaxKeptAnswer || a.Payload[9] != byte(r.Attempts) || a.Cut != (r.Attempts%2 == 0) || a.ContentType != "text/plain" {
						t.Fatalf("%d has %q… of %d bytes, %v", r.Attempts, a.Payload[:1], len(a.Payload), a.Cut)
					}
					seen[r.Attempts] = true
					size += len(a.Payload)
				}
				if size > pageBytes+rouse.MaxKeptAnswer {
					t.Errorf("a page has %d bytes", size)
				}
				if more = page.Next != nil; more && oldest {
					q.From = *page.Next
				} else if more {
					q.Until = *page.Next
				}
			}
			if len(seen) != total || pages < 2 {
				t.Errorf("%d records on %d pages, want %d", len(seen), pages, total)
			}
		}
		if list, err := ts.Outcomes(t.Context(), []rouse.Key{key}, 5); err != nil || len(list[0].Records) != 5 || list[0].Records[0].Answer != nil {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// history reads records to their end, and returns their reasons.
func history(t *testing.T, ts *Timers, q rouse.RecordQuery) (reasons []string) {
	t.Helper()
	last := rouse.Instant(0)
	for n := 0; ; n++ {
		page, err := ts.Records(t.Context(), q)
		if err != nil || n > 2000 {
			t.Fatalf("%+v: page %d: %v", q, n, err)
		}
		for i, r := range page.Records {
			if last != 0 && r.Ended != last && r.Ended > last != q.Oldest {
				t.Fatalf("%+v: %v comes after %v", q, r.Ended, last)
			}
			last, reasons = r.Ended, append(reasons, page.Records[i].Reason)
		}
		switch {
		case page.Next == nil:
			return reasons
		case len(page.Records) < q.Limit && page.Searched == 0:
			t.Fatalf("%+v: a page of %d records has a next one, and tells of no search", q, len(page.Records))
		case q.Oldest:
			q.From = *page.Next
		default:
			q.Until = *page.Next
		}
	}
}

// TestSearchesFindWhatTheCallerSees: a text that is redacted is not found, and other tenants' records and
// timers are not there.
func TestSearchesFindWhatTheCallerSees(t *testing.T) {
	store := mem.New()
	ts := New(store, nil, nil, Options{Compile: schedule.Compile, Access: access.NewControl(nil)})
	for n := range 24 {
		tm := numbered(rand.New(rand.NewPCG(1, 1)), n)
		write(t, store, &tm)
		log := rouse.Record{Namespace: tm.Key.Namespace, Name: tm.Key.Name, Ending: rouse.EndDead, Ended: day, Reason: "secret answer", Target: tm.Spec.Target,
			Failures: []rouse.Attempt{{Detail: "secret detail"}}, Answer: &rouse.Answer{Payload: []byte("secret")}}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: rouse.Key{Namespace: tm.Key.Namespace, Name: tm.Key.Name}, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{log}}}); err != nil {
			t.Fatal(err)
		}
	}
	as := func(role string, s access.Scope) context.Context {
		return access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: role, Scope: s}}})
	}
	count := func(ctx context.Context, text string) (timers, records int) {
		t.Helper()
		q := rouse.Query{Limit: 100, States: []rouse.State{rouse.StateScheduled, rouse.StatePaused, rouse.StateDead, rouse.StateEnded}, Sought: rouse.Sought{Text: text}}
		page, err := ts.Search(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		history, err := ts.Records(ctx, rouse.RecordQuery{Limit: 100, Sought: rouse.Sought{Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Timers), len(history.Records)
	}
	all, one := access.Everything(), access.Scope{Namespaces: []string{"b"}}
	part := access.Scope{Namespaces: []string{"b"}, Targets: []string{"stream:1"}}
	for _, c := range []struct {
		who             string
		ctx             context.Context
		text            string
		timers, records int
	}{
		{"an admin", as("admin", all), "", 24, 24}, {"an admin", as("admin", all), "pay 1", 4, 0}, {"an admin", as("admin", all), "secret", 0, 24},
		{"an admin", as("admin", all), "boom", 3, 0},
		{"a reader", as("reader", all), "", 24, 24}, {"a reader", as("reader", all), "pay 1", 0, 0}, {"a reader", as("reader", all), "secret", 0, 0},
		{"a reader", as("reader", all), "boom", 0, 0}, {"a reader", as("reader", all), "n-001", 1, 1},
		{"the admin of b", as("admin", one), "", 8, 8}, {"the admin of b", as("admin", one), "secret", 0, 8},
		{"the admin of a part of b", as("admin", part), "", 8, 7}, // of a dead letter the timer is gone
	} {
		page, err := ts.Records(c.ctx, rouse.RecordQuery{Namespace: "b", Limit: 1})
		if err != nil || (page.Records[0].Answer == nil) != strings.Contains(c.who, "reader") {
			t.Errorf("%s reads %+v, %v", c.who, page.Records, err)
		}
		if timers, records := count(c.ctx, c.text); timers != c.timers || records != c.records {
			t.Errorf("%s searches for %q: %d timers and %d records, want %d and %d", c.who, c.text, timers, records, c.timers, c.records)
		}
	}
	groups, err := ts.Aggregate(as("reader", all), rouse.RecordQuery{}, rouse.ByError, 0)
	if err != nil || len(groups.Groups) != 1 || groups.Groups[0].Key != "" {
		t.Errorf("a reader's errors are %+v, %v", groups, err)
	}
}

// TestHiddenRowsAreNotCounted: how many rows a page has looked at does not tell callers of a part of a
// namespace how many others there are.
func TestHiddenRowsAreNotCounted(t *testing.T) {
	usual := bounds
	bounds.searched, bounds.records = 60, 600
	t.Cleanup(func() { bounds = usual })
	store := mem.New()
	ts := New(store, nil, nil, Options{Compile: schedule.Compile, Access: access.NewControl(nil)})
	for n := range 1200 {
		tm := numbered(rand.New(rand.NewPCG(1, 1)), 0)
		tm.Key.Name, tm.Spec.Target = fmt.Sprintf("t%03d", n%200), fmt.Sprint("stream:", n%2)
		write(t, store, &tm)
		log := rouse.Record{Namespace: tm.Key.Namespace, Name: tm.Key.Name, Ending: rouse.EndFired, Ended: day, Target: tm.Spec.Target}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: tm.Key, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{log}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		targets                      []string
		timers, records, aggregation int64
	}{{nil, 120, 1000, 1200}, {[]string{"stream:1"}, 0, 500, 600}, {[]string{"stream:2"}, 0, 0, 0}} {
		ctx := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
			{Role: "reader", Scope: access.Scope{Namespaces: []string{"a"}, Targets: c.targets}}}})
		for _, namespace := range []string{"a", ""} {
			sought := rouse.Sought{Text: "nothing"}
			list, err := ts.Search(ctx, rouse.Query{Namespace: namespace, Limit: 1, Sought: sought})
			if err != nil || list.Next == nil || list.Searched != c.timers {
				t.Errorf("%v in %q: %d timers were searched, %v; want %d", c.targets, namespace, list.Searched, err, c.timers)
			}
			page, err := ts.Records(ctx, rouse.RecordQuery{Namespace: namespace, Limit: 1, Sought: sought})
			if err != nil || page.Next == nil || page.Searched != c.records {
				t.Errorf("%v in %q: %d records were searched, %v; want %d", c.targets, namespace, page.Searched, err, c.records)
			}
			groups, err := ts.Aggregate(ctx, rouse.RecordQuery{Namespace: namespace}, "", 0)
			if err != nil || groups.Searched != c.aggregation {
				t.Errorf("%v in %q: %d records were summed up, %v; want %d", c.targets, namespace, groups.Searched, err, c.aggregation)
			}
		}
	}
}

// TestAggregates sums up records by each property.
func TestAggregates(t *testing.T) {
	onEveryStore(t, func(t *testing.T, ts *Timers) {
		add := func(r rouse.Record) {
			t.Helper()
			r.Name, r.Due = "x", day
			if _, err := ts.store.Apply(t.Context(), []rouse.Change{{Key: rouse.Key{Namespace: r.Namespace, Name: "x"}, If: rouse.AnyRevision, Keep: true, Log: []rouse.Record{r}}}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 10 {
			add(rouse.Record{Namespace: "a", Ending: rouse.EndFired, Cause: rouse.CauseDelivered, Began: day + rouse.Instant(100*n), Ended: day + rouse.Instant(10_000*n)})
			add(rouse.Record{Namespace: "b", Ending: rouse.EndDead, Cause: rouse.CauseRejected, Target: "x:1", Code: 500,
				Reason: fmt.Sprintf("dial 10.0.0.%d:80: refused by a3f-%d", n, n), Ended: day + rouse.Instant(10_000*n)})
		}
		add(rouse.Record{Namespace: "b", Ending: rouse.EndMissed, Cause: rouse.CausePaused, Target: "x:2", Count: 7, LastDue: day + 9, Ended: day})
		for by, want := range map[string]string{rouse.ByEnding: "dead 10, fired 10, missed 7", rouse.ByCause: "delivered 10, rejected 10, paused 7", rouse.ByNamespace: "b 17, a 10",
			rouse.ByTarget: " 10, x:1 10, x:2 7", rouse.ByError: "dial #: refused by # 10,  7", rouse.ByTime: "11, 12, 4"} {
			step := map[string]int64{rouse.ByTime: 60e9}[by]
			got, err := ts.Aggregate(t.Context(), rouse.RecordQuery{}, by, time.Duration(step))
			if err != nil || got.Next != nil || got.Searched != 21 {
				t.Fatalf("by %s: %+v, %v", by, got, err)
			}
			var list []string
			for _, g := range got.Groups {
				if text := fmt.Sprintf("%s %d", g.Key, g.Count); by == rouse.ByTime {
					list = append(list, fmt.Sprint(g.Count))
				} else {
					list = append(list, text)
				}
				if g.Key == "delivered" && (g.LagP50.Milliseconds() < 400 || g.LagP50.Milliseconds() > 450 || g.LagP99.Milliseconds() < 900 || g.LagP99.Milliseconds() > 1013) {
					t.Errorf("lags %v and %v", g.LagP50, g.LagP99)
				}
			}
			if text := strings.Join(list, ", "); text != want {
				t.Errorf("by %s: %q, want %q", by, text, want)
			}
		}
		out, err := ts.Outcomes(t.Context(), []rouse.Key{{Namespace: "b", Name: "x"}, {Namespace: "b", Name: "none"}}, 3)
		if err != nil || len(out) != 2 || len(out[0].Records) != 3 || out[0].Records[0].Ended != day+90_000 || len(out[1].Records) != 0 {
			t.Errorf("outcomes %+v, %v", out, err)
		}
	})
}

// TestPageEndsWhenItIsLarge: a page of large timers fits into a message, in every order.
func TestPageEndsWhenItIsLarge(t *testing.T) {
	ts := New(mem.New(), nil, nil, Options{Compile: schedule.Compile})
	for n := range 20 {
		tm := numbered(rand.New(rand.NewPCG(1, 1)), 8*n)
		tm.Spec.Payload = make([]byte, rouse.MaxPayload)
		write(t, ts.store, &tm)
	}
	for order := rouse.OrderName; order <= rouse.OrderUpdated; order++ {
		q, total := rouse.Query{Limit: 1000, Order: order}, 0
		for {
			page, err := ts.Search(t.Context(), q)
			if err != nil || len(page.Timers) > 9 {
				t.Fatalf("%d timers of %d bytes, %v", len(page.Timers), rouse.MaxPayload, err)
			}
			if total += len(page.Timers); page.Next == nil {
				break
			}
			q.After, q.AfterAt = page.Next.Key, page.Next.At
		}
		if total != 20 {
			t.Errorf("%d timers in the order of %s, want 20", total, order)
		}
	}
}
