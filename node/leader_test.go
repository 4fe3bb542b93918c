package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// oneLease is what an API server is to nodes that elect their leader: one lease, which who writes it must
// have read last. Package kubelease is tested with a real one.
type oneLease struct {
	mu      sync.Mutex
	lease   map[string]any
	version int
	away    bool
}

func (l *oneLease) setAway(away bool) { l.mu.Lock(); l.away = away; l.mu.Unlock() }

func (l *oneLease) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		panic(http.ErrAbortHandler)
	}
	body, _ := io.ReadAll(r.Body) // a body that is cut is no JSON
	var given map[string]any
	status, answer := http.StatusOK, any(nil)
	refuse := func(code int, reason string) {
		status, answer = code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
	}
	version := func(lease map[string]any) any {
		meta, _ := lease["metadata"].(map[string]any)
		return meta["resourceVersion"]
	}
	switch {
	case r.Method == http.MethodGet && l.lease == nil:
		refuse(http.StatusNotFound, "NotFound")
	case r.Method != http.MethodGet && json.Unmarshal(body, &given) != nil:
		refuse(http.StatusBadRequest, "BadRequest")
	case r.Method == http.MethodPost && l.lease != nil, r.Method == http.MethodPut && version(given) != version(l.lease):
		refuse(http.StatusConflict, "Conflict")
	case r.Method != http.MethodGet:
		l.version++
		given["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(l.version)
		given["kind"], given["apiVersion"] = "Lease", "coordination.k8s.io/v1"
		l.lease = given
	}
	if answer == nil {
		answer = l.lease
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// leading is the configuration of a node whose leader is elected by Kubernetes.
func leading(t *testing.T, store, name, kubernetes string) Config {
	c := placed(t, store, name)
	c.Leader, c.LeaderLease, c.LeaderKubeconfig = "kubernetes", "apps/leader", filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, kubernetes)
	if err := os.WriteFile(c.LeaderKubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// leaderOf returns the node that leads, as one of them tells it; "" if none does.
func leaderOf(t *testing.T, addr string) string {
	t.Helper()
	var list api.NodeList
	if err := json.Unmarshal([]byte(get(t, "http://"+addr+"/v1/nodes")), &list); err != nil {
		t.Fatal(err)
	}
	var leaders []string
	for _, n := range list.Nodes {
		if n.Leader {
			leaders = append(leaders, n.ID)
		}
	}
	return strings.Join(leaders, " and ")
}

// TestLeaderByKubernetes: the nodes agree on the leader under each strategy. Without the API server there is
// no leader, and everything else works.
func TestLeaderByKubernetes(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"bucket", "lease"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			store := servers.Postgres(t)
			kubernetes := &oneLease{away: true}
			server := httptest.NewServer(kubernetes)
			defer server.Close()
			fired := make(chan string, 10)
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fired <- r.URL.Path }))
			defer target.Close()
			start := func(name string) (addr, admin string, stop func()) {
				c := leading(t, store, name, server.URL)
				c.Strategy, c.Lease = strategy, c.Lease*2
				return serve(t, c)
			}
			fires := func(addr, name string) {
				t.Helper()
				post(t, addr, name, target.URL+"/"+name)
				if got := <-fired; got != "/"+name {
					t.Errorf("%s came, not %s", got, name)
				}
			}
			a, aAdmin, stopA := start("a")
			defer stopA()
			fires(a, "without-a-leader")
			poll.Until(t, "a tries", func() bool {
				return !strings.Contains(get(t, "http://"+aAdmin+"/metrics"), `rouse_failures_total{what="leader"} 0`)
			})
			poll.Until(t, "a is ready", func() bool { status, _, _ := ask("http://" + aAdmin + "/readyz"); return status == 200 })
			if got := leaderOf(t, a); got != "" {
				t.Errorf("%s leads", got)
			}

			kubernetes.setAway(false)
			poll.Until(t, "a leads", func() bool { return leaderOf(t, a) == "a" })
			poll.Until(t, "a reports that it leads", func() bool {
				return strings.Contains(get(t, "http://"+aAdmin+"/metrics"), "rouse_leader 1\n")
			})
			b, bAdmin, stopB := start("b")
			poll.Until(t, "b knows of a", func() bool { return leaderOf(t, b) == "a" })
			if !strings.Contains(get(t, "http://"+bAdmin+"/metrics"), "rouse_leader 0\n") {
				t.Error("b reports that it leads")
			}
			kubernetes.setAway(true)
			poll.Until(t, "no node leads", func() bool { return leaderOf(t, a) == "" && leaderOf(t, b) == "" })
			fires(b, "without-a-leader-again")
			stopB() // does not wait for the API server
			kubernetes.setAway(false)
			poll.Until(t, "a leads again", func() bool { return leaderOf(t, a) == "a" })
		})
	}
}

// TestALeaderByKubernetesNeedsAccess: what cannot come right by itself is refused at the start.
func TestALeaderByKubernetesNeedsAccess(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	store := servers.Postgres(t)
	for want, edit := range map[string]func(*Config){
		"leader kubernetes: access to Kubernetes": func(c *Config) { c.LeaderKubeconfig = "" },
		"no such file": func(c *Config) { c.LeaderKubeconfig = "/nowhere/kubeconfig" },
	} {
		c := leading(t, store, "a", "http://127.0.0.1:1")
		edit(&c)
		err := Run(context.Background(), c, slog.New(slog.DiscardHandler), func(string, string) { t.Error("it runs") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
