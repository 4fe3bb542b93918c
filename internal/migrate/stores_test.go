package migrate_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/store/sqlite"
	"github.com/rousehq/rouse/test/servers"
)

// kinds are the stores that are copied to each other.
var kinds = map[string]func(t testing.TB, dir string) rouse.Store{
	"mem": func(testing.TB, string) rouse.Store { return told{mem.New()} },
	"pebble": func(t testing.TB, dir string) rouse.Store {
		s, err := pebble.Open(filepath.Join(dir, "pebble"), pebble.Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"sqlite": func(t testing.TB, dir string) rouse.Store {
		s, err := sqlite.Open(filepath.Join(dir, "timers.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"postgres": func(t testing.TB, _ string) rouse.Store {
		s, err := postgres.Open(context.Background(), servers.Postgres(t), postgres.Options{AllowUnsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"redis": func(t testing.TB, _ string) rouse.Store {
		s, err := redis.Open(context.Background(), servers.Redis(t), redis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return toldRedis{s}
	},
}

var kindNames = slices.Sorted(maps.Keys(kinds))

func open(t testing.TB, kind string) rouse.Store {
	t.Helper()
	s := kinds[kind](t, t.TempDir())
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// told is a store in memory that lists the namespaces of its records.
type told struct{ *mem.Store }

func (told) RecordNamespaces(context.Context) ([]string, error) { return spaces, nil }

// toldRedis is a Redis that lists them.
type toldRedis struct{ *redis.Store }

func (toldRedis) RecordNamespaces(context.Context) ([]string, error) { return spaces, nil }

var (
	spaces = []string{"default", "gone", "test"}
	states = append(slices.Clone(rouse.ListedStates), rouse.StateDead, rouse.StateFiring, rouse.StateNote)
)

const start rouse.Instant = 1_750_000_000_000

// row returns a row of a timer that can be decoded.
func row(namespace, name, fire string, state rouse.State) rouse.Row {
	tm := rouse.Timer{Key: rouse.Key{Namespace: namespace, Name: name, Fire: fire}, Created: start, Visible: start + 5000, Due: start + 5000,
		Spec: rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Payload: []byte("payload of " + name), Criticality: 3}}
	r := tm.Row()
	r.State = state
	return r
}

// put writes rows, whether they exist or not.
func put(t testing.TB, s rouse.Store, rows ...rouse.Row) {
	t.Helper()
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, If: rouse.AnyRevision, To: &rows[i]}
	}
	apply(t, s, changes...)
}

// beyondFirst is higher than where the revisions of a store begin.
const beyondFirst = 5_000_000_000_000_000

func raise(t testing.TB, s rouse.Store, to uint64) {
	t.Helper()
	if err := s.(rouse.Raiser).Raise(t.Context(), to); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, s rouse.Store, k rouse.Key) {
	t.Helper()
	apply(t, s, rouse.Change{Key: k, If: rouse.AnyRevision})
}

func apply(t testing.TB, s rouse.Store, changes ...rouse.Change) []rouse.Result {
	t.Helper()
	results, err := s.Apply(context.Background(), changes)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func log(t testing.TB, s rouse.Store, records ...rouse.Record) {
	t.Helper()
	apply(t, s, rouse.Change{Key: rouse.Key{Namespace: "test", Name: "logger"}, If: rouse.AnyRevision, Keep: true, Log: records})
}

func record(namespace, name string, ended int) rouse.Record {
	return rouse.Record{Namespace: namespace, Name: name, Generation: 7, Ending: rouse.EndFired, Due: start, Attempts: 2, Code: 204, Sent: start,
		Ended: start + rouse.Instant(ended), Failures: []rouse.Attempt{{Sent: start, Code: 503, Detail: "busy"}}}
}

// rowsOf returns all rows of a store, except the note that its timers were moved.
func rowsOf(t testing.TB, s rouse.Store) (rows []rouse.Row) {
	t.Helper()
	q := rouse.Query{States: states, Limit: 100}
	for {
		page, err := s.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.DeleteFunc(page.Rows, func(r rouse.Row) bool { return r.Key.Name == "\x01moved" })...)
		if page.Next == nil {
			return rows
		}
		q.After = *page.Next
	}
}

// contents describes the whole content of a store without revisions, which a copy must have as well.
func contents(t testing.TB, s rouse.Store) (lines []string) {
	t.Helper()
	for _, r := range rowsOf(t, s) {
		r.Revision, r.Criticality = 0, 0
		lines = append(lines, fmt.Sprintf("%q %d %d %d %v %d %v %x", r.Key, r.Bucket, r.Visible, r.Generation, r.State, r.Due, r.Labels, r.Body))
	}
	for _, ns := range spaces {
		q := rouse.RecordQuery{Namespace: ns, Limit: 100}
		for {
			page, err := s.Records(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				lines = append(lines, fmt.Sprintf("%+v", r))
			}
			if page.Next == nil {
				break
			}
			q.Until = *page.Next
		}
	}
	return lines
}

// alike fails unless both stores have the same content, and the target's revisions are above all of the
// source's.
func alike(t testing.TB, from, to rouse.Store) {
	t.Helper()
	want, got := contents(t, from), contents(t, to)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Fatalf("line %d is too much: %s", i, got[i])
		case i >= len(got):
			t.Fatalf("line %d is missing: %s", i, want[i])
		case want[i] != got[i]:
			t.Fatalf("line %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	k := rouse.Key{Namespace: "test", Name: "highest"}
	put(t, from, rouse.Row{Key: k, State: rouse.StateScheduled})
	have, err := from.Get(context.Background(), []rouse.Key{k})
	if err != nil {
		t.Fatal(err)
	}
	remove(t, from, k)
	for _, r := range rowsOf(t, to) {
		if r.Revision <= have[0].Revision {
			t.Fatalf("%q has revision %d, the source has given %d", r.Key, r.Revision, have[0].Revision)
		}
	}
	if r := apply(t, to, rouse.Change{Key: k, If: rouse.NoRow, To: &rouse.Row{State: rouse.StateScheduled}})[0]; r.Revision <= have[0].Revision {
		t.Fatalf("the target gives generation %d, the source has given %d", r.Revision, have[0].Revision)
	}
	remove(t, to, k)
}
