package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// full is a spec with every member set.
const full = `{"schedule":"0 9 * * *","also":["0 17 * * *"],"except":["2030-12-24"],"timezone":"Europe/Stockholm","dst":"vixie",
	"calendar":{"off":["weekends"],"shift":"next"},"start":"2030-01-01T00:00:00Z","end":"2031-01-01T00:00:00Z","max_occurrences":9,"jitter":"5s",
	"target":"https://example.com/","misfire":"within 1h","overlap":"skip","deadline":"2h","priority":"high","keep":"forever",
	"retry":{"factor":1.5,"give_up":"1h"},"pause_after":7}`

func TestEverythingOfASpecIsKept(t *testing.T) {
	f := newFake()
	h := handler(f)
	w := do(h, "PUT", timersURL+"/a", full)
	want(t, w, 201)
	s := f.rows[rouse.Key{Namespace: "ns", Name: "a"}].Spec
	if len(s.Also) != 1 || len(s.Except) != 1 || s.DST != "vixie" || s.Calendar.Off[0] != "weekends" || s.Calendar.Shift != rouse.ShiftNext || s.Start != epoch ||
		s.MaxOccurrences != 9 || s.Jitter != 5*time.Second || s.Misfire != rouse.MisfireWithin || s.Within != time.Hour || s.Overlap != rouse.OverlapSkip ||
		s.Deadline != 2*time.Hour || s.Priority != rouse.PriorityHigh || s.Keep >= 0 || s.Retry.Factor != 1.5 || s.Retry.GiveUp != time.Hour ||
		s.PauseAfter != 7 {
		t.Errorf("stored %+v", s)
	}
	for _, part := range []string{`"misfire":"within 1h0m0s"`, `"keep":"forever"`, `"calendar":{"off":["weekends"],"shift":"next"}`, `"sent_at":`, `"anchor":`} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s is not in %s", part, w.Body)
		}
	}
	c := serve(t, Options{Timers: f}).timers()
	got := must[*rousev1.Timer](t)(c.Get(t.Context(), &rousev1.GetRequest{Namespace: "ns", Name: "a"}))
	if !proto.Equal(got.Spec, rousev1.SpecToProto(&s)) {
		t.Errorf("over gRPC %v", got.Spec)
	}
}

