package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/store/mem"
)

// TestWorkersThatPoll: a worker with HTTP only takes fires, and completes, fails, extends and releases them.
func TestWorkersThatPoll(t *testing.T) {
	g := serveGuarded(t, mem.New())
	admin, worker := g.client(g.admin), g.key("worker", own, "stream:jobs")
	post := func(path, body string, want int) (answer []byte) {
		t.Helper()
		code, text := g.http(http.MethodPost, "/v1/namespaces/"+path, body, "Authorization", "Bearer "+worker)
		if code != want {
			t.Fatalf("%s %s: %d %s, want %d", path, body, code, text, want)
		}
		return []byte(text)
	}
	take := func(more string) api.Fire {
		t.Helper()
		var got api.Polled
		until(t, func() error { // what no poll waited for is put off for a while
			got = api.Polled{}
			if err := json.Unmarshal(post(own+"/fires:poll", `{"channel": "jobs", "wait": "2s"`+more+`}`, 200), &got); err != nil || len(got.Fires) == 0 {
				return fmt.Errorf("%+v, %v", got, err)
			}
			return nil
		})
		return got.Fires[0]
	}
	of := func(f api.Fire, verb string) string {
		return own + "/timers/" + url.PathEscape(f.Name) + "/fires/" + f.FireID + ":" + verb
	}
	token := func(f api.Fire, more string) string { return fmt.Sprintf(`{"token": %d%s}`, f.Token, more) }
	create := func(name string) {
		t.Helper()
		spec := rouse.Spec{Schedule: "@after 1ms", Target: "stream:jobs", Payload: []byte(`{"n": 1}`), ContentType: "application/json", Keep: time.Hour,
			Retry: rouse.Retry{Attempts: 3, Interval: time.Millisecond, Timeout: time.Minute}}
		if _, err := admin.Create(t.Context(), own, name, spec); err != nil {
			t.Fatal(err)
		}
	}
	ended := func(name string, want rouse.Ending, attempts uint32) {
		t.Helper()
		for r, err := range admin.History(t.Context(), rouse.RecordQuery{Namespace: own, Name: name}) {
			if err != nil || r.Ending != want || r.Attempts != attempts {
				t.Errorf("%s ended as %+v, %v, want %v after %d attempts", name, r, err, want, attempts)
			}
			return
		}
		t.Errorf("%s has no record", name)
	}

	// Reports that come at once, perhaps before the store has that the fire was accepted.
	for i := range 20 {
		name := fmt.Sprint("now", i)
		create(name)
		f := take("")
		if f.Name != name || f.Attempt != 1 || string(f.Payload) != `{"n":1}` && string(f.Payload) != `{"n": 1}` {
			t.Fatalf("took %+v", f)
		}
		post(of(f, "complete"), token(f, ""), 200)
		ended(name, rouse.EndFired, 1)
		post(of(f, "complete"), token(f, ""), 409)
	}

	create("released")
	f := take("")
	post(of(f, "release"), token(f, ""), 200)
	again := take("")
	if again.Name != f.Name || again.FireID != f.FireID || again.Attempt != 1 || again.Token <= f.Token {
		t.Errorf("released, it came as %+v after %+v", again, f)
	}
	post(of(f, "complete"), token(f, ""), 409) // that was the attempt before
	var deadline api.Deadline
	if err := json.Unmarshal(post(of(again, "heartbeat"), token(again, `, "extend": "1h"`), 200), &deadline); err != nil ||
		deadline.Deadline.Instant() < again.Deadline.Instant().Add(30*time.Minute) {
		t.Errorf("the deadline is %v, was %v: %v", deadline.Deadline, again.Deadline, err)
	}
	shorter := deadline
	if err := json.Unmarshal(post(of(again, "heartbeat"), token(again, `, "extend": "2s"`), 200), &shorter); err != nil || shorter != deadline {
		t.Errorf("an extension by less than is left made the deadline %v of %v: %v", shorter.Deadline, deadline.Deadline, err)
	}
	post(of(again, "fail"), token(again, `, "detail": "no"`), 200)
	second := take("")
	if second.Name != f.Name || second.Attempt != 2 || second.Last {
		t.Errorf("failed, it came as %+v", second)
	}

	// A dead letter that is redriven is in a row of its own.
	post(of(second, "fail"), token(second, `, "permanent": true`), 200)
	ended(f.Name, rouse.EndDead, 2)
	if _, err := admin.Redrive(t.Context(), own, f.Name, f.FireID, false); err != nil {
		t.Fatal(err)
	}
	redriven := take(`, "name_prefix": "rel", "max": 1`)
	if redriven.FireID != f.FireID {
		t.Errorf("redriven, it came as %+v", redriven)
	}
	c := g.client(worker)
	receipt := client.Receipt{Namespace: own, Name: f.Name, FireID: f.FireID, Token: redriven.Token}
	if err := c.Fail(t.Context(), receipt, client.ErrNotBegun); err != nil {
		t.Errorf("released by gRPC: %v", err)
	}
	receipt.Token = take("").Token
	if err := c.Complete(t.Context(), receipt); err != nil {
		t.Errorf("completed by gRPC: %v", err)
	}
	if err := c.Complete(t.Context(), receipt); !errors.Is(err, rouse.ErrConflict) && !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("completed twice: %v", err)
	}

	post(own+"/fires:poll", `{"channel": "other", "wait": "0s"}`, 403)
	post(foreign+"/fires:poll", `{"channel": "jobs", "wait": "0s"}`, 403)
}
