package node

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// placed is the configuration of a node on a PostgreSQL, for tests.
func placed(t *testing.T, url, name string, roles ...string) Config {
	c := config(t, url)
	c.Node, c.Roles, c.Unsafe, c.Poll, c.Lease, c.Buckets = name, roles, true, 50*time.Millisecond, 2*time.Second, 8
	return c
}

// post creates a timer through a node's API.
func post(t *testing.T, addr, name, target string) {
	t.Helper()
	body := fmt.Sprintf(`{"name":%q,"schedule":"@after 1ms","target":%q}`, name, target)
	resp, err := http.Post("http://"+addr+"/v1/namespaces/default/timers", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("create: %s", resp.Status)
	}
}

// state returns the state of a timer as a node's API tells it.
func state(t *testing.T, addr, name string) string {
	t.Helper()
	var timer api.Timer
	if err := json.Unmarshal([]byte(get(t, "http://"+addr+"/v1/namespaces/default/timers/"+name)), &timer); err != nil {
		t.Fatal(err)
	}
	return timer.State
}

// TestRoles runs one node that serves the API and fires nothing, and one that fires and serves no API.
func TestRoles(t *testing.T) {
	for _, strategy := range []string{"bucket", "lease"} {
		t.Run(strategy, func(t *testing.T) {
			url := servers.Postgres(t)
			var calls atomic.Int64
			target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
			defer target.Close()

			front := placed(t, url, "front", "api")
			front.Strategy = strategy
			frontAPI, frontAdmin, stopFront := serve(t, front)
			defer stopFront()
			if frontAPI == "" {
				t.Fatal("the node with the API serves none")
			}
			post(t, frontAPI, "a", target.URL)
			// Nothing tells that a fire will not come. Twenty polls are time enough for a node that would
			// fire.
			for end := time.Now().Add(20 * front.Poll); time.Now().Before(end); time.Sleep(front.Poll) {
				if st := state(t, frontAPI, "a"); st != "scheduled" || calls.Load() != 0 {
					t.Fatalf("the node that only serves the API has fired: %s, %d calls", st, calls.Load())
				}
			}
			if m := get(t, "http://"+frontAdmin+"/metrics"); strings.Contains(m, `verdict="done"} 1`) {
				t.Error("the node that only serves the API tells of an attempt")
			}

			worker := placed(t, url, "worker", "scheduler", "executor")
			worker.Strategy, worker.Listen, worker.Advertise = strategy, freePort(t), "worker.internal:7411"
			workerAPI, workerAdmin, stopWorker := serve(t, worker)
			if workerAPI != "" {
				t.Errorf("the node without the role api listens on %s", workerAPI)
			}
			if conn, err := net.Dial("tcp", worker.Listen); err == nil {
				conn.Close()
				t.Errorf("%s is open", worker.Listen)
			}
			poll.Until(t, "the worker fires", func() bool { return calls.Load() == 1 })
			poll.Until(t, "the worker is well", func() bool {
				resp, err := http.Get("http://" + workerAdmin + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				return resp.StatusCode == http.StatusOK
			})
			poll.Until(t, "the worker tells of its attempt", func() bool { // once it has read the answer
				return strings.Contains(get(t, "http://"+workerAdmin+"/metrics"), `verdict="done"} 1`)
			})
			if resp, err := http.Get("http://" + workerAdmin + "/v1/namespaces/default/timers"); err != nil || resp.StatusCode != http.StatusNotFound {
				t.Errorf("the admin listener serves the API: %v %v", resp, err)
			} else {
				resp.Body.Close()
			}
			var nodes api.NodeList
			if err := json.Unmarshal([]byte(get(t, "http://"+frontAPI+"/v1/nodes")), &nodes); err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes.Nodes {
				if (n.Address == "") != (n.ID == "worker") {
					t.Errorf("node %s has the address %q", n.ID, n.Address)
				}
			}
			if len(nodes.Nodes) != 2 {
				t.Errorf("%+v", nodes)
			}
			stopWorker()
		})
	}
}

// TestRolesWithAQueue has one node for each role. Only the first one opens a port for clients, and what it is
// told is called by the last.
func TestRolesWithAQueue(t *testing.T) {
	url, broker := servers.Postgres(t), servers.NATS(t)
	called := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer target.Close()
	addrs, admins := map[string]string{}, map[string]string{}
	for _, role := range []string{"api", "scheduler", "executor"} {
		c := placed(t, url, role, role)
		c.Queue = broker
		var stop func()
		addrs[role], admins[role], stop = serve(t, c)
		defer stop()
		if (addrs[role] != "") != (role == "api") {
			t.Errorf("the node with the role %s serves the API on %q", role, addrs[role])
		}
	}
	for i := range 5 {
		post(t, addrs["api"], fmt.Sprint("t", i), fmt.Sprint(target.URL, "/", i))
	}
	seen := map[string]bool{}
	for range 5 {
		if path := <-called; seen[path] {
			t.Errorf("%s was called twice", path)
		} else {
			seen[path] = true
		}
	}
	// The scheduler published, and hears of the ends from the store; the API's node has seen none of it, and
	// tells of all.
	poll.Until(t, "the records", func() bool {
		return strings.Count(get(t, "http://"+addrs["api"]+"/v1/namespaces/default/records"), `"ending":"fired"`) == 5
	})
	if m := get(t, "http://"+admins["api"]+"/metrics"); strings.Contains(m, `verdict="accepted"} 5`) || strings.Contains(m, `verdict="done"} 5`) {
		t.Error("the node that only serves the API tells of attempts")
	}
	poll.Until(t, "the scheduler tells of what it published", func() bool {
		return strings.Contains(get(t, "http://"+admins["scheduler"]+"/metrics"), `verdict="accepted"} 5`)
	})
}

// TestANodeWithoutAPIAndAdmin has no listener at all.
func TestANodeWithoutAPIAndAdmin(t *testing.T) {
	c := placed(t, servers.Postgres(t), "", "scheduler", "executor")
	c.Listen, c.Admin = "", ""
	apiAddr, admin, stop := serve(t, c)
	if apiAddr != "" || admin != "" {
		t.Errorf("it listens on %q and %q", apiAddr, admin)
	}
	stop()
}

// freePort returns an address that no process listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
