package dapr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Recurring jobs are called at least as often as scheduled, although rouse and the sidecar are killed during
// the test.
func TestJobsSurviveKills(t *testing.T) {
	w := newEnvironment(t)
	const jobs, repeats = 10, 8
	for i := range jobs {
		w.must("POST", fmt.Sprintf("/v1.0-alpha1/jobs/j%d", i), map[string]any{"schedule": "@every 1s", "repeats": repeats, "data": map[string]any{"n": i}})
	}
	w.must("POST", "/v1.0-alpha1/jobs/once", map[string]any{"dueTime": "2s", "data": "x"})
	first := func(n int) func() bool { return func() bool { return w.app.called("/job/j0") >= n } }
	eventually(t, "the first calls", first(2))
	w.killed(w.rouse)
	eventually(t, "calls after rouse was killed", first(4))
	w.killed(w.sidecar)
	for i := range jobs {
		path := fmt.Sprintf("/job/j%d", i)
		eventually(t, path, func() bool { return w.app.called(path) >= repeats })
	}
	eventually(t, "the one that is called once", func() bool { return w.app.called("/job/once") >= 1 })
	eventually(t, "the jobs are over", func() bool {
		status, _ := w.call("GET", "/v1.0-alpha1/jobs/j0", nil)
		return status/100 != 2
	})
}

// Actors receive their reminders, also after a kill, until the reminders are deleted.
func TestActorRemindersSurviveKills(t *testing.T) {
	w := newEnvironment(t)
	const actors = 5
	path := func(i int) string { return fmt.Sprintf("/actors/cart/a%d/method/remind/pay", i) }
	for i := range actors {
		w.must("POST", fmt.Sprintf("/v1.0/actors/cart/a%d/reminders/pay", i), map[string]any{"dueTime": "0h0m1s0ms", "period": "0h0m1s0ms", "data": i})
	}
	all := func(n int) func() bool {
		return func() bool {
			for i := range actors {
				if w.app.called(path(i)) < n {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "the first reminders", all(2))
	w.killed(w.rouse)
	eventually(t, "reminders after rouse was killed", all(4))
	w.killed(w.sidecar)
	eventually(t, "reminders after the sidecar was killed", all(6))
	if got := w.must("GET", "/v1.0/actors/cart/a1/reminders/pay", nil); !strings.Contains(got, "period") {
		t.Errorf("the reminder reads %s", got)
	}
	for i := range actors {
		w.must("DELETE", fmt.Sprintf("/v1.0/actors/cart/a%d/reminders/pay", i), nil)
	}
}

// Workflows, each step of which uses a reminder, complete with correct results although rouse and the sidecar
// are killed halfway.
func TestWorkflowsSurviveKills(t *testing.T) {
	w := newEnvironment(t)
	start(t, "flow", "127.0.0.1:"+w.grpc)
	const flows, steps = 20, 40
	for i := range flows {
		w.must("POST", fmt.Sprintf("/v1.0-beta1/workflows/dapr/steps/start?instanceID=w%d", i), steps)
	}
	status := func(i int) (state, output string) {
		code, text := w.call("GET", fmt.Sprintf("/v1.0-beta1/workflows/dapr/w%d", i), nil)
		if code/100 != 2 {
			return "", ""
		}
		var got struct {
			RuntimeStatus string
			Properties    map[string]string
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got.RuntimeStatus, got.Properties["dapr.workflow.output"]
	}
	last := func() string { s, _ := status(flows - 1); return s }
	eventually(t, "the last workflow runs", func() bool { return last() == "RUNNING" })
	for _, p := range []*process{w.rouse, w.sidecar, w.rouse} {
		w.killed(p)
		var now string
		eventually(t, "the state of a workflow", func() bool { now = last(); return now != "" })
		if now != "RUNNING" {
			t.Errorf("the last workflow is %s, and there was more to kill: that proves nothing", now)
		}
	}
	for i := range flows {
		var state, output string
		eventually(t, fmt.Sprintf("the end of workflow %d", i), func() bool {
			state, output = status(i)
			return state != "" && state != "RUNNING" && state != "PENDING"
		})
		if state != "COMPLETED" || output != "22140" {
			t.Errorf("workflow %d is %s with %s, want the sum of forty squares, 22140", i, state, output)
		}
	}
}
