package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
)

// fill writes rows of all states and records of several namespaces, one of which has no rows any more.
func fill(t testing.TB, s rouse.Store) {
	for i, state := range states {
		r := row("test", fmt.Sprintf("t%d", i), "", state)
		if state.Detached() {
			r.Key.Fire = fmt.Sprintf("fire%d", i)
		}
		if i%2 == 0 {
			r.Labels = map[string]string{"team": "red", "n": fmt.Sprint(i)}
		}
		put(t, s, r)
	}
	calendar := rouse.Calendar{Namespace: "test", Name: "holidays", Updated: start}
	put(t, s, calendar.Row(0))
	var many []rouse.Row
	for i := range 1500 {
		many = append(many, row("default", fmt.Sprintf("many%04d", i), "", rouse.StateScheduled))
	}
	put(t, s, many...)
	var same []rouse.Record
	for i := range 1200 {
		same = append(same, record("test", fmt.Sprintf("t%d", i), 77)) // all at the same time
	}
	log(t, s, same...)
	log(t, s, same[5]) // an indistinguishable duplicate
	var spread []rouse.Record
	for i := range 300 {
		spread = append(spread, record("gone", "g", i*60_000), record("default", "many0001", i*10))
	}
	log(t, s, spread...)
}

// TestCopyFromEachKindToEach copies from each kind of store and into each. On a day each of them is once the
// source and once the target; with ROUSE_LONG=1 there are all pairs.
func TestCopyFromEachKindToEach(t *testing.T) {
	for i, source := range kindNames {
		for j, target := range kindNames {
			if !poll.Today(i+j, len(kindNames)) {
				continue
			}
			for _, shape := range shapesOf(source) {
				t.Run(source+" to "+target+": "+shape.Name, func(t *testing.T) { copyAll(t, source, target, shape) })
			}
		}
	}
}

// shapesOf returns the shapes of the files of a kind of store, or one that changes nothing.
func shapesOf(kind string) []storetest.Shape {
	if kind == "pebble" || kind == "sqlite" {
		return storetest.Shapes
	}
	return storetest.Shapes[:1]
}

func copyAll(t *testing.T, source, target string, shape storetest.Shape) {
	from, to := open(t, source), open(t, target)
	shape.Make(t, from)
	fill(t, from)
	shape.Make(t, from)
	// The generation of a deleted timer must not be reused.
	put(t, from, row("test", "gone", "", rouse.StateScheduled))
	remove(t, from, rouse.Key{Namespace: "test", Name: "gone"})
	r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true})
	if err != nil || !r.Same || !r.Finished || r.Passes != 2 || r.Different != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if rows := int64(len(states) + 1 + 1500); r.Rows != rows || r.Total != (migrate.Counts{RowsWritten: rows, RecordsWritten: 1801}) || r.Records != 1801 {
		t.Errorf("%+v", r)
	}
	alike(t, from, to)
	if r, err := migrate.Verify(t.Context(), from, to, migrate.Options{}); err != nil || !r.Same {
		t.Errorf("%+v %v", r, err)
	}
	if _, unfinished, err := migrate.Unfinished(t.Context(), to); unfinished || err != nil {
		t.Error("the target is not finished", err)
	}
	checkLeft(t, from, to)
}

