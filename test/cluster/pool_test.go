package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestOneWorkerOfAKey holds that a key of a pool has one worker over all nodes, whichever of them is asked,
// and that when a node is killed its keys have one on the nodes that are left, and none of its workers lives
// on.
func TestOneWorkerOfAKey(t *testing.T) {
	t.Parallel()
	store := servers.StartPostgres(t).URL()
	pools := filepath.Join(t.TempDir(), "pools.yaml")
	// An answer is the process of the worker.
	file := "pools: [{name: core, transport: store, unbind_delay: 10m, driver: {subprocess: {command: [%s, work, sh, -c, 'echo $PPID']}}}]\n"
	nodes := [2]*node{}
	var clients [2]*client.Client
	for i := range nodes {
		n := newNode(t, fmt.Sprint("n", i), store, "--lease", long.String(), "--pools", pools)
		if i == 0 {
			if err := os.WriteFile(pools, fmt.Appendf(nil, file, n.Binary), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n.Start()
		nodes[i], clients[i] = n, n.Dial(harness.Patience)
	}
	harness.Until(t, harness.Always("each node has no buckets"), func() bool {
		list, err := clients[0].Nodes(t.Context())
		return err == nil && len(list) == 2 && list[0].Buckets > 0 && list[1].Buckets > 0
	})

	// ask returns the process that answers for each key, asked for by each of some nodes.
	const keys = 8
	ask := func(by ...*client.Client) map[string]int {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		defer cancel()
		var mu sync.Mutex
		served := map[string]int{}
		var asking sync.WaitGroup
		for i := range keys * len(by) {
			asking.Go(func() {
				key := fmt.Sprint("k", i/len(by))
				got, err := by[i%len(by)].Call(ctx, client.Call{Pool: "core", Key: key, Wait: harness.Patience})
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				pid, err := strconv.Atoi(strings.TrimSpace(string(got.Answer.Payload)))
				mu.Lock()
				defer mu.Unlock()
				if other := served[key]; err != nil || other != 0 && other != pid {
					t.Errorf("the key %s is served by %d and by %d, %v", key, other, pid, err)
				}
				served[key] = pid
			})
		}
		asking.Wait()
		return served
	}
	before := ask(clients[:]...)
	where := map[string]int{}
	for i, n := range nodes {
		for _, key := range groups(t, n) {
			if other, twice := where[key]; twice {
				t.Errorf("the key %s has groups on the nodes %d and %d", key, other, i)
			}
			where[key] = i
		}
	}

	nodes[1].Kill()
	after := ask(clients[0])
	for key, pid := range before {
		if where[key] == 0 && after[key] != pid {
			t.Errorf("the key %s of the node that lives on has another worker", key)
		}
		if where[key] == 1 {
			harness.Until(t, harness.Always("the worker %d of the killed node lives on", pid), func() bool { return syscall.Kill(pid, 0) != nil })
		}
	}
	if left := groups(t, nodes[0]); len(left) != keys {
		t.Errorf("the node that is left has the groups %v", left)
	}
}

// groups returns the keys whose workers a node has.
func groups(t *testing.T, n *node) (keys []string) {
	t.Helper()
	answer, err := http.Get("http://" + n.Admin() + "/pools/core")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var view struct {
		Groups []struct {
			Key     string `json:"key"`
			Workers []any  `json:"workers"`
		} `json:"groups"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&view); err != nil {
		t.Fatal(err)
	}
	for _, g := range view.Groups {
		if len(g.Workers) != 1 {
			t.Errorf("the key %s has %d workers", g.Key, len(g.Workers))
		}
		keys = append(keys, g.Key)
	}
	return keys
}
