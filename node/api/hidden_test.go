package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// TestWhatIsHiddenIsInNoAnswer: without the verb reveal, what a worker answered and what a timer carries is
// in no list, record, explanation or answer to a change, and no search finds it.
func TestWhatIsHiddenIsInNoAnswer(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root := g.client(g.admin)
	const mark = "hidden-4711"
	operator := g.key("operator", own)
	following := map[string]func() (*rousev1.FollowRecordsResponse, error){}
	for name, key := range map[string]string{"operator": operator, "admin": g.admin} {
		stream, err := rousev1.NewTimersClient(g.conn).FollowRecords(bearer(t, key), &rousev1.FollowRecordsRequest{Namespace: own})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil {
			t.Fatal(err)
		}
		following[name] = stream.Recv
	}
	for name, s := range map[string]rouse.Spec{"gone": {Schedule: "@after 1ms", Target: "stream:x", Retry: rouse.Retry{Attempts: 1}}, "later": {Schedule: "2099-01-01T00:00:00Z", Target: "stream:x"}} {
		s.Payload, s.ContentType = []byte(`"`+mark+`"`), "application/json"
		if _, err := root.Create(t.Context(), own, name, s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- root.Subscribe(ctx, client.SubscribeOptions{Namespace: own, Channel: "x"}, func(context.Context, client.Fire) error { return errors.New(mark) })
	}()
	ask := func(key, method, path, body string) string {
		t.Helper()
		code, text := g.http(method, "/v1/namespaces/own/"+path, body, "Authorization", "Bearer "+key)
		if code != 200 {
			t.Errorf("%s: %d %s", path, code, text)
		}
		return text
	}
	if !poll.Holds(poll.Patience, func() bool { return strings.Contains(ask(g.admin, "GET", "records", ""), mark) }) {
		t.Fatal("the failure has no record")
	}
	stop()
	<-ended
	for _, a := range [][3]string{{"GET", "records"}, {"GET", "timers/gone/records"}, {"GET", "timers/gone:explain"}, {"GET", "dead"}, {"GET", "timers"}, {"GET", "timers/later"},
		{"POST", "timers/later:reschedule", `{"schedule": "2098-01-01T00:00:00Z"}`}, {"POST", "timers/later:pause"}, {"POST", "timers/later:resume"}} {
		if text := ask(operator, a[0], a[1], a[2]); strings.Contains(text, mark) {
			t.Errorf("%s shows it: %s", a[1], text)
		}
		if text := ask(g.admin, a[0], a[1], a[2]); !strings.Contains(text, mark) {
			t.Errorf("%s does not show it to an admin: %s", a[1], text)
		}
	}
	for _, path := range []string{"records", "dead"} {
		for key, finds := range map[string]bool{operator: false, g.admin: true} {
			_, found := g.visit("GET", "/v1/namespaces/own/"+path+"?text="+mark, "", "", "Authorization", "Bearer "+key)
			if strings.Contains(fmt.Sprint(found), "gone") != finds {
				t.Errorf("a search in %s: %v, want %v", path, found, finds)
			}
		}
	}
	for key, finds := range map[string]float64{operator: 0, g.admin: 1} {
		body := `{"filter": {"text": "` + mark + `"}, "action": "pause", "dry_run": true}`
		if _, found := g.visit("POST", "/v1/namespaces/own/timers:bulk", body, "", "Authorization", "Bearer "+key, "Accept", "application/json"); found["matched"] != finds {
			t.Errorf("a search for a bulk change: %v, want %g", found, finds)
		}
	}
	for name, receive := range following {
		batch, err := receive()
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(batch); strings.Contains(text, mark) != (name == "admin") || !strings.Contains(text, "gone") {
			t.Errorf("the %s follows %s", name, text)
		}
	}
	if err := root.Access().PutRole(t.Context(), client.Role{Name: "adder", Verbs: []string{"timers.create"}}); err != nil {
		t.Fatal(err)
	}
	adder := g.key("adder", own)
	const again = `{"name": "later once", "schedule": "2099-01-01T00:00:00Z", "target": "stream:x", "payload": "` + mark + `"}`
	for i, key := range []string{g.admin, g.admin, adder} { // the first creates it, its repetition is told of it, and another caller that it exists
		code, text := g.http("POST", "/v1/namespaces/own/timers", again, "Authorization", "Bearer "+key, "Idempotency-Key", "k")
		if want := []int{201, 200, 409}[i]; code != want || strings.Contains(text, mark) != (key == g.admin) {
			t.Errorf("create %d with a key: %d %s", i, code, text)
		}
	}
}
