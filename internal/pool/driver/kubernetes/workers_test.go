package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestStates checks the state of a worker for each status of a pod.
func TestStates(t *testing.T) {
	d := &Driver{config: Config{Container: "worker"}}
	for name, c := range map[string]struct {
		deleted bool
		status  string
		state   driver.State
		since   string
		starts  int
		exit    string
	}{
		"not scheduled":       {status: `{}`, state: driver.Running, since: "09:00"},
		"not looked at":       {status: `{"phase":"Pending"}`, state: driver.Waiting, since: "09:00", exit: "to schedule it"},
		"scheduled":           {status: `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}]}`, state: driver.Running, since: "09:00"},
		"no room":             {status: `{"conditions":[{"type":"PodScheduled","status":"False","message":"0/3 nodes are available"}]}`, state: driver.Waiting, since: "09:00", exit: "0/3 nodes"},
		"its image is pulled": {status: `{"containerStatuses":[{"name":"worker","state":{"waiting":{"reason":"ContainerCreating"}}}]}`, state: driver.Running, since: "09:00"},
		"no image": {status: `{"containerStatuses":[{"name":"worker","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`, state: driver.Waiting,
			since: "09:00", exit: "ImagePullBackOff: no such image"},
		"it runs": {status: `{"containerStatuses":[{"name":"sidecar","restartCount":7},{"name":"worker","state":{"running":{"startedAt":"2027-01-31T09:05:00Z"}}}]}`, state: driver.Running,
			since: "09:05", starts: 1},
		"it runs again": {status: `{"containerStatuses":[{"name":"worker","restartCount":2,"state":{"running":{"startedAt":"2027-01-31T09:05:00Z"}},
			"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","finishedAt":"2027-01-31T09:04:00Z"}}}]}`, state: driver.Running, since: "09:05", starts: 3, exit: "exit status 137: OOMKilled"},
		"it has just ended": {status: `{"containerStatuses":[{"name":"worker","state":{"terminated":{"exitCode":0,"reason":"Completed","finishedAt":"2027-01-31T09:04:00Z"}}}]}`,
			state: driver.Waiting, since: "09:04", starts: 1, exit: "exit status 0"},
		"it pauses": {status: `{"containerStatuses":[{"name":"worker","restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},
			"lastState":{"terminated":{"signal":9,"finishedAt":"2027-01-31T09:04:00Z"}}}]}`, state: driver.Waiting, since: "09:04", starts: 2, exit: "signal 9"},
		"it drains": {deleted: true, status: `{"containerStatuses":[{"name":"worker","state":{"running":{"startedAt":"2027-01-31T09:05:00Z"}}}]}`, state: driver.Draining,
			since: "09:10", starts: 1},
	} {
		text := `{"metadata":{"name":"w","creationTimestamp":"2027-01-31T09:00:00Z"`
		if c.deleted {
			text += `,"deletionTimestamp":"2027-01-31T09:11:00Z","deletionGracePeriodSeconds":60`
		}
		var p object
		if err := json.Unmarshal([]byte(text+`},"status":`+c.status+`}`), &p); err != nil {
			t.Fatal(err)
		}
		w := d.workerOfPod(&p, "k")
		if w.State != c.state || w.Since.Format("15:04") != c.since || w.Starts != c.starts || !strings.Contains(w.LastExit, c.exit) || c.exit == "" && w.LastExit != "" {
			t.Errorf("%s: it is %+v", name, w)
		}
	}
}

// TestMissing checks the entries for a workload with too few pods.
func TestMissing(t *testing.T) {
	deleted := time.Now()
	three, zero := 3, 0
	for name, c := range map[string]struct {
		replicas *int
		deleted  *time.Time
		there    int
		any      bool
		want     []driver.State
	}{
		"none yet":         {replicas: &three, want: []driver.State{driver.Running, driver.Running, driver.Running}},
		"one yet":          {replicas: &three, there: 1, any: true, want: []driver.State{driver.Running, driver.Running}},
		"more than needed": {replicas: &three, there: 4, any: true},
		"scaled to zero":   {replicas: &zero, want: []driver.State{driver.Waiting}},
		"going to zero":    {replicas: &zero, there: 1, any: true},
		"held":             {replicas: &three, deleted: &deleted, want: []driver.State{driver.Draining}},
		"held, with pods":  {replicas: &three, deleted: &deleted, any: true},
		"no number":        {want: []driver.State{driver.Running}},
	} {
		var w object
		w.Metadata.Name, w.Metadata.DeletionTimestamp, w.Spec.Replicas = "w", c.deleted, c.replicas
		list := missingPods(&w, "k", c.there, c.any)
		ids := map[string]bool{}
		for i, e := range list {
			ids[e.ID] = true
			if i >= len(c.want) || e.State != c.want[i] || e.Key != "k" {
				t.Errorf("%s: there is %+v", name, e)
			}
		}
		if len(list) != len(c.want) || len(ids) != len(list) {
			t.Errorf("%s: there are %+v", name, list)
		}
	}
}
