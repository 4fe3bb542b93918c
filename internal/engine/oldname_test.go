package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// TestTimersOfOldNamesGoOn: timers with names that only earlier versions accepted can be read, changed, fired
// and deleted.
func TestTimersOfOldNamesGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		store := mem.New()
		h := start(t, store, &recorder{}, timers.Options{})
		for _, name := range []string{"..", "a\u200bb", "e\u0301", "a\ufdd0"} {
			put := timers.Put{Key: key(name), Spec: rouse.Spec{Schedule: "@every 1m", Target: "https://example.com/"}}
			if results, err := h.Put(ctx, []timers.Put{put}); err != nil || !errors.As(results[0].Err, new(*rouse.Invalid)) {
				t.Errorf("%q is taken for a new timer: %v", name, err)
			}
			old := rouse.Timer{Key: key(name), Spec: rouse.Spec{Schedule: "@every 1m", Target: "https://example.com/"}, Due: h.Now().Add(time.Minute)}
			if results, err := h.Import(ctx, []rouse.Timer{old}, timers.CreateOnly); err != nil || results[0].Err != nil {
				t.Fatal(results, err)
			}
			time.Sleep(90 * time.Second)
			if n := len(h.records(name)); n == 0 {
				t.Errorf("%q has not fired", name)
			}
			if _, err := h.Pause(ctx, key(name), "", 0); err != nil {
				t.Error(err)
			}
			if _, err := h.Delete(ctx, key(name), 0); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestABadRowBreaksNoList: a row that cannot be decoded is listed as such among the others.
func TestABadRowBreaksNoList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := start(t, store, &recorder{}, timers.Options{})
		h.put("a", "@every 1h")
		bad := rouse.Row{Key: key("b"), Visible: rouse.Never, Due: rouse.Never, State: rouse.StateScheduled, Body: []byte{99}}
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: bad.Key, To: &bad}}); err != nil {
			t.Fatal(err)
		}
		list, _, err := h.List(t.Context(), rouse.Query{Namespace: bad.Key.Namespace, Limit: 10})
		if err != nil || len(list) != 2 || !list[1].Paused || list[1].Reason == "" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
