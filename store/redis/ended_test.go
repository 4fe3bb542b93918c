package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/servers"
)

// life puts timers into stores and ends them with their records, in every combination that a batch of changes
// can have.
type life struct {
	*testing.T
	rnd    *rand.Rand
	stores [2]rouse.Store // the tested store and the model
	alive  map[string][2]uint64
	made   int
	apart  bool // there are several shards, so sequences are not in the order of the changes: no two records may end at the same time
}

func (l *life) name() string { return fmt.Sprint("t", l.rnd.IntN(40)) }

// step makes one batch of changes in both stores, some of which are refused, and compares the results.
func (l *life) step() {
	l.Helper()
	var changes [2][]rouse.Change
	names := map[string]bool{}
	for range 1 + l.rnd.IntN(25) {
		name := l.name()
		if names[name] && l.rnd.IntN(4) != 0 { // in most batches, each timer occurs once
			continue
		}
		names[name] = true
		was, there := l.alive[name]
		space := []string{"a", "b"}[len(name)%2]
		key := rouse.Key{Namespace: space, Name: name}
		to := rouse.Row{Key: key, Bucket: uint32(len(name)), Visible: due + rouse.Instant(l.rnd.IntN(5)), Due: due, State: rouse.State(1 + l.rnd.IntN(3)/2),
			Body: []byte(name), Labels: map[string]string{"n": name}}
		l.made++
		record := rouse.Record{Namespace: space, Name: name, Ending: rouse.EndFired, Due: rouse.Instant(l.made),
			Ended: due + rouse.Instant(l.rnd.IntN(3)*3_600_000+l.rnd.IntN(200)), Reason: fmt.Sprint("record ", l.made)}
		if l.apart {
			record.Ended = record.Ended.Add(-time.Duration(record.Ended%3_600_000)*time.Millisecond) + rouse.Instant(l.made)
		}
		what := l.rnd.IntN(9)
		for i := range changes {
			c := rouse.Change{Key: key, If: was[i]}
			switch {
			case !there || what == 0:
				c.If = rouse.NoRow
				c.To = &to
			case what == 1: // a change that is refused
				c.If++
				if c.Log = []rouse.Record{record}; l.made%2 == 0 {
					row := to
					row.Generation = was[i]
					c.To = &row
				}
			case what == 2:
				row := to
				row.Generation = was[i]
				c.To = &row
			case what == 3:
				row := to
				row.Generation = was[i]
				c.To, c.Log = &row, []rouse.Record{record, record}
				c.Log[1].Reason = "another"
				if l.apart {
					c.Log = c.Log[:1]
				}
			case what == 4:
				c.To, c.Log = &to, []rouse.Record{record}
			case what == 5:
			default:
				c.Log = []rouse.Record{record}
			}
			changes[i] = append(changes[i], c)
		}
	}
	var results [2][]rouse.Result
	for i, s := range l.stores {
		var err error
		if results[i], err = s.Apply(l.Context(), changes[i]); err != nil {
			l.Fatal(err)
		}
	}
	for n, c := range changes[0] {
		ours, theirs := results[0][n], results[1][n]
		if ours.Applied != theirs.Applied || ours.Existed != theirs.Existed || (ours.Revision == 0) != (theirs.Revision == 0) {
			l.Fatalf("change %d, %+v: %+v, want %+v", n, c, ours, theirs)
		}
		if n > 0 && !l.apart && ours.Applied && c.To != nil && results[0][n-1].Applied && ours.Revision <= results[0][n-1].Revision {
			l.Fatalf("revision %d after %d", ours.Revision, results[0][n-1].Revision)
		}
		if ours.Revision == 0 {
			delete(l.alive, c.Key.Name)
		} else {
			l.alive[c.Key.Name] = [2]uint64{ours.Revision, theirs.Revision}
		}
	}
}

func (l *life) history(s rouse.Store, q rouse.RecordQuery) (out []rouse.Record) {
	for {
		page, err := s.Records(l.Context(), q)
		if err != nil {
			l.Fatal(err)
		}
		if page.Next != nil && len(page.Records) != q.Limit {
			l.Fatalf("a page of %d records with a next one, the limit is %d", len(page.Records), q.Limit)
		}
		if out = append(out, page.Records...); page.Next == nil {
			return out
		}
		q.Until = *page.Next
	}
}

