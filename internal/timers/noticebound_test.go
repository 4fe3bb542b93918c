package timers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/store/mem"
)

var off = rouse.Outcome{Verdict: rouse.Failed, Detail: "off"}

// waitingNotices returns how many notices and callbacks wait, of a timer, or of the namespace if name is
// empty.
func waitingNotices(t *testing.T, ts *Timers, name string) (n int) {
	t.Helper()
	rows, _, err := ts.List(t.Context(), rouse.Query{Namespace: "n", Name: name, States: []rouse.State{rouse.StateFiring}, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if rows[i].Notice != 0 {
			n++
		}
	}
	return n
}

// skippedNotices returns how many notices and callbacks were skipped, by their records.
func skippedNotices(t *testing.T, ts *Timers, name string) int {
	t.Helper()
	page, err := ts.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: name, Causes: []rouse.Cause{rouse.CauseNoticeLimit}, Limit: 500})
	if err != nil || page.Next != nil {
		t.Fatal(err, page.Next)
	}
	ids := map[string]bool{}
	for i := range page.Records {
		r := &page.Records[i]
		ids[r.FireID()] = true
		if r.Ending != rouse.EndSkipped || !strings.Contains(r.Reason, "wait for their targets") || !strings.HasPrefix(r.Target, "x:pager") {
			t.Errorf("%+v", r)
		}
	}
	if len(ids) != len(page.Records) {
		t.Errorf("%d fires have %d records", len(ids), len(page.Records))
	}
	return len(page.Records)
}

// TestNoticesThatWaitAreBounded: while their targets are away, notices and callbacks of a timer wait up to a
// number, and each further one is on record, also after a restart; the callbacks leave room for notices. Once
// the targets are back, what waits arrives, and further ones do again.
func TestNoticesThatWaitAreBounded(t *testing.T) {
	for name, overlap := range map[string]rouse.Overlap{"wait": rouse.OverlapDefault, "allow": rouse.OverlapAllow} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most = 20
				store, sink := mem.New(), &pager{}
				sink.answerWith("x:pager-calls", off)
				sink.answerWith("x:pager-notices", off)
				limited := map[string]int{}
				o := Options{Engine: engine.Options{NoticesPerTimer: most, RecordsPerTimer: -1,
					Events: engine.Events{Limited: func(limit string, key rouse.Key) { limited[limit+" "+key.Name]++ }}}}
				ts, stop := startBy(t, store, claim.NewSole(1), sink, o)
				key := made(t, ts, "a", rouse.Spec{Schedule: "@every 1m", Target: "x:work", Overlap: overlap,
					OnSuccess: "x:pager-calls", OnFailure: "x:pager-calls", Notify: rouse.Notify{Target: "x:pager-notices"}}).Key
				want := func(occurrences, notices int) {
					t.Helper()
					waiting, skipped := waitingNotices(t, ts, "a"), skippedNotices(t, ts, "a")
					if waiting > most || waiting+skipped != occurrences+notices {
						t.Errorf("of %d callbacks and %d notices, %d wait and %d were skipped", occurrences, notices, waiting, skipped)
					}
				}
				time.Sleep(most*9/10*time.Minute + 30*time.Second)
				if want(most*9/10, 0); skippedNotices(t, ts, "a") != 0 {
					t.Errorf("the callbacks have places")
				}
				time.Sleep(12 * time.Minute)
				if want(30, 0); waitingNotices(t, ts, "a") != most*9/10 || limited["notices-per-timer a"] != 12 || ts.Engine.Crowds().Notices != 12 {
					t.Errorf("%d wait; %v", waitingNotices(t, ts, "a"), limited)
				}
				x, err := ts.Explain(t.Context(), key, 0)
				if err != nil || !strings.Contains(fmt.Sprint(x.Reasons), "notice_limit") {
					t.Errorf("%+v, %v", x.Reasons, err)
				}

				sink.answerWith("x:work", down)
				time.Sleep(time.Minute)
				if want(31, 1); waitingNotices(t, ts, "a") != most*9/10+1 {
					t.Errorf("a notice had no room: %d wait", waitingNotices(t, ts, "a"))
				}
				time.Sleep(9 * time.Minute)
				if want(40, 10); waitingNotices(t, ts, "a") != most {
					t.Errorf("%d wait", waitingNotices(t, ts, "a"))
				}

				stop()
				ts, stop = startBy(t, store, claim.NewSole(1), sink, o)
				defer func() { stop() }()
				time.Sleep(10 * time.Minute)
				if waiting, skipped := waitingNotices(t, ts, "a"), skippedNotices(t, ts, "a"); waiting > most+most/10 || waiting+skipped != 70 {
					t.Errorf("after a restart, %d wait and %d were skipped", waiting, skipped)
				}

				skipped := skippedNotices(t, ts, "a")
				sink.succeedAt("x:work")
				sink.succeedAt("x:pager-calls")
				sink.succeedAt("x:pager-notices")
				time.Sleep(20 * time.Minute)
				if n := waitingNotices(t, ts, "a"); n != 0 {
					t.Errorf("%d wait for targets that are there", n)
				}
				now := skippedNotices(t, ts, "a")
				recovered := map[string]int{"wait": 1}[name]
				if arrived := len(sink.takeNotices()); now > skipped+10 || arrived+now != 70+20+recovered {
					t.Errorf("%d arrived, and %d were skipped, before the targets came back %d", arrived, now, skipped)
				}
				time.Sleep(10 * time.Minute)
				if arrived := len(sink.takeNotices()); arrived != 10 {
					t.Errorf("%d of 10 callbacks arrived", arrived)
				}
				if v := ts.Violations(); v.Total != 0 {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

// TestNoticesOfANamespaceAreBounded: those of timers that are gone, too.
func TestNoticesOfANamespaceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20
		sink := &pager{}
		sink.answerWith("x:pager", off)
		ts := running(t, mem.New(), sink, Options{Engine: engine.Options{NoticesPerNamespace: most}})
		for i := range 30 {
			made(t, ts, fmt.Sprint(i), rouse.Spec{Schedule: fmt.Sprintf("@after %dm", i+1), Target: "x:work", OnSuccess: "x:pager"})
		}
		time.Sleep(40 * time.Minute)
		if waiting, skipped := waitingNotices(t, ts, ""), skippedNotices(t, ts, ""); waiting != most*9/10 || waiting+skipped != 30 {
			t.Errorf("%d wait, and %d were skipped", waiting, skipped)
		}
	})
}