func TestACopyFollowsItsSource(t *testing.T) {
	from, to := open(t, "mem"), open(t, "sqlite")
	fill(t, from)
	r, err := migrate.Copy(t.Context(), from, to, migrate.Options{From: "the old one"})
	if err != nil || r.Finished || !r.Same {
		t.Fatalf("%+v %v", r, err)
	}
	if name, unfinished, err := migrate.Unfinished(t.Context(), to); !unfinished || name != "the old one" || err != nil {
		t.Errorf("%q %v %v", name, unfinished, err)
	}
	remove(t, from, rouse.Key{Namespace: "default", Name: "many0007"})
	put(t, from, row("default", "many0008", "", rouse.StatePaused), row("default", "new", "", rouse.StateScheduled))
	log(t, from, record("test", "t3", 77), record("gone", "g", -60_000))
	if _, err := from.TrimTimer(t.Context(), "default", "many0001", 10); err != nil {
		t.Fatal(err)
	}
	dry, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true, Dry: true})
	want := migrate.Counts{RowsWritten: 2, RowsRemoved: 1, RecordsWritten: 2}
	if err != nil || dry.Last != want || dry.Forgot != 290 || dry.Finished || dry.Same {
		t.Fatalf("%+v %v", dry, err)
	}
	see, err := migrate.Verify(t.Context(), from, to, migrate.Options{})
	if err != nil || see.Different != 5 || see.Same || len(see.Differences) != 5 {
		t.Fatalf("%+v %v", see, err)
	}
	for i, part := range []string{`"many0007" of namespace "default" is in the target only`, `"many0008" of namespace "default" has generation`,
		`"new" of namespace "default" is missing`, `the record of "g" in namespace "gone"`, `the record of "t3"`} {
		if !strings.Contains(see.Differences[i], part) {
			t.Errorf("%q does not mention %s", see.Differences[i], part)
		}
	}
	r, err = migrate.Copy(t.Context(), from, to, migrate.Options{Final: true})
	if err != nil || !r.Finished || r.Total != want || r.Forgot != 290 {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestRowsGoToTheTargetsBuckets: stores may have different numbers of buckets.
func TestRowsGoToTheTargetsBuckets(t *testing.T) {
	from, to := open(t, "mem"), open(t, "pebble")
	fill(t, from)
	o := migrate.Options{Final: true, Bucket: func(row *rouse.Row) uint32 { return uint32(len(row.Key.Name)) }}
	for range 2 {
		r, err := migrate.Copy(t.Context(), from, to, o)
		if err != nil && !strings.Contains(err.Error(), "no copy into it is under way") || err == nil && !r.Finished {
			t.Fatalf("%+v %v", r, err)
		}
	}
	for _, r := range rowsOf(t, to) {
		if r.Bucket != uint32(len(r.Key.Name)) {
			t.Fatalf("%q is in bucket %d", r.Key, r.Bucket)
		}
	}
	if r, err := migrate.Verify(t.Context(), from, to, o); err != nil || !r.Same {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := migrate.Verify(t.Context(), from, to, migrate.Options{}); err != nil || r.Different != int64(len(rowsOf(t, to))) || len(r.Differences) != 10 {
		t.Errorf("%+v %v", r, err)
	}
}

// seen records the criticality that rows are written with.
type seen struct {
	told
	critical map[uint8]int
}

func (s *seen) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	for _, c := range changes {
		if c.To != nil {
			s.critical[c.To.Criticality]++
		}
	}
	return s.told.Apply(ctx, changes)
}

// TestCriticalityComesFromTheTimer, because most stores do not keep it.
func TestCriticalityComesFromTheTimer(t *testing.T) {
	from, to := open(t, "sqlite"), &seen{told{mem.New()}, map[uint8]int{}}
	put(t, from, row("test", "a", "", rouse.StateScheduled), row("test", "b", "f", rouse.StateDead))
	if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil {
		t.Fatal(err)
	}
	if to.critical[3] != 2 {
		t.Errorf("criticalities %v", to.critical)
	}
}

func TestWhatIsRefused(t *testing.T) {
	fresh := func(t *testing.T) (from, to rouse.Store) {
		from, to = open(t, "mem"), open(t, "mem")
		raise(t, from, beyondFirst)
		fill(t, from)
		return from, to
	}
	begun := func(t *testing.T) (from, to rouse.Store) {
		from, to = fresh(t)
		if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{Origin: "there"}); err != nil {
			t.Fatal(err)
		}
		return from, to
	}
	for _, c := range []struct {
		text    string
		prepare func(t *testing.T) (from, to rouse.Store)
		want    string
	}{
		{"a target with rows", func(t *testing.T) (from, to rouse.Store) {
			from, to = fresh(t)
			put(t, to, row("test", "a", "", rouse.StateScheduled))
			return from, to
		}, "has 1 rows, and no copy into it is under way"},
		{"a target with records", func(t *testing.T) (from, to rouse.Store) {
			from, _ = fresh(t)
			to = open(t, "sqlite")
			log(t, to, record("test", "a", 0))
			return from, to
		}, "has records, of namespace test"},
		{"a source that is a target", func(t *testing.T) (from, to rouse.Store) {
			_, from = begun(t)
			return from, open(t, "mem")
		}, "is itself the target of a copy"},
		{"another source", func(t *testing.T) (from, to rouse.Store) {
			_, to = begun(t)
			from = open(t, "mem")
			raise(t, from, 2*beyondFirst) // its revisions are not lower
			put(t, from, row("test", "t0", "", rouse.StateScheduled))
			return from, to
		}, "has nothing in common with what was copied"},
		{"an older source", func(t *testing.T) (from, to rouse.Store) {
			_, to = begun(t)
			from = open(t, "mem")
			for _, r := range rowsOf(t, to)[:10] {
				put(t, from, r)
			}
			return from, to
		}, "it is older than what was copied"},
		{"a target that is served", func(t *testing.T) (from, to rouse.Store) {
			from, to = begun(t)
			put(t, to, row("test", "made here", "", rouse.StateScheduled))
			return from, to
		}, "the store is in use already"},
	} {
		t.Run(c.text, func(t *testing.T) {
			from, to := c.prepare(t)
			before := contents(t, to)
			_, err := migrate.Copy(t.Context(), from, to, migrate.Options{Origin: "elsewhere", Final: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if after := contents(t, to); c.text != "a target that is served" && strings.Join(after, "\n") != strings.Join(before, "\n") {
				t.Error("the target was changed")
			}
		})
	}
}

// TestAFiredTimerIsAWitness: only the records of what was copied are left in the source.
func TestAFiredTimerIsAWitness(t *testing.T) {
	from, to := open(t, "pebble"), open(t, "mem")
	r := row("test", "once", "", rouse.StateScheduled)
	put(t, from, r)
	if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{}); err != nil {
		t.Fatal(err)
	}
	done := record("test", "once", 0)
	done.Generation = rowsOf(t, from)[0].Generation
	apply(t, from, rouse.Change{Key: r.Key, If: rouse.AnyRevision, Log: []rouse.Record{done}})
	if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil || !r.Finished {
		t.Fatalf("%+v %v", r, err)
	}
	alike(t, from, to)
}

// TestASourceIsKnownByItsPlace, even if nothing in it was copied yet: a run that ended early can be
// continued.
func TestASourceIsKnownByItsPlace(t *testing.T) {
	from, to := open(t, "mem"), open(t, "mem")
	put(t, from, row("test", "a", "", rouse.StateScheduled))
	if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{Origin: "here"}); err != nil {
		t.Fatal(err)
	}
	remove(t, from, rouse.Key{Namespace: "test", Name: "a"})
	for origin, ok := range map[string]bool{"": false, "there": false, "here": true} {
		if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{Origin: origin, Dry: true}); (err == nil) != ok {
			t.Errorf("from %q: %v", origin, err)
		}
	}
}

