package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// later contains migrations that this version does not know: one that it supports, and one that it does not.
var later = append(append([]migration{}, embedded...),
	migration{version: last + 1, compatible: last, up: `ALTER TABLE {schema}.timers ADD note text`, down: `ALTER TABLE {schema}.timers DROP note`},
	migration{version: last + 2, compatible: last + 2, up: `CREATE TABLE {schema}.third ()`, down: `DROP TABLE {schema}.third`},
)

var last = Latest()

func TestNodesMigrateAtTheSameTime(t *testing.T) {
	url := servers.Postgres(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := openWithSteps(t.Context(), url, unsafe, later)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := ask(t, url, `SELECT count(*) FROM rouse.migrations`); n != int64(last)+2 {
		t.Errorf("%d steps were noted, want %d", n, last+2)
	}
}

func TestMigrateUpAndDown(t *testing.T) {
	url := servers.Postgres(t)
	at := func(want int) {
		t.Helper()
		if n, err := SchemaVersion(t.Context(), url, unsafe); err != nil || n != want {
			t.Errorf("version %d, %v, want %d", n, err, want)
		}
	}
	at(0)
	for _, to := range []int{last + 2, 1, last + 1, 0, 0, last + 2, 0} {
		if err := migrateTo(t.Context(), url, unsafe, to, later); err != nil {
			t.Fatalf("to %d: %v", to, err)
		}
		at(to)
	}
	left := `SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'rouse' AND relkind IN ('r', 'S'))
		+ (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'rouse')`
	if n := ask(t, url, left); n != 1 { // the list of the steps
		t.Errorf("%d things are left of version 0, want 1", n)
	}
	refused(t, migrateTo(t.Context(), url, unsafe, last+3, later), fmt.Sprintf("no version %d", last+3), fmt.Sprintf("0 to %d", last+2))
}

// TestMixedVersions: while a new version is deployed, old nodes continue if the step allows it.
func TestMixedVersions(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	create(t, s, timers("before", 10))
	if err := migrateTo(t.Context(), url, unsafe, last+1, later); err != nil {
		t.Fatal(err)
	}
	create(t, s, timers("running", 10)) // on its existing connections
	again := openTest(t, url, unsafe)
	defer again.Close()
	create(t, again, timers("started", 10))
	if n, err := SchemaVersion(t.Context(), url, unsafe); err != nil || n != last+1 {
		t.Errorf("an old node has left version %d, %v", n, err)
	}
	if err := migrateTo(t.Context(), url, unsafe, last+2, later); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), url, unsafe)
	refused(t, err, fmt.Sprintf("has version %d", last+2), fmt.Sprintf("this one knows %d", last), "run a newer one")
	refused(t, Migrate(t.Context(), url, unsafe, 0), fmt.Sprintf("has version %d", last+2), "newer")
}

// TestASchemaChangesUnderAStore: an open store works only with a schema that it could be opened with.
func TestASchemaChangesUnderAStore(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	create(t, s, timers("before", 1))
	for _, c := range []struct {
		to   int
		want string
	}{{last - 1, fmt.Sprintf("has version %d, this rouse needs %d", last-1, last)}, {0, "has version 0"}, {last + 2, "run a newer one"}} {
		if err := migrateTo(t.Context(), url, unsafe, c.to, later); err != nil {
			t.Fatal(err)
		}
		_, err := s.Now(t.Context())
		refused(t, err, c.want)
		_, err = s.Lock(t.Context(), "me", time.Minute, []rouse.Want{{Name: "a"}})
		refused(t, err, c.want)
		_, err = s.Apply(t.Context(), timers("during", 1))
		refused(t, err, c.want)
		if err := migrateTo(t.Context(), url, unsafe, last, later); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Now(t.Context()); err != nil {
			t.Error(err)
		}
		create(t, s, timers(fmt.Sprint("after", c.to), 1))
		if leases, _, err := s.Leases(t.Context(), "a"); err != nil || len(leases) > 0 {
			t.Errorf("a refused call has written %+v, %v", leases, err)
		}
	}
}

// TestTheStepBackFromPauses is refused for rows that the version below does not read, and only for those.
func TestTheStepBackFromPauses(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	list := timers("t", 3)
	for i := range list {
		d := rouse.Timer{Key: list[i].Key, Spec: rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}, Due: 1, Paused: i > 0, PausedAt: rouse.Instant(min(i, 1))}
		if i == 2 {
			d.Attempts, d.Began = 1, 1
		}
		row := d.Row()
		list[i].To = &row
	}
	results := create(t, s, list)
	if err := Migrate(t.Context(), url, unsafe, 6); err != nil {
		t.Fatal(err)
	}
	refused(t, Migrate(t.Context(), url, unsafe, 1), "1 timers, such as ns/t00002", "version 5 does not read", "resume them")
	if err := Migrate(t.Context(), url, unsafe, last); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Apply(t.Context(), []rouse.Change{{Key: list[2].Key, If: results[2].Revision}}); err != nil || !done[0].Applied {
		t.Fatal(done, err)
	}
	if err := Migrate(t.Context(), url, unsafe, 1); err != nil {
		t.Error(err)
	}
}

// TestProgramsThatDoNotReadRecords do not open the schema: those of before version 5 do not read today's.
func TestProgramsThatDoNotReadRecords(t *testing.T) {
	url := servers.Postgres(t)
	openTest(t, url, unsafe).Close()
	for known := 1; known <= last; known++ {
		s, err := openWithSteps(t.Context(), url, unsafe, embedded[:known])
		if err == nil {
			s.Close()
		}
		if (err == nil) != (known >= 5) {
			t.Errorf("a program that knows version %d: %v", known, err)
		}
	}
}

// TestAStepIsWholeOrNot: a step that fails halfway leaves nothing behind, and the next attempt continues from
// the version of the schema.
func TestAStepIsWholeOrNot(t *testing.T) {
	url := servers.Postgres(t)
	broken := append([]migration{}, later...)
	broken[last].up = `CREATE TABLE {schema}.half (); SELECT 1/0`
	_, err := openWithSteps(t.Context(), url, unsafe, broken)
	refused(t, err, "division by zero", fmt.Sprintf("version %d", last+1))
	if n, err := SchemaVersion(t.Context(), url, unsafe); err != nil || n != last {
		t.Errorf("version %d, %v, want %d", n, err, last)
	}
	if n := ask(t, url, `SELECT count(*) FROM pg_class WHERE relname = 'half'`); n != 0 {
		t.Error("half of a step is left")
	}
	if err := migrateTo(t.Context(), url, unsafe, last+2, later); err != nil {
		t.Fatal(err)
	}
}

func TestNoMigrate(t *testing.T) {
	url := servers.Postgres(t)
	o := unsafe
	o.NoMigrate = true
	_, err := Open(t.Context(), url, o)
	refused(t, err, "has version 0", fmt.Sprintf("needs %d", last), "migrate it")
	if n := ask(t, url, `SELECT count(*) FROM pg_namespace WHERE nspname = 'rouse'`); n != 0 {
		t.Error("it has made the schema")
	}
}

func TestSchemasAreApart(t *testing.T) {
	url := servers.Postgres(t)
	a, b := openTest(t, url, unsafe), openTest(t, url, Options{AllowUnsafe: true, Schema: "select"}) // an SQL keyword
	defer a.Close()
	defer b.Close()
	create(t, a, timers("t", 3))
	create(t, b, timers("t", 3))
	_, err := Open(t.Context(), url, Options{Schema: `x"; DROP SCHEMA rouse`})
	refused(t, err, "not a valid name of a schema")
}
