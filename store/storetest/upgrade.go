package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// firstRows are the rows of the stores in the fixtures of the first format, in the form of describeRows.
const firstRows = `billing/birthday scheduled @every 24h {team:red}
default/again retrying @every 2h, 1 attempt, 1 run
default/birthday scheduled 2099-06-01T08:00:00Z {size:small team:red} {"cake": true}
default/coffee paused @every 30m, "holidays"
default/doomed dead @after 10ms, 1 attempt {team:red} "in vain"
default/hourly scheduled @every 1h
default/report scheduled 0 6 * * * Europe/Stockholm, 2 runs {team:blue}
default/soon scheduled 2026-12-24T18:00:00Z "soon"`

// Upgrade tests that a store written by a rouse of the first format can be read, fired from, written to and
// trimmed like any other. The directory contains one row for each of the lines above, three records of hourly
// and one of doomed.
func Upgrade(t *testing.T, open OpenDir, dir string) {
	b := &bench{T: t}
	reopen := func() {
		t.Helper()
		if b.Store != nil {
			if err := b.Store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if b.Store, err = open(dir); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	defer func() { _ = b.Store.Close() }()
	rows := b.mustList(rouse.Query{States: everyState})
	if got := describeRows(t, rows); got != firstRows {
		t.Fatalf("the store has\n%s\nwant\n%s", got, firstRows)
	}
	if n := b.mustCount(rouse.Query{Labels: map[string]string{"team": "red"}, States: everyState}); n != 3 {
		t.Errorf("%d rows are of the red team, want 3", n)
	}
	was := b.mustReadHistory(rouse.RecordQuery{Namespace: "default", Limit: 10})
	if got := describeEndings(was); got != "doomed dead 1, hourly fired 1, hourly fired 1, hourly fired 1" {
		t.Errorf("the records are %s", got)
	}

	reopen()
	b.checkSameRows("opened again", b.mustList(rouse.Query{States: everyState}), rows)
	var buckets []uint32
	for _, r := range rows {
		buckets = append(buckets, r.Bucket)
	}
	slices.Sort(buckets)
	batch := b.mustClaim(rouse.Window{Buckets: slices.Compact(buckets), Ahead: 100 * 365 * 24 * time.Hour,
		Hold: time.Minute, Limit: 100})
	if len(batch.Rows) != len(rows)-2 { // neither paused nor dead rows
		t.Errorf("claimed %v", rowNames(batch.Rows))
	}
	fired := map[string]int{}
	for i := range batch.Rows {
		fired[batch.Rows[i].Key.Name] += fireAll(b, &batch.Rows[i])
	}
	if got := fmt.Sprint(fired); got != "map[again:2 birthday:2 hourly:1 report:3 soon:1]" {
		t.Errorf("fired %s", got)
	}
	left := b.mustList(rouse.Query{States: everyState})
	if got := strings.Count(describeRows(t, left), "scheduled @every") +
		strings.Count(describeRows(t, left), "scheduled 0 6"); got != 4 || len(left) != 6 {
		t.Errorf("of it there is left\n%s", describeRows(t, left))
	}
	if n, err := b.Store.TrimTimer(t.Context(), "default", "hourly", 2); err != nil || n != 2 {
		t.Errorf("trimmed %d of hourly's records, want 2: %v", n, err)
	}

	reopen()
	b.checkSameRows("at the end", b.mustList(rouse.Query{States: everyState}), left)
	records := b.mustReadHistory(rouse.RecordQuery{Namespace: "default", Limit: 10})
	if got := describeEndings(b.mustReadHistory(rouse.RecordQuery{Namespace: "default", Name: "hourly",
		Limit: 10})); got != "hourly fired 1, hourly fired 1" || len(records) != 10 {
		t.Errorf("of hourly's records there are left %s, of all %s", got, describeEndings(records))
	}
	if n, err := b.Store.Trim(t.Context(), rouse.Never-1, 0); err != nil || n != int64(len(records))+1 {
		t.Errorf("trimmed %d records, want %d: %v", n, len(records)+1, err)
	}
}

// fireAll fires the row's timer, successfully and on time, until its schedule has been used once.
func fireAll(b *bench, row *rouse.Row) (n int) {
	b.Helper()
	for {
		t, err := rouse.DecodeTimer(row)
		if err != nil {
			b.Fatal(err)
		}
		occ, ok := t.Current()
		if !ok {
			b.Fatalf("%s has nothing to fire", t.Key.Name)
		}
		n++
		step := t.After(occ, row.Revision, rouse.Outcome{Verdict: rouse.Done, Code: 200}, occ.Due, occ.Due, each(time.Hour))
		change := rouse.Change{Key: row.Key, If: row.Revision, Log: step.Log}
		if step.To != nil {
			next := step.To.Row()
			change.To = &next
		}
		res := b.mustApply(change)[0]
		if !res.Applied {
			b.Fatalf("the settle of %s is refused: %+v", t.Key.Name, res)
		}
		if !occ.Manual || change.To == nil {
			return n
		}
		*row = b.mustGet(row.Key)[0]
	}
}

// each is a schedule of an interval.
type each time.Duration

func (e each) Next(after rouse.Instant) (rouse.Instant, bool) {
	return after.Add(time.Duration(e)), true
}

// describeRows returns a line for each row that describes its body.
func describeRows(t *testing.T, rows []rouse.Row) string {
	t.Helper()
	lines := make([]string, len(rows))
	for i := range rows {
		d, err := rouse.DecodeTimer(&rows[i])
		if err != nil {
			t.Fatal(err)
		}
		if rows[i].State != d.State() {
			t.Errorf("%s is kept as %v, and is %v", d.Key.Name, rows[i].State, d.State())
		}
		line := d.Key.Namespace + "/" + d.Key.Name + " " + d.State().String() + " " + d.Spec.Schedule
		if d.Spec.Timezone != "" {
			line += " " + d.Spec.Timezone
		}
		if d.Attempts > 0 {
			line += fmt.Sprintf(", %d attempt", d.Attempts)
		}
		if n := len(d.Runs); n > 0 {
			line += fmt.Sprintf(", %d run%s", n, "s"[:min(1, n-1)])
		}
		if d.Reason != "" {
			line += fmt.Sprintf(", %q", d.Reason)
		}
		if len(d.Spec.Labels) > 0 {
			line += " " + strings.Replace(fmt.Sprint(d.Spec.Labels), "map[", "{", 1)
			line = strings.TrimSuffix(line, "]") + "}"
		}
		if len(d.Spec.Payload) > 0 {
			line += " " + string(d.Spec.Payload)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// describeEndings describes how the occurrences of the records ended, sorted.
func describeEndings(records []rouse.Record) string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = fmt.Sprintf("%s %v %d", r.Name, r.Ending, r.Attempts)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