// between calls f before the nth Apply.
type between struct {
	rouse.Store
	n int
	f func()
}

func (s *between) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if s.n--; s.n == 0 {
		s.f()
	}
	return s.Store.Apply(ctx, changes)
}

func (s *between) Raise(ctx context.Context, revision uint64) error {
	return s.Store.(rouse.Raiser).Raise(ctx, revision)
}

// TestTheOlderOfTwoRunsStops: a second run takes over, whatever the first one was about to write.
func TestTheOlderOfTwoRunsStops(t *testing.T) {
	for n := 2; n < 9; n++ {
		from, to := open(t, "mem"), open(t, "mem")
		fill(t, from)
		first := &between{Store: to, n: n, f: func() {
			if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{}); err != nil {
				t.Fatal(err)
			}
		}}
		if _, err := migrate.Copy(t.Context(), from, first, migrate.Options{}); !errors.Is(err, rouse.ErrConflict) || !strings.Contains(err.Error(), "another copy") {
			t.Errorf("write %d: %v", n, err)
		}
		if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil || !r.Finished {
			t.Fatalf("write %d: %+v %v", n, r, err)
		}
		alike(t, from, to)
	}
}

// TestASourceThatStillChangesIsNotFinal: the report lists what keeps changing, and the target stays
// unfinished.
func TestASourceThatStillChangesIsNotFinal(t *testing.T) {
	from, to := open(t, "mem"), open(t, "mem")
	fill(t, from)
	n := 0
	restless := &listed{from, func() {
		n++
		put(t, from, row("default", fmt.Sprintf("many%04d", 1000+n%100), "", rouse.StateScheduled), row("test", "t1", "", rouse.StatePaused))
	}}
	r, err := migrate.Copy(t.Context(), restless, to, migrate.Options{Final: true, Passes: 3})
	if err != nil || r.Finished || r.Same || r.Passes != 3 || r.Different == 0 || len(r.Differences) == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, unfinished, _ := migrate.Unfinished(t.Context(), to); !unfinished {
		t.Error("the marker is gone")
	}
}

// listed calls f after each page.
type listed struct {
	rouse.Store
	f func()
}

func (s *listed) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	page, err := s.Store.List(ctx, q)
	s.f()
	return page, err
}

// TestTokensHaveToGrow: a row with the same content is not a valid copy if its revision is not above that of
// the source.
func TestTokensHaveToGrow(t *testing.T) {
	from, to := open(t, "mem"), open(t, "mem")
	raise(t, from, beyondFirst)
	raise(t, to, beyondFirst)
	put(t, from, row("test", "a", "", rouse.StateScheduled), row("test", "b", "", rouse.StateScheduled))
	rows := rowsOf(t, from)
	put(t, to, rows[1], rows[0])
	r, err := migrate.Verify(t.Context(), from, to, migrate.Options{})
	if err != nil || r.Different != 1 || !strings.Contains(r.Differences[0], `"b" of namespace "test" has revision 5000000000000001, not one above 5000000000000002`) {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestOccurrencesOfAnotherStoreAreCopied: an imported occurrence has the generation that it had there, which
// may be above all of the source and of the target.
func TestOccurrencesOfAnotherStoreAreCopied(t *testing.T) {
	from, to := open(t, "mem"), open(t, "mem")
	imported := row("test", "a", "fire", rouse.StateFiring)
	imported.Generation = 2 * beyondFirst
	put(t, from, imported, row("test", "b", "", rouse.StateScheduled))
	for range 2 {
		if _, err := migrate.Copy(t.Context(), from, to, migrate.Options{}); err != nil {
			t.Fatal(err)
		}
		put(t, from, imported) // it has changed
	}
	remove(t, from, imported.Key)
	if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil || !r.Finished || len(rowsOf(t, to)) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
}