// compare compares the whole content of both stores.
func (l *life) compare(when string) {
	l.Helper()
	for _, space := range []string{"a", "b"} {
		names := []string{"", l.name(), l.name(), l.name()}
		for _, name := range names {
			q := rouse.RecordQuery{Namespace: space, Name: name, Limit: []int{1, 2, 7, 1000}[l.rnd.IntN(4)]}
			got, want := l.history(l.stores[0], q), l.history(l.stores[1], q)
			if len(got) != len(want) {
				l.Fatalf("%s: %+v: %d records, want %d", when, q, len(got), len(want))
			}
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) {
					l.Fatalf("%s: %+v: record %d is %+v, want %+v", when, q, i, got[i], want[i])
				}
			}
		}
		for _, state := range []rouse.State{1, 2} {
			q := rouse.Query{Namespace: space, States: []rouse.State{state}, Limit: 1000}
			got, err := l.stores[0].List(l.Context(), q)
			if err != nil {
				l.Fatal(err)
			}
			want, _ := l.stores[1].List(l.Context(), q)
			if n, _ := l.stores[0].Count(l.Context(), q); int(n) != len(want.Rows) || len(got.Rows) != len(want.Rows) {
				l.Fatalf("%s: %d rows in state %d, counted %d, want %d", when, len(got.Rows), state, n, len(want.Rows))
			}
			for i := range got.Rows {
				g, w := got.Rows[i], want.Rows[i]
				g.Revision, g.Generation, w.Revision, w.Generation = 0, 0, 0, 0
				if !reflect.DeepEqual(g, w) {
					l.Fatalf("%s: %+v, want %+v", when, g, w)
				}
			}
		}
	}
	got, err := l.stores[0].Claim(l.Context(), rouse.Window{Buckets: bucketsUntil(9), Limit: 1000})
	want, _ := l.stores[1].Claim(l.Context(), rouse.Window{Buckets: bucketsUntil(9), Limit: 1000})
	if err != nil {
		l.Fatal(err)
	}
	sameKeys(l.T, when, got.Rows, want.Rows)
}

// both trims both stores and expects that they delete the same number of records.
func (l *life) both(what string, f func(context.Context, rouse.Store) (int64, error)) {
	l.Helper()
	got, err := f(l.Context(), l.stores[0])
	want, _ := f(l.Context(), l.stores[1])
	if err != nil || got != want {
		l.Fatalf("%s forgot %d, want %d: %v", what, got, want, err)
	}
}

func TestTimersEndAsInTheModel(t *testing.T) {
	url := servers.Redis(t)
	for seed := range 6 {
		shards := 1 + seed%2*2
		t.Run(fmt.Sprintf("%d, %d shards", seed, shards), func(t *testing.T) {
			s := openTest(t, url, Options{Shards: shards, Prefix: fmt.Sprint("life", seed)})
			defer s.Close()
			l := &life{T: t, rnd: rand.New(rand.NewPCG(uint64(seed), 5)), stores: [2]rouse.Store{s, mem.New()}, alive: map[string][2]uint64{}, apart: shards > 1}
			for range 40 {
				for range 5 {
					l.step()
				}
				l.compare("after changes")
				switch space, name, keep := []string{"a", "b"}[l.rnd.IntN(2)], l.name(), l.rnd.IntN(4); l.rnd.IntN(4) {
				case 0, 1:
					l.both(fmt.Sprintf("trim of %s to %d", name, keep), func(ctx context.Context, s rouse.Store) (int64, error) {
						return s.TrimTimer(ctx, space, name, keep)
					})
				case 2:
					before, most := due+rouse.Instant(l.rnd.IntN(4))*3_600_000, int64(l.rnd.IntN(3)*60)
					l.both(fmt.Sprintf("trim before %v beyond %d", before, most), func(ctx context.Context, s rouse.Store) (int64, error) {
						return s.Trim(ctx, before, most)
					})
				}
				l.compare("after a trim")
			}
			l.both("trim of all", func(ctx context.Context, s rouse.Store) (int64, error) { return s.Trim(ctx, rouse.Never-1, 0) })
			l.compare("at the end")
			for _, sh := range s.shards { // no record is left behind
				for _, pattern := range []string{"records:*", "batches:*", "ended:*", "history:*", "hours", "spaces:*"} {
					if keys := tell(t, url[len("redis://"):len(url)-2], "keys", sh.base+pattern).([]any); len(keys) > 0 {
						t.Errorf("%v are left", keys)
					}
				}
			}
		})
	}
}
