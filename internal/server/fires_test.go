package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

const pollURL = "/v1/namespaces/ns/fires:poll"

// polled polls over a connection, whose deadlines the handler moves, and reads the answer.
func polled[T any](t *testing.T, s *running, body string) (v T) {
	t.Helper()
	answer, err := http.Post("http://"+s.addr+pollURL, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.UnmarshalRead(answer.Body, &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPoll(t *testing.T) {
	var asked *rousev1.Open
	var waited time.Duration
	var fires []*rousev1.Fire
	polls := func(_ context.Context, open *rousev1.Open, wait time.Duration) ([]*rousev1.Fire, error) {
		asked, waited = open, wait
		return fires, nil
	}
	s := serve(t, Options{Timers: newFake(), Polls: polls})
	if got := polled[api.Polled](t, s, `{}`); got.Fires == nil || len(got.Fires) != 0 {
		t.Errorf("no fires are %+v", got)
	}
	if asked.Namespace != "ns" || asked.Channel != "" || asked.Credits != pollDefault || waited != 30*time.Second {
		t.Errorf("asked %v for %v", asked, waited)
	}
	fires = []*rousev1.Fire{
		{Id: strings.Repeat("1", 26), Namespace: "ns", Name: "a", DueMs: int64(epoch), Attempt: 2, Token: 9, Last: true, Payload: []byte(`{"n":1}`), ContentType: "application/json", DeadlineMs: int64(epoch) + 1},
		{Id: strings.Repeat("2", 26), Name: "b", DueMs: int64(epoch), DeadlineMs: int64(epoch), Payload: []byte{1}, Labels: map[string]string{"k": "v"}},
	}
	got := polled[api.Polled](t, s, `{"channel": "c", "name_prefix": "p", "labels": {"k": "v"}, "max": 256, "wait": "0s"}`)
	if asked.Channel != "c" || asked.NamePrefix != "p" || asked.Labels["k"] != "v" || asked.Credits != 256 || waited != 0 {
		t.Errorf("asked %v for %v", asked, waited)
	}
	if f := got.Fires[0]; f.FireID != fires[0].Id || f.Name != "a" || f.Due.Instant() != epoch || f.Attempt != 2 || f.Token != 9 || !f.Last || string(f.Payload) != `{"n":1}` ||
		f.Deadline.Instant() != epoch+1 {
		t.Errorf("fire %+v", f)
	}
	if f := got.Fires[1]; f.Payload != nil || len(f.PayloadBase64) != 1 || f.Labels["k"] != "v" {
		t.Errorf("fire %+v", f)
	}
}

func TestPollsAreChecked(t *testing.T) {
	var asked []string
	s := serve(t, Options{Timers: newFake(), Polls: func(_ context.Context, open *rousev1.Open, _ time.Duration) ([]*rousev1.Fire, error) {
		asked = append(asked, open.Channel)
		return nil, rouse.Refuse("open.channel", "c", "is wrong", "give another")
	}})
	defer func() {
		if len(asked) != 1 || asked[0] != "c" { // the fires of a pool are of all namespaces
			t.Errorf("the channels %q were polled", asked)
		}
	}()
	for body, want := range map[string]string{`{"wait": "31s"}`: "wait", `{"max": 257}`: "max", `{"channel": "pool:a/b"}`: "channel",
		`{"channel": "c"}`: "channel"} {
		if p := polled[api.Problem](t, s, body); p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Field != want {
			t.Errorf("%s: %+v", body, p)
		}
	}
	want(t, do(handler(newFake()), "POST", pollURL, `{}`), 404)
}
