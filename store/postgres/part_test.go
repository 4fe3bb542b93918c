package postgres

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/servers"
)

// TestCallsOfAllKinds: a call with creates, removals and updates, of which some are refused, returns the
// results in the order of its changes, and writes the same rows and records as the model.
func TestCallsOfAllKinds(t *testing.T) {
	const mixed = 128
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	type outcome struct{ applied, existed bool }
	run := func(s rouse.Store) (out []outcome, there map[string]rouse.Instant, records int) {
		old := timers("old", 3*mixed)
		made, err := s.Apply(t.Context(), old)
		if err != nil {
			t.Fatal(err)
		}
		var changes []rouse.Change
		fresh := timers("new", mixed)
		for i := range old {
			c := rouse.Change{Key: old[i].Key, If: made[i].Revision, Log: []rouse.Record{{Namespace: "ns", Name: old[i].Key.Name, Ending: rouse.EndFired, Ended: rouse.Instant(1_750_000_000_000 + i)}}}
			if i%5 == 0 {
				c.If++ // a revision that it does not have
			}
			if i%2 == 0 {
				to := *old[i].To
				to.Visible += rouse.Instant(i)
				c.To = &to
			}
			changes = append(changes, c)
			if i < len(fresh) {
				changes = append(changes, fresh[i])
			}
		}
		taken := timers("old", 1)[0] // exists, or was removed: a second change of its key, which ends the first statement
		results, err := s.Apply(t.Context(), append(changes, taken))
		if err != nil {
			t.Fatal(err)
		}
		there = map[string]rouse.Instant{}
		for _, name := range []string{"old", "new"} {
			for _, c := range timers(name, 3*mixed) {
				rows, err := s.Get(t.Context(), []rouse.Key{c.Key})
				if err != nil {
					t.Fatal(err)
				}
				if rows[0].Revision != 0 {
					there[c.Key.Name] = rows[0].Visible
				}
			}
		}
		for i, r := range results {
			out = append(out, outcome{r.Applied, r.Existed})
			if i < len(changes) && changes[i].To != nil && r.Applied {
				rows, err := s.Get(t.Context(), []rouse.Key{changes[i].Key})
				if err != nil || rows[0].Revision != r.Revision {
					t.Fatalf("%v has revision %d, its result %d: %v", changes[i].Key, rows[0].Revision, r.Revision, err)
				}
			}
		}
		page, err := s.Records(t.Context(), rouse.RecordQuery{Namespace: "ns", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return out, there, len(page.Records)
	}
	model := mem.New()
	defer model.Close()
	want, wantRows, wantRecords := run(model)
	got, gotRows, gotRecords := run(s)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("change %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if gotRecords != wantRecords || len(gotRows) != len(wantRows) {
		t.Errorf("%d rows and %d records, want %d and %d", len(gotRows), gotRecords, len(wantRows), wantRecords)
	}
	for name, visible := range wantRows {
		if gotRows[name] != visible {
			t.Errorf("%s is visible at %v, want %v", name, gotRows[name], visible)
		}
	}
}
