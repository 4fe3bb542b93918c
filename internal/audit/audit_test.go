package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/throttle"
	"github.com/rousehq/rouse/store/mem"
)

// codes is how the doors of these tests name errors.
func codes(err error) (string, string) {
	if errors.Is(err, rouse.ErrForbidden) {
		return "forbidden", "scope"
	}
	return "internal", ""
}

// disk is a destination that can be full.
type disk struct {
	full  atomic.Bool
	lines []string
}

func (d *disk) Name() string { return "disk" }
func (d *disk) Close() error { return nil }

func (d *disk) Write(ctx context.Context, events []audit.Written) (int, error) {
	if d.full.Load() {
		return 0, errors.New("no space left on device")
	}
	for _, e := range events {
		d.lines = append(d.lines, string(e.Line))
	}
	return len(events), nil
}

func now() rouse.Instant { return rouse.Reached(time.Now()) }

// rowChange makes one audited call, whose operation sets done.
func rowChange(l *audit.Log, done *bool) error {
	ctx, call, err := l.Begin(context.Background(), "timers.delete", "Timers/Delete", audit.Caller{ID: "key:a"}, nil)
	if err == nil {
		*done = true
		audit.Touched(ctx, "ns", "x", 1, rouse.NoRow)
	}
	return call.End(ctx, err, codes)
}

// TestNothingIsChangedWithoutItsEvent: while the disk is full, answers wait and fail, then calls are refused
// before they do anything; afterwards every event of a call that did something is there once.
func TestNothingIsChangedWithoutItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := audit.Open(audit.Options{To: []audit.Destination{d}, Now: now})
		var done bool
		if err := rowChange(l, &done); err != nil || len(d.lines) != 1 {
			t.Fatalf("%v, %d lines", err, len(d.lines))
		}
		d.full.Store(true)
		began := time.Now()
		if err := rowChange(l, &done); !errors.Is(err, rouse.ErrUnavailable) || time.Since(began) > 6*time.Second {
			t.Errorf("the answer while the disk is full is %v after %v", err, time.Since(began))
		}
		changed := 2
		most := throttle.Share(audit.MaxQueue, audit.MaxQueue, throttle.Reserve, 1) // of one caller
		for range most + 100 {
			done = false
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // callers that do not wait
			ctx, call, err := l.Begin(ctx, "timers.delete", "Timers/Delete", audit.Caller{ID: "key:a"}, nil)
			if err == nil {
				changed++
			} else if !errors.Is(err, rouse.ErrUnavailable) || call != nil {
				t.Fatalf("a call that is refused: %v", err)
			}
			_ = call.End(ctx, err, codes)
		}
		other, call, err := l.Begin(context.Background(), "timers.delete", "Timers/Delete", audit.Caller{ID: "key:b"}, nil)
		if err != nil {
			t.Errorf("another caller is refused: %v", err)
		}
		audit.Checks(other)
		_ = call.End(other, nil, codes)
		if changed != 1+most || l.Counts().Dropped["full"] == 0 || l.Counts().Failures["disk"] == 0 || l.Counts().Failing["disk"] == "" {
			t.Errorf("%d calls did something, and the counts are %+v", changed, l.Counts())
		}
		d.full.Store(false)
		time.Sleep(time.Second)
		if err := rowChange(l, &done); err != nil {
			t.Errorf("with space again: %v", err)
		}
		if failing := l.Counts().Failing; len(failing) > 0 {
			t.Errorf("with space again: %v", failing)
		}
		if slices.Sort(d.lines); len(d.lines) != changed+1 || len(slices.Compact(d.lines)) != changed+1 {
			t.Errorf("%d calls did something, and there are %d lines", changed+1, len(d.lines))
		}
		if err := l.Close(); err != nil || l.Counts().Queued != 0 {
			t.Errorf("%v, %+v", err, l.Counts())
		}
	})
}