func TestSkipRescheduleBackfill(t *testing.T) {
	f := newFake()
	h := handler(f)
	want(t, do(h, "POST", timersURL, named), 201)
	w := do(h, "POST", timersURL+"/a:skip", "")
	want(t, w, 200)
	if got := decoded[api.Timer](t, w); got.Skips != 1 {
		t.Errorf("skipped %+v", got)
	}
	w = do(h, "POST", timersURL+"/a:skip", `{"count":3,"reason":"fair"}`)
	if got := decoded[api.Timer](t, w); got.Skips != 4 || got.LastError != "fair" {
		t.Errorf("skipped %+v", got)
	}
	w = do(h, "POST", timersURL+"/a:reschedule", `{"schedule":"@every 1h","jitter":"5s","expected_revision":3}`)
	want(t, w, 200)
	if got := decoded[api.Timer](t, w); got.Schedule != "@every 1h" || got.Jitter != api.Duration(5*time.Second) || got.Target != "https://example.com/" || w.Header().Get("ETag") != `"4"` {
		t.Errorf("rescheduled %+v", got)
	}
	want(t, do(h, "POST", timersURL+"/a:reschedule", `{"schedule":"@every 1h","expected_revision":3}`), 409)
	want(t, do(h, "POST", timersURL+"/a:reschedule", `{"schedule":"@every 1h"}`, "If-Match", `"3"`), 412)
	want(t, do(h, "POST", timersURL+"/a:reschedule", `{"schedule":"@every 2h"}`, "If-Match", `"4"`), 200)
	want(t, do(h, "POST", timersURL+"/a:reschedule", `{"schedule":"@every 2h"}`, "If-Match", "*"), 200)
	want(t, do(h, "POST", timersURL+"/none:reschedule", `{"schedule":"@every 2h"}`, "If-Match", "*"), 412)
	for _, media := range []string{jsonType, mergeType} {
		w = do(h, "PATCH", timersURL+"/a", `{"jitter":null,"labels":{"team":"b"}}`, "Content-Type", media)
		want(t, w, 200)
		if got := decoded[api.Timer](t, w); got.Jitter != 0 || got.Labels["team"] != "b" || got.Schedule != "@every 2h" || got.Target != "https://example.com/" {
			t.Errorf("patched %+v", got)
		}
	}
	want(t, do(h, "PATCH", timersURL+"/a", `{"jitter":"1s"}`, "If-Match", `"3"`), 412)
	want(t, do(h, "PATCH", timersURL+"/none", `{}`), 404)
	before := f.writes()
	w = do(h, "PATCH", timersURL+"/a?validate_only=true", `{"schedule":"@every 1h"}`)
	if got := decoded[api.Timer](t, w); len(got.Next) == 0 || f.writes() != before {
		t.Errorf("validated %+v", got)
	}
	w = do(h, "POST", timersURL+"/a:backfill", `{"from":"2030-01-01T00:00:00Z","until":"2030-02-01T00:00:00Z","dry_run":true,"per_second":0.5}`)
	want(t, w, 200)
	row := f.rows[rouse.Key{Namespace: "ns", Name: "a"}]
	id := rouse.FireID("ns", "a", row.Generation, epoch.Add(time.Minute), false)
	if got := decoded[api.Backfilled](t, w); got.Count != 300 || got.Waiting != 2 || len(got.Fires) != 2 || got.Fires[0].FireID != id ||
		got.Fires[0].Local != "2030-01-01T01:01:00+01:00" || got.Fires[0].Mark != "odd" || f.writes() != before {
		t.Errorf("backfilled %+v, %d writes", got, f.writes()-before)
	}
	want(t, do(h, "POST", timersURL+"/a:pause", `{"until":"2030-03-01T00:00:00+01:00"}`), 200)
	w = do(h, "GET", timersURL+"/a", "")
	if got := decoded[api.Timer](t, w); got.PauseUntil.String() != "2030-02-28T23:00:00.000Z" {
		t.Errorf("paused until %v", got.PauseUntil)
	}

	c, ctx := serve(t, Options{Timers: f}).timers(), t.Context()
	timer := must[*rousev1.Timer](t)
	if got := timer(c.Skip(ctx, &rousev1.SkipRequest{Namespace: "ns", Name: "a"})); got.Skips != 5 {
		t.Errorf("skipped %v", got)
	}
	revision := timer(c.Pause(ctx, &rousev1.PauseRequest{Namespace: "ns", Name: "a", UntilMs: int64(epoch) + 5})).Revision
	if got := timer(c.Reschedule(ctx, &rousev1.RescheduleRequest{Namespace: "ns", Name: "a", ExpectedRevision: revision,
		When: &rousev1.When{Schedule: "@every 3h", MaxOccurrences: 4}})); got.Spec.MaxOccurrences != 4 || got.PauseUntilMs != int64(epoch)+5 {
		t.Errorf("rescheduled %v", got)
	}
	if got := timer(c.Patch(ctx, &rousev1.PatchRequest{Namespace: "ns", Name: "a", Patch: `{"max_occurrences":null}`})); got.Spec.MaxOccurrences != 0 {
		t.Errorf("patched %v", got)
	}
	_, err := c.Reschedule(ctx, &rousev1.RescheduleRequest{Namespace: "ns", Name: "a", ExpectedRevision: revision, When: &rousev1.When{Schedule: "@every 3h"}})
	wantCode(t, err, codes.Aborted)
	filled := must[*rousev1.BackfillResponse](t)(c.Backfill(ctx, &rousev1.BackfillRequest{Namespace: "ns", Name: "a", FromMs: int64(epoch), UntilMs: int64(epoch) + 1, PerSecond: 0.5}))
	if filled.Count != 300 || filled.Waiting != 2 || len(filled.Fires) != 2 || filled.Fires[0].FireId != id || filled.Fires[0].SentAtMs != int64(epoch)+61_000 {
		t.Errorf("backfilled %v", filled)
	}
}

