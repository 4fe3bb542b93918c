package foreign_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/foreign"
)

// Each entry has one outcome, also if the server refuses a batch because of one of its timers.
func TestImporterReportsEachEntry(t *testing.T) {
	var calls []int
	outcomes := map[string]string{}
	i := foreign.Importer{MaxTimers: 3, MaxBytes: 100}
	i.Write = func(timers []rouse.Timer) ([]client.Created, error) {
		calls = append(calls, len(timers))
		created := make([]client.Created, len(timers))
		for n := range timers {
			switch timers[n].Key.Name {
			case "refused":
				return nil, rouse.Refuse("name", "refused", "is refused", "use another one")
			case "there":
				created[n].Err = rouse.ErrExists
			case "failed":
				created[n].Err = errors.New("no room")
			}
		}
		return created, nil
	}
	i.Report = func(r *foreign.Resumed, created client.Created) error {
		if (r.Outcome == foreign.Failed) != (r.Err != nil) || (r.Outcome == foreign.There) != errors.Is(created.Err, rouse.ErrExists) {
			t.Errorf("reported %+v with %+v", r, created)
		}
		outcomes[r.Timer.Key.Name] += r.Outcome
		return nil
	}
	for _, name := range []string{"new", "refused", "there", "over", "wrong", "large", "failed", "last"} {
		r := foreign.Resumed{Timer: rouse.Timer{Key: rouse.Key{Name: name}}}
		switch name {
		case "over":
			r.Outcome = foreign.Over
		case "wrong":
			r.Err = errors.New("wrong")
		case "large":
			r.Size = 101
		}
		if err := i.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := []int{3, 1, 1, 1, 1, 2}; !slices.Equal(calls, want) {
		t.Errorf("batches of %v timers, want %v", calls, want)
	}
	for name, want := range map[string]string{"new": foreign.Imported, "refused": foreign.Failed, "there": foreign.There, "over": foreign.Over,
		"wrong": foreign.Failed, "large": foreign.Imported, "failed": foreign.Failed, "last": foreign.Imported} {
		if outcomes[name] != want {
			t.Errorf("%s: %q, want %q", name, outcomes[name], want)
		}
	}
	away := errors.New("away")
	i.Write = func([]rouse.Timer) ([]client.Created, error) { return nil, away }
	if err := i.Add(foreign.Resumed{Size: 101}); !errors.Is(err, away) {
		t.Errorf("an import whose server is away: %v", err)
	}
}