// TestDroppedEventsAreCounted: with the other rule calls go on.
func TestDroppedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		d.full.Store(true)
		l := audit.Open(audit.Options{To: []audit.Destination{d}, Now: now, Drop: true})
		began := time.Now()
		for range audit.MaxQueue + 50 {
			var done bool
			if err := rowChange(l, &done); err != nil || !done {
				t.Fatal(err)
			}
		}
		if time.Since(began) != 0 {
			t.Errorf("the calls waited %v", time.Since(began))
		}
		time.Sleep(5 * time.Second)
		d.full.Store(false)
		var done bool
		if err := rowChange(l, &done); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		c := l.Counts()
		if int(c.Dropped["full"]+c.Dropped["write_failed"]) != audit.MaxQueue+51-len(d.lines) || c.Dropped["full"] == 0 || c.Dropped["write_failed"] == 0 || len(d.lines) == 0 {
			t.Errorf("%d lines, and %+v", len(d.lines), c)
		}
	})
}

// TestStrangersDoNotFillTheLog: calls without valid credentials have events, up to a rate.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := audit.Open(audit.Options{To: []audit.Destination{d}, Now: now})
		for range 3 * audit.MaxStrangers {
			ctx, call, err := l.Begin(context.Background(), "timers.delete", "Timers/Delete", audit.Caller{}, rouse.ErrUnauthenticated)
			_ = call.End(ctx, err, func(error) (string, string) { return "unauthenticated", "unknown" })
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(d.lines) != audit.MaxStrangers || l.Counts().Dropped["unauthenticated"] != 2*audit.MaxStrangers {
			t.Errorf("%d lines, %+v", len(d.lines), l.Counts())
		}
	})
}

// TestOffCostsNothing: a call without a log allocates nothing, also where there are logs.
func TestOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	off := func() {
		var l *audit.Log
		ctx, call, err := l.Begin(ctx, "timers.create", "Timers/Create", audit.Caller{}, nil)
		call.About("ns", "x")
		audit.Touched(ctx, "ns", "x", 0, 1)
		_ = call.End(ctx, err, codes)
	}
	if n := testing.AllocsPerRun(100, off); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	l := audit.Open(audit.Options{To: []audit.Destination{&disk{}}, Now: now})
	defer l.Close()
	if n := testing.AllocsPerRun(100, off); n != 0 {
		t.Errorf("a call that is not logged allocates %v times", n)
	}
}

func written(n int, at rouse.Instant) []audit.Written {
	out := make([]audit.Written, n)
	for i := range out {
		out[i] = audit.Written{ID: fmt.Sprint(i), Time: at, Line: fmt.Appendf(nil, "{\"id\":\"%d\"}\n", i)}
	}
	return out
}

