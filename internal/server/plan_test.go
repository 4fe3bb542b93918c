package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func TestPreviewTakesAllOfWhen(t *testing.T) {
	f := newFake()
	w := do(handler(f), "POST", timersURL+":preview", `{"name":"a","schedule":"H 9 * * *","also":["0 17 * * *"],"calendar":{"off":["weekends"]},"jitter":"5s","count":1}`)
	want(t, w, 200)
	if f.previewed != (rouse.Key{Namespace: "ns", Name: "a"}) || len(f.spec.Also) != 1 || f.spec.Calendar.Off[0] != "weekends" || f.spec.Jitter != 5*time.Second {
		t.Errorf("previewed %v %+v", f.previewed, f.spec)
	}
	c := serve(t, Options{Timers: f}).timers()
	got := must[*rousev1.PreviewResponse](t)(c.Preview(t.Context(), &rousev1.PreviewRequest{Namespace: "ns", Name: "b", Count: 2,
		Spec: &rousev1.Spec{Schedule: "@daily", Except: []string{"2030-01-01"}}}))
	if len(got.NextMs) != 2 || len(got.Next) != 2 || got.Next[0].DueMs != got.NextMs[0] || got.Next[0].SentAtMs != got.NextMs[0]+1000 ||
		got.Next[0].Local != "2030-01-01T01:01:00+01:00" || got.Next[0].Mark != "odd" || got.Words != "every minute" || got.Timezone != "Fake/Zone" {
		t.Errorf("preview %v", got)
	}
	if f.previewed.Name != "b" || len(f.spec.Except) != 1 {
		t.Errorf("previewed %v %+v", f.previewed, f.spec)
	}
}

func TestExplain(t *testing.T) {
	f := newFake()
	h := handler(f)
	want(t, do(h, "POST", timersURL, named), 201)
	want(t, do(h, "GET", timersURL+"/b:explain", ""), 404)
	f.history = []rouse.Record{{Namespace: "ns", Name: "a", Ending: rouse.EndFired, Due: epoch, Began: epoch, Failures: []rouse.Attempt{{Code: 503}}}}
	w := do(h, "GET", timersURL+"/a:explain?at=2030-06-01T00:00:00Z", "")
	want(t, w, 200)
	got := decoded[api.Explanation](t, w)
	id := rouse.FireID("ns", "a", 1, epoch.Add(time.Minute), false)
	if got.Summary != "it waits" || len(got.Reasons) != 1 || got.Reasons[0].At.String() != "2030-06-01T00:00:00.000Z" ||
		got.Reasons[0].Since.String() != "2030-05-31T23:59:59.999Z" || got.Reasons[0].Until.String() != "2030-06-01T00:00:00.001Z" || got.Reasons[0].Cure != "wait" || got.Timer.Name != "a" ||
		got.Words != "every minute" || got.Records[0].Failures[0].Code != 503 || len(got.Next) != 2 || got.Next[0].FireID != id {
		t.Errorf("explained %+v", got)
	}
	w = do(h, "GET", timersURL+"/b:explain", "")
	want(t, w, 200)
	if got := decoded[api.Explanation](t, w); got.Timer != nil || got.Summary != "it was deleted" || len(got.Records) != 1 || len(got.Next) != 0 {
		t.Errorf("explained %+v", got)
	}
	c := serve(t, Options{Timers: f}).timers()
	over := must[*rousev1.ExplainResponse](t)(c.Explain(t.Context(), &rousev1.ExplainRequest{Namespace: "ns", Name: "a", AtMs: int64(epoch)}))
	if over.Summary != "it waits" || over.Reasons[0].AtMs != int64(epoch) || over.Reasons[0].SinceMs != int64(epoch)-1 || over.Reasons[0].UntilMs != int64(epoch)+1 || over.Reasons[0].Cure != "wait" || over.Timer.Name != "a" || over.Next[0].FireId != id || over.Words == "" ||
		over.Records[0].BeganMs != int64(epoch) {
		t.Errorf("explained %v", over)
	}
	if none := must[*rousev1.ExplainResponse](t)(c.Explain(t.Context(), &rousev1.ExplainRequest{Name: "none"})); none.Timer != nil || none.Summary == "" {
		t.Errorf("explained %v", none)
	}
}

