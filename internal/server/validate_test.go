package server

import (
	"strings"
	"testing"

	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// TestValidateOnly: every way to write a timer can be asked to check only.
func TestValidateOnly(t *testing.T) {
	f := newFake()
	h := handler(f)
	only := func(body string) string { return strings.Replace(body, "{", `{"validate_only": true, `, 1) }
	shows := func(what string, got api.Timer) {
		t.Helper()
		if len(got.Next) == 0 || got.Revision != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	w := do(h, "POST", timersURL, only(named))
	want(t, w, 200)
	shows("create", decoded[api.Timer](t, w))
	w = do(h, "PUT", timersURL+"/a", only(good))
	want(t, w, 200)
	shows("put", decoded[api.Timer](t, w))
	want(t, do(h, "PUT", timersURL+"/a", only(good), "If-Match", "*"), 412)
	w = do(h, "POST", timersURL+":batchCreate", `{"validate_only": true, "timers": [`+named+`]}`)
	want(t, w, 200)
	if got := decoded[api.BatchCreated](t, w); got.Failed != 0 || got.Created[0].Name != "a" || got.Created[0].Due == 0 {
		t.Errorf("batch: %+v", got)
	}
	want(t, do(h, "POST", timersURL, `{"name": "k", "validate_only": true, "target": "https://example.com/", "throttle": {"every": "1m"}}`), 422)
	c := serve(t, Options{Timers: f}).timers()
	got, err := c.Create(t.Context(), &rousev1.CreateRequest{Namespace: "ns", Name: "a", Spec: goodSpec(), ValidateOnly: true})
	if err != nil || len(got.NextMs) == 0 {
		t.Errorf("gRPC: %v, %v", got, err)
	}
	batch, err := c.BatchCreate(t.Context(), &rousev1.BatchCreateRequest{Namespace: "ns", Timers: []*rousev1.NewTimer{{Name: "a", Spec: goodSpec()}}, ValidateOnly: true})
	if err != nil || batch.Created[0].Problem != nil || batch.Created[0].DueMs == 0 {
		t.Errorf("gRPC: %v, %v", batch, err)
	}
	if f.writes() != 0 {
		t.Errorf("%d writes", f.writes())
	}
	want(t, do(h, "POST", timersURL, named), 201)
	want(t, do(h, "POST", timersURL, only(named)), 409)
	w = do(h, "POST", timersURL+"/a:reschedule", `{"validate_only": true, "schedule": "@every 1h"}`)
	want(t, w, 200)
	if got := decoded[api.Timer](t, w); len(got.Next) == 0 {
		t.Errorf("reschedule: %+v", got)
	}
	if f.writes() != 1 {
		t.Errorf("%d writes, want the one", f.writes())
	}
}
