package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestSkipLeavesAloneWhatIsOnItsWayThoughARunWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{answer: busyFor(20 * time.Second)}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(61 * time.Second)
		if _, _, err := h.RunNow(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		h.wantOneRecordEach("a")
		if got := h.dues("a", from); len(got) < 2 || got[0] != time.Minute || got[1] != 3*time.Minute {
			t.Errorf("fired %v", got)
		}
	})
}

func TestASkipThatComesTooLateMakesNoSecondRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &hookedStore{Store: mem.New()}
		h := start(t, store, &recorder{answer: busyFor(10 * time.Millisecond)}, timers.Options{})
		h.put("a", "@every 1m")
		time.Sleep(59*time.Second + 900*time.Millisecond)
		store.set(func() {
			store.before = func(changes []rouse.Change) error {
				if len(changes[0].Log) > 0 && changes[0].Log[0].Ending == rouse.EndSkipped {
					time.Sleep(200 * time.Millisecond)
				}
				return nil
			}
		})
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		h.wantOneRecordEach("a")
		// The skipped occurrence does not affect the next one.
		h.sink.answers(busyFor(30 * time.Second))
		time.Sleep(time.Minute)
		if d, err := h.Delete(t.Context(), key("a"), 0); err != nil || !d.InFlight {
			t.Fatalf("%+v, %v", d, err)
		}
		time.Sleep(time.Minute)
		h.wantEndings("a", "skipped", "fired")
	})
}

// slowStore delays writes.
type slowStore struct {
	rouse.Store
	takes time.Duration
}

func (s *slowStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(s.takes)
	return s.Store.Apply(ctx, changes)
}

// TestWhatIsSkippedAsItComesDueIsNotSent: an occurrence that comes due while its skip is being written ends
// only once.
func TestWhatIsSkippedAsItComesDueIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &slowStore{Store: mem.New()}
		h := start(t, store, &recorder{}, timers.Options{})
		made := h.put("a", "@every 1m")
		time.Sleep(time.Until(made.Due.Time()) - 5*time.Millisecond)
		store.takes = 20 * time.Millisecond
		if _, err := h.Skip(t.Context(), key("a"), 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := h.sink.got(); len(got) != 0 {
			t.Errorf("it was sent: %+v", got)
		}
		h.wantEndings("a", "skipped")
		time.Sleep(time.Minute)
		h.wantEndings("a", "skipped", "fired")
	})
}
