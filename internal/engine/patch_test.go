package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// TestAPatchKeepsTheRest of a timer: when it is due next as well, unless that is what is changed.
func TestAPatchKeepsTheRest(t *testing.T) {
	change := func(edit func(*rouse.Spec)) timers.PatchRequest {
		return timers.PatchRequest{Change: func(s rouse.Spec) (rouse.Spec, error) {
			edit(&s)
			return s, nil
		}}
	}
	labels := change(func(s *rouse.Spec) { s.Labels = map[string]string{"team": "a"} })
	limited := change(func(s *rouse.Spec) { s.Limit = "payments" })
	cases := map[string]struct {
		schedule string
		patch    timers.PatchRequest
		first    time.Duration // after the timer was made; the patch comes after 40 minutes
		begins   bool          // a new generation
	}{
		"interval":                   {"@every 1h", labels, time.Hour, false},
		"delay":                      {"@after 1h", labels, time.Hour, false},
		"interval, another bucket":   {"@every 1h", limited, time.Hour, true},
		"delay, another bucket":      {"@after 1h", limited, time.Hour, true},
		"another interval":           {"@every 1h", change(func(s *rouse.Spec) { s.Schedule = "@every 30m" }), 70 * time.Minute, true},
		"another delay":              {"@after 1h", change(func(s *rouse.Spec) { s.Schedule = "@after 2h" }), 160 * time.Minute, true},
		"a cron expression":          {"0 * * * *", labels, time.Hour, false},
		"another zone of the same":   {"0 * * * *", change(func(s *rouse.Spec) { s.Timezone = "Asia/Kolkata" }), 90 * time.Minute, true},
		"jitter is no due time":      {"@every 1h", change(func(s *rouse.Spec) { s.Jitter = time.Second }), time.Hour, false},
		"to a target of its own":     {"@every 1h", change(func(s *rouse.Spec) { s.Target = "x:z" }), time.Hour, false},
		"from many times to one":     {"@every 1h", change(func(s *rouse.Spec) { s.Schedule = "@after 1h" }), 100 * time.Minute, true},
		"what it has: nothing comes": {"@every 1h", change(func(*rouse.Spec) {}), time.Hour, false},
	}
	bubble(t, func(t *testing.T) {
		from := time.Now()
		h := start(t, mem.New(), &recorder{}, timers.Options{Engine: engine.Options{Buckets: 64}})
		made := map[string]rouse.Timer{}
		for name, c := range cases {
			made[name] = h.put(name, c.schedule)
		}
		time.Sleep(40 * time.Minute)
		for name, c := range cases {
			was := made[name]
			only := c.patch
			only.Validate = true
			if res, err := h.Patch(t.Context(), key(name), only); err != nil || len(res.Next) == 0 || res.Next[0].Time().Sub(from).Truncate(time.Second) != c.first {
				t.Errorf("%s: validated: %v, %v", name, res.Next, err)
			}
			if is, err := h.Get(t.Context(), key(name)); err != nil || is.Revision != was.Revision {
				t.Errorf("%s: only validated, and it has revision %d instead of %d; %v", name, is.Revision, was.Revision, err)
			}
			res, err := h.Patch(t.Context(), key(name), c.patch)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if begins := res.Timer.Generation != was.Generation; begins != c.begins || res.Timer.Created != was.Created {
				t.Errorf("%s: a new generation: %v; created %v", name, begins, res.Timer.Created)
			}
			if again, err := h.Patch(t.Context(), key(name), c.patch); err != nil || !again.Unchanged {
				t.Errorf("%s: the same again is no change: %v, %v", name, again.Unchanged, err)
			}
			if is, err := h.Get(t.Context(), key(name)); err != nil || is.Due.Time().Sub(from).Truncate(time.Second) != c.first {
				t.Errorf("%s: first due %v, want %v; %v", name, is.Due, c.first, err)
			}
		}
	})
	bubble(t, func(t *testing.T) {
		h := start(t, mem.New(), &recorder{}, timers.Options{})
		was := h.put("a", "@every 1h")
		labels.IfRevision = was.Revision + 1
		if _, err := h.Patch(t.Context(), key("a"), labels); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("an old revision: %v", err)
		}
		if _, err := h.Patch(t.Context(), key("b"), limited); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("none of that name: %v", err)
		}
		bad := change(func(s *rouse.Spec) { s.Schedule = "whenever" })
		if _, err := h.Patch(t.Context(), key("a"), bad); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a bad schedule: %v", err)
		}
		if is, err := h.Get(t.Context(), key("a")); err != nil || is.Revision != was.Revision {
			t.Errorf("what was refused changed it: %+v, %v", is, err)
		}
	})
}