func TestManyCallsBecomeFewFires(t *testing.T) {
	f := newFake()
	h := handler(f)
	debounce := `{"name":"d","target":"https://example.com/","debounce":{"quiet":"10s","max_wait":"1m"}}`
	w := do(h, "POST", timersURL, debounce)
	want(t, w, 201)
	if got := decoded[api.Timer](t, w); got.Due.Instant() != epoch.Add(10*time.Second) {
		t.Errorf("debounced %+v", got)
	}
	want(t, do(h, "POST", timersURL, debounce), 200) // the name exists, as intended
	want(t, do(h, "PUT", timersURL+"/d", `{"target":"https://example.com/","debounce":{"quiet":"10s"}}`), 200)
	w = do(h, "PUT", timersURL+"/t", `{"target":"https://example.com/","throttle":{"every":"1m"}}`)
	want(t, w, 201)
	if got := decoded[api.Timer](t, w); got.Due.Instant() != epoch {
		t.Errorf("throttled %+v", got)
	}
	c := serve(t, Options{Timers: f}).timers()
	got := must[*rousev1.Timer](t)(c.Create(t.Context(), &rousev1.CreateRequest{Namespace: "ns", Name: "d", Spec: &rousev1.Spec{Target: "https://example.com/"},
		Coalesce: &rousev1.CreateRequest_Debounce{Debounce: &rousev1.Debounce{Quiet: durationpb.New(20 * time.Second)}}}))
	if got.DueMs != int64(epoch.Add(20*time.Second)) {
		t.Errorf("debounced %v", got)
	}
	got = must[*rousev1.Timer](t)(c.Create(t.Context(), &rousev1.CreateRequest{Namespace: "ns", Name: "new", Spec: &rousev1.Spec{Target: "https://example.com/"},
		Coalesce: &rousev1.CreateRequest_Throttle{Throttle: &rousev1.Throttle{Every: durationpb.New(time.Minute)}}}))
	if got.DueMs != int64(epoch) {
		t.Errorf("throttled %v", got)
	}
}

// rows puts a timer of each state into a fake, and returns their names.
func rowsOfEachState(f *fake) map[string]rouse.State {
	names := map[string]rouse.State{}
	for state, timer := range map[rouse.State]rouse.Timer{
		rouse.StateScheduled: {Due: epoch, Visible: epoch},
		rouse.StateRetrying:  {Due: epoch, Visible: epoch, Attempts: 1, Began: epoch, Failures: []rouse.Attempt{{Sent: epoch, Took: time.Second, Code: 503}}},
		rouse.StateAccepted:  {Due: epoch, Visible: epoch, Attempts: 1, Token: 1},
		rouse.StatePaused:    {Due: epoch, Visible: rouse.Never, Paused: true, Reason: "r"},
		rouse.StateEnded:     {Due: rouse.Never, Visible: rouse.Never, Passed: 3, Ended: 4},
		rouse.StateDead:      {Key: rouse.Key{Fire: strings.Repeat("0", 26)}, Due: epoch, Visible: rouse.Never, Attempts: 8, Manual: true, Runs: []rouse.Instant{epoch}},
		rouse.StateFiring:    {Key: rouse.Key{Fire: strings.Repeat("1", 26)}, Due: epoch, Visible: epoch, Live: true, Asked: true},
	} {
		timer.Key.Namespace, timer.Key.Name, timer.Anchor, timer.Created, timer.Updated = "ns", state.String(), epoch, epoch, epoch
		timer.Spec = rouse.Spec{Schedule: "@every 5m", Target: "https://example.com/", Keep: -1}
		f.set(func() { f.store(timer, true) })
		names[timer.Key.Name] = state
	}
	return names
}