// TestFilesRotate: files have a maximum size and number, belong to the user alone, and are begun again when
// something else takes them away. A line that was cut off by a crash does not spoil the next one.
func TestFilesRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	open := func() *audit.File {
		f, err := audit.OpenFile(audit.FileOptions{Path: path, Size: 100, Files: 3})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	if n, err := f.Write(t.Context(), written(40, 0)); n != 40 || err != nil {
		t.Fatal(n, err)
	}
	list, _ := filepath.Glob(path + "*")
	if !slices.Equal(list, []string{path, path + ".1", path + ".2"}) {
		t.Errorf("the files are %v", list)
	}
	var all []byte
	for _, name := range []string{path + ".2", path + ".1", path} {
		b, err := os.ReadFile(name)
		info, err2 := os.Stat(name)
		if err != nil || err2 != nil || len(b) > 100 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes and mode %v, %v, %v", name, len(b), info.Mode(), err, err2)
		}
		all = append(all, b...)
	}
	if !bytes.HasSuffix(all, []byte("{\"id\":\"38\"}\n{\"id\":\"39\"}\n")) {
		t.Errorf("the newest events are not there: %s", all)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(t.Context(), written(1, 0)); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{\"id\":\"0\"}\n" {
		t.Errorf("after it was renamed the file is %q", b)
	}
	f.Close()
	if err := errors.Join(os.WriteFile(path, []byte("{\"id\":\"ha"), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	f = open()
	defer f.Close()
	if _, err := f.Write(t.Context(), written(1, 0)); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{\"id\":\"ha\n{\"id\":\"0\"}\n" {
		t.Errorf("after a crash the file is %q", b)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a log that others could read: %v, %v", info.Mode(), err)
	}
}

// TestFilesThatCannotBeLogs are refused before the node starts.
func TestFilesThatCannotBeLogs(t *testing.T) {
	dir := t.TempDir()
	for what, path := range map[string]string{"a directory": dir, "in none": filepath.Join(dir, "none", "audit.log"), "a device": os.DevNull} {
		if _, err := audit.OpenFile(audit.FileOptions{Path: path}); err == nil {
			t.Errorf("%s is a log", what)
		}
	}
}

// TestSearchIsTheModel compares pages of random queries with what a scan of all events gives, in both orders.
func TestSearchIsTheModel(t *testing.T) {
	SearchIsTheModel(t, mem.New())
}

// SearchIsTheModel is the test for a store.
func SearchIsTheModel(t *testing.T, store rouse.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	start := rouse.Reached(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	clock := start
	rows := &audit.Rows{Store: store}
	var all []audit.Event
	for i := range 2000 {
		switch random.IntN(60) {
		case 0:
			clock = clock.Add(time.Duration(random.IntN(48)) * time.Hour)
		case 1, 2, 3:
		default:
			clock = clock.Add(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		all = append(all, audit.Event{ID: fmt.Sprint("e", i), Time: clock.Time(), Verb: []string{"timers.create", "timers.delete", "keys.create"}[random.IntN(3)],
			Principal: fmt.Sprint("key:", random.IntN(3)), Name: fmt.Sprint("person-", random.IntN(3)), Namespace: []string{"a", "ab", ""}[random.IntN(3)], Names: []string{fmt.Sprint("n", random.IntN(20))}, Outcome: []string{audit.OK, "forbidden", "conflict"}[random.IntN(3)]})
	}
	for rest := all; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(200))
		var batch []audit.Written
		for _, e := range rest[:n] {
			batch = append(batch, audit.Written{ID: e.ID, Time: e.Instant(), Line: e.Line()})
		}
		for range 1 + random.IntN(2) { // also again, as after an error
			if k, err := rows.Write(t.Context(), batch); k != n || err != nil {
				t.Fatal(k, err)
			}
		}
		rest = rest[n:]
	}
	pick := func() rouse.Instant { return all[random.IntN(len(all))].Instant() }
	for round := range 40 {
		q := audit.Query{Limit: 1 + random.IntN(400), Oldest: round%2 == 0}
		for _, set := range []func(){func() { q.Verb = "timers.*" }, func() { q.Principal = "key:1" }, func() { q.Namespace = "a" }, func() { q.Namespace = "a*" }, func() { q.Name = "n3" },
			func() { q.Principal = "person-2*" }, func() { q.Outcome = "forbidden" }, func() { q.Outcome = audit.OK }, func() { q.Outcome = audit.Refused }, func() { q.From = pick() }, func() { q.Until = pick() }, func() { q.Allowed = func(ns string) bool { return ns != "" } }} {
			if random.IntN(4) == 0 {
				set()
			}
		}
		var want, got []string
		seen := 0 // events that the caller may see
		for _, e := range all {
			at := e.Instant()
			if q.Allowed == nil || e.Namespace != "" {
				seen++
			}
			if (q.Verb == "" || strings.HasPrefix(e.Verb, "timers.")) && (q.Principal == "" || e.Principal == q.Principal || q.Principal == "person-2*" && e.Name == "person-2") && (q.Namespace != "a" || e.Namespace == "a") &&
				(q.Namespace != "a*" || e.Namespace != "") && (q.Name == "" || e.Names[0] == q.Name) && (q.Outcome == "" || e.Outcome == q.Outcome || q.Outcome == audit.Refused && e.Outcome != audit.OK) &&
				(q.From == 0 || at >= q.From) && (q.Until == 0 || at < q.Until) && (q.Allowed == nil || e.Namespace != "") {
				want = append(want, e.ID)
			}
		}
		var last rouse.Instant
		searched := 0
		for pages := 0; ; pages++ {
			page, err := rows.Search(t.Context(), q, clock)
			if err != nil || pages > 5000 {
				t.Fatalf("%d pages, %v", pages, err)
			}
			searched += page.Searched
			if (page.Reached == 0) != (page.Searched == 0) {
				t.Fatalf("%+v: %d events were searched, until %v", q, page.Searched, page.Reached)
			}
			for _, e := range page.Events {
				if last != 0 && (e.Instant() < last) == q.Oldest && e.Instant() != last {
					t.Fatalf("oldest first %v: %v comes after %v", q.Oldest, e.Instant(), last)
				}
				last = e.Instant()
				got = append(got, e.ID)
			}
			if page.Next == nil {
				break
			}
			if q.After, err = audit.ParseCursor(page.Next.Token()); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%+v: %d events, want %d", q, len(got), len(want))
		}
		if searched < len(want) || searched > seen {
			t.Fatalf("%+v: %d events were searched, and its caller may see %d", q, searched, seen)
		}
	}
	at := all[0].Instant()
	for what, q := range map[string]audit.Query{"from": {From: -1}, "until": {Until: -1}, "no time": {From: at, Until: at}, "a reverse time": {From: at + 1, Until: at},
		"long": {Principal: strings.Repeat("x", 300)}, "a control character": {Name: "a\x01"}, "no text": {Verb: "\xff"}, "a namespace": {Namespace: strings.Repeat("x", 300)},
		"an outcome": {Outcome: strings.Repeat("x", 300)}, "a long row": {After: audit.Cursor{Row: strings.Repeat("x", 300)}}, "no event": {After: audit.Cursor{Row: "x", Event: -1}}} {
		if err := q.Check(); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, q := range []audit.Query{{}, {From: at}, {Until: at}, {From: at, Until: at + 1}, {After: audit.Cursor{Row: "x"}}} {
		if err := q.Check(); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, token := range []string{"x", "/1", "x/", "x/-1", "x/y", strings.Repeat("x", 300) + "/1"} {
		if c, err := audit.ParseCursor(token); err == nil {
			t.Errorf("the token %.10q is %+v", token, c)
		}
	}
	cut := all[len(all)/2].Instant()
	if _, err := rows.Trim(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	for _, oldest := range []bool{true, false} {
		page, err := rows.Search(t.Context(), audit.Query{Limit: 5000, Oldest: oldest}, clock)
		kept := 0
		for _, e := range page.Events {
			if e.Instant() >= cut {
				kept++
			} else if e.Instant() < cut.Add(-time.Second) {
				t.Errorf("%v is kept, from before %v", e.Instant(), cut)
			}
		}
		if want := len(all) - slices.IndexFunc(all, func(e audit.Event) bool { return e.Instant() >= cut }); err != nil || kept != want {
			t.Errorf("%d events are kept, %v; want %d", kept, err, want)
		}
	}
}

// FuzzCursor: a token of a page is refused, or is the same when it is written and read again.
func FuzzCursor(f *testing.F) {
	for _, text := range []string{"", "row/1", "a/b/2", "/1", "row/-1", "row/99999999999999999999", "row/01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := audit.ParseCursor(text)
		if err != nil || text == "" {
			return
		}
		if again, err := audit.ParseCursor(c.Token()); err != nil || again != c || c.Row == "" || c.Event < 0 {
			t.Errorf("%q is %+v, and then %+v, %v", text, c, again, err)
		}
	})
}
