package timers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// TestBadgeStates: the state of a timer is that of its last occurrence which was not skipped, unless it is
// late or paused; of a check, that of its last report.
func TestBadgeStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		ts := running(t, mem.New(), sink, Options{})
		want := func(key rouse.Key, want BadgeState) {
			t.Helper()
			if got, err := ts.Badge(t.Context(), key); err != nil || got != want {
				t.Errorf("%s is %s, want %s: %v", key.Name, got, want, err)
			}
		}
		key := made(t, ts, "a", rouse.Spec{Schedule: "@every 1m", Target: "x:work"}).Key
		want(key, BadgeNew)
		time.Sleep(61 * time.Second)
		want(key, BadgeOK)
		sink.answerWith("x:work", down)
		time.Sleep(time.Minute)
		want(key, BadgeFailing)
		if _, err := ts.Skip(t.Context(), key, 1, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(key, BadgeFailing)
		sink.succeedAt("x:work")
		time.Sleep(time.Minute)
		want(key, BadgeOK)
		if _, err := ts.Pause(t.Context(), key, "", 0); err != nil {
			t.Fatal(err)
		}
		want(key, BadgePaused)

		check := made(t, ts, "backup", watched).Key
		report := func(status rouse.ReportStatus) {
			t.Helper()
			if _, err := ts.ReportCheck(context.Background(), check, rouse.CheckReport{Status: status}); err != nil {
				t.Fatal(err)
			}
		}
		want(check, BadgeNew)
		report(rouse.ReportSuccess)
		want(check, BadgeOK)
		report(rouse.ReportFail)
		want(check, BadgeFailing)
		time.Sleep(2 * time.Hour)
		want(check, BadgeLate)
		report(rouse.ReportSuccess)
		want(check, BadgeOK)
		if _, err := ts.Badge(t.Context(), rouse.Key{Namespace: "n", Name: "none"}); !errors.Is(err, rouse.ErrNotFound) {
			t.Error(err)
		}
	})
}