const everyState = "state=scheduled&state=retrying&state=accepted&state=paused&state=ended&state=firing&state=dead"

// TestExportAndImport: pages of lists in every state can be imported into another store, over HTTP and
// gRPC, unchanged.
func TestExportAndImport(t *testing.T) {
	f := newFake()
	states := rowsOfEachState(f)
	list := do(handler(f), "GET", "/v1/namespaces/-/timers?"+everyState, "")
	want(t, list, 200)
	to := newFake()
	w := do(handler(to), "POST", "/v1/namespaces/-/timers:import", list.Body.String()) // the last page of a list is a body of an import
	want(t, w, 200)
	if out := decoded[api.BatchCreated](t, w); len(out.Created) != len(states) || out.Failed != 0 || out.Created[0].Generation == 0 {
		t.Errorf("imported %+v", out)
	}
	again := do(handler(to), "GET", "/v1/namespaces/-/timers?"+everyState, "")
	for _, timer := range decoded[api.TimerList](t, again).Timers {
		if timer.State != states[timer.Name].String() {
			t.Errorf("%s became %s", timer.Name, timer.State)
		}
	}
	w = do(handler(to), "POST", timersURL+":import", list.Body.String())
	if out := decoded[api.BatchCreated](t, w); out.Failed != len(states) || out.Created[0].Problem.Code != "already_exists" {
		t.Errorf("imported twice: %+v", out)
	}

	c := serve(t, Options{Timers: f}).timers()
	page := must[*rousev1.ListResponse](t)(c.List(t.Context(), &rousev1.ListRequest{Filter: &rousev1.Filter{
		States: []string{"scheduled", "retrying", "accepted", "paused", "ended", "firing", "dead"}}}))
	if len(page.Timers) != len(states) {
		t.Fatalf("listed %v", page)
	}
	other := newFake()
	days := []*rousev1.Day{{Date: "2030-12-25"}, {Date: "2030-12-24"}}
	bad := &rousev1.Timer{Name: "bad", State: "lost", Spec: goodSpec()}
	got := must[*rousev1.ImportResponse](t)(serve(t, Options{Timers: other}).timers().Import(t.Context(), &rousev1.ImportRequest{
		Timers:    append([]*rousev1.Timer{bad, {Name: "manual", State: "retrying", Attempts: 1, Manual: true, Spec: goodSpec()}}, page.Timers...),
		Calendars: []*rousev1.Calendar{{Namespace: "ns", Name: "c", Days: days}}}))
	for i, created := range got.Created {
		if problem := created.Problem; (problem != nil) != (i < 2) {
			t.Errorf("%d: %v", i, created)
		}
	}
	if got.Created[0].Problem.Field != "state" || got.Created[1].Problem.Field != "manual" || len(other.days) != 1 {
		t.Errorf("imported %v, %v", got, other.days)
	}
	for key, was := range f.rows {
		is := other.rows[key]
		is.Revision = was.Revision
		if fmt.Sprintf("%+v", is) != fmt.Sprintf("%+v", was) {
			t.Errorf("was  %+v\ncame %+v", was, is)
		}
	}
}

func TestImportIsBoundToItsNamespace(t *testing.T) {
	f := newFake()
	row := `{"name":"a","schedule":"@every 5m","target":"https://example.com/","state":"scheduled","due":"2030-01-01T00:00:00Z"`
	w := do(handler(f), "POST", timersURL+":import", `{"timers":[`+row+`},`+row+`,"namespace":"other"}],"calendars":[{"name":"c","days":[{"date":"2030-01-01"}]}]}`)
	want(t, w, 200)
	out := decoded[api.BatchCreated](t, w)
	if out.Failed != 1 || out.Created[1].Problem.Errors[0].Field != "namespace" || f.rows[rouse.Key{Namespace: "ns", Name: "a"}].Revision == 0 {
		t.Errorf("imported %+v", out)
	}
	if _, err := f.Calendar(t.Context(), "ns", "c"); err != nil {
		t.Error(err)
	}
}