func TestSimulate(t *testing.T) {
	f := newFake()
	h := handler(f)
	for i := range 3 {
		want(t, do(h, "PUT", timersURL+fmt.Sprint("/t", i), good), 201)
	}
	w := do(h, "POST", timersURL+":simulate", `{"filter":{"prefix":"t","name":"t1"},"until":"2030-01-01T00:02:30Z"}`)
	want(t, w, 200)
	got := decoded[api.Simulated](t, w)
	if got.Timers != 1 || got.More || len(got.Fires) != 2 || got.Fires[0].Name != "t1" || len(got.Fires[0].FireID) != 26 || got.Fires[0].Local != "2030-01-01T01:01:00+01:00" {
		t.Errorf("simulated %+v", got)
	}
	w = do(h, "POST", "/v1/namespaces/-/timers:simulate", `{"from":"2030-01-01T00:00:00Z","until":"2031-01-01T00:00:00Z","limit":5}`)
	if got := decoded[api.Simulated](t, w); got.Timers != 3 || !got.More || len(got.Fires) != 5 {
		t.Errorf("simulated %+v", got)
	}
	c := serve(t, Options{Timers: f}).timers()
	over := must[*rousev1.SimulateResponse](t)(c.Simulate(t.Context(), &rousev1.SimulateRequest{Filter: &rousev1.Filter{NamePrefix: "t"}, UntilMs: int64(epoch) + 90_000}))
	if over.Timers != 3 || len(over.Fires) != 3 || over.Fires[2].Name != "t2" || over.Fires[2].FireId == "" {
		t.Errorf("simulated %v", over)
	}
}

func TestForecast(t *testing.T) {
	f := newFake()
	h := handler(f)
	for i := range 3 {
		want(t, do(h, "PUT", timersURL+fmt.Sprint("/t", i), good), 201)
	}
	ask := `{"filter":{"prefix":"t"},"until":"2030-01-02T00:00:00Z","step":"30s"%s}`
	token := ""
	for n := range 3 {
		w := do(h, "POST", timersURL+":forecast", fmt.Sprintf(ask, token))
		want(t, w, 200)
		got := decoded[api.Forecast](t, w)
		if got.Timers != 1 || len(got.Loads) != 1 || got.Loads[0].Count != 30 || got.From.Instant() != epoch || (got.Of == 3) != (n < 2) || (got.NextPageToken == "") != (n == 2) {
			t.Errorf("part %d: %+v", n, got)
		}
		token = fmt.Sprintf(`,"page_token":%q`, got.NextPageToken)
	}
	first := decoded[api.Forecast](t, do(h, "POST", timersURL+":forecast", fmt.Sprintf(ask, "")))
	other := strings.Replace(ask, "30s", "60s", 1)
	w := do(h, "POST", timersURL+":forecast", fmt.Sprintf(other, fmt.Sprintf(`,"page_token":%q`, first.NextPageToken)))
	if want(t, w, 422); !strings.Contains(w.Body.String(), "belongs to another query") {
		t.Errorf("a token of another step: %s", w.Body)
	}
	want(t, do(h, "POST", timersURL+":forecast", fmt.Sprintf(ask, `,"page_token":"AAAA"`)), 422)
	divided := strings.Replace(strings.Replace(ask, `"30s"`, `"1h"`, 1), "{", `{"by":"target",`, 1)
	w = do(h, "POST", timersURL+":forecast", fmt.Sprintf(divided, ""))
	if want(t, w, 200); decoded[api.Forecast](t, w).Loads[0].Key != "target" {
		t.Errorf("by target: %s", w.Body)
	}
	for _, wrong := range []string{strings.Replace(divided, `"target"`, `"name"`, 1), strings.Replace(divided, `"1h"`, `"1m"`, 1)} {
		want(t, do(h, "POST", timersURL+":forecast", fmt.Sprintf(wrong, "")), 422)
	}
	c := serve(t, Options{Timers: f}).timers()
	over := must[*rousev1.ForecastResponse](t)(c.Forecast(t.Context(), &rousev1.ForecastRequest{Filter: &rousev1.Filter{NamePrefix: "t"}, UntilMs: int64(epoch) + 90_000, Step: durationpb.New(time.Minute)}))
	if over.Timers != 1 || len(over.Loads) != 1 || over.Loads[0].Count != 60 || over.Of != 3 || over.NextPageToken == "" {
		t.Errorf("forecast %v", over)
	}
}
