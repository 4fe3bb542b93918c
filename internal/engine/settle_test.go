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
