package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestASettleWhoseAnswerIsLostIsRecordedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		var lose sync.Map
		store.set(func() {
			store.after = func(changes []rouse.Change, _ []rouse.Result) error {
				for _, c := range changes {
					if len(c.Log) > 0 {
						if _, lost := lose.LoadOrStore(c.Key.Name, true); !lost {
							return errHook
						}
					}
				}
				return nil
			}
		})
		h.put("a", "@every 1m")
		time.Sleep(5 * time.Second)
		h.put("once", "@after 1m")
		h.put("kept", "@after 2m", func(p *timers.Put) { p.Spec.Keep = -1 })
		time.Sleep(2*time.Minute + time.Second)
		h.wantEndings("a", "fired", "fired")
		h.wantEndings("once", "fired")
		h.wantEndings("kept", "fired")
	})
}

func TestRecordsOfReportedFiresAreTrimmedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		accept := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Accepted, After: time.Hour}
		}
		h := start(t, mem.New(), &recorder{answer: accept}, timers.Options{Engine: engine.Options{RecordsPerTimer: 5}})
		h.put("a", "@every 1m")
		for range 40 {
			time.Sleep(time.Minute + time.Second)
			tm, err := h.Get(t.Context(), key("a"))
			if err != nil {
				t.Fatal(err)
			}
			if tm.Token == 0 {
				continue
			}
			occ, _ := tm.Current()
			if _, err := h.Report(t.Context(), key("a"), timers.Report{FireID: tm.Fire(occ).ID, Token: tm.Token, Outcome: rouse.Outcome{Verdict: rouse.Done}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := len(h.records("a")); n > 10 || n < 5 {
			t.Errorf("%d records", n)
		}
	})
}

// TestRecordsOfANameAreTrimmed: a name that is used again has the records of all of its timers, of each of
// which there are few.
func TestRecordsOfANameAreTrimmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 10
		o := timers.Options{Engine: engine.Options{RecordsPerTimer: most}}
		h := start(t, mem.New(), &recorder{}, o)
		for range 100 {
			h.put("reused", "@after 1s")
			h.put("kept", "@after 1s", func(p *timers.Put) { p.Spec.Keep, p.Mode = -1, timers.CreateOrReplace })
			h.put("overlapping", "@every 1s", func(p *timers.Put) { p.Spec.Overlap, p.Mode = rouse.OverlapAllow, timers.CreateOrReplace })
			if _, err := h.Coalesce(t.Context(), key("debounced"), rouse.Spec{Target: "test:a"}, rouse.Coalesce{Quiet: time.Second}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		for _, name := range []string{"reused", "kept", "overlapping", "debounced"} {
			if n := len(h.records(name)); n > 2*most || n < most {
				t.Errorf("%s has %d records", name, n)
			}
		}
	})
}

// TestRecordsAreTrimmedAlthoughTheNodeRestarts has a node that writes one record of a name in each of its
// runs.
func TestRecordsAreTrimmedAlthoughTheNodeRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most, runs = 10, 300
		store := mem.New()
		for range runs {
			h := start(t, store, &recorder{}, timers.Options{Engine: engine.Options{RecordsPerTimer: most}})
			h.put("a", "@after 1s")
			time.Sleep(2 * time.Second)
			h.stop()
		}
		page, err := store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Limit: 1000})
		if err != nil || len(page.Records) > runs/2 || len(page.Records) < most {
			t.Errorf("%d records of %d, %v", len(page.Records), runs, err)
		}
	})
}
