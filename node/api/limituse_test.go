package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/mem"
)

// TestNodesAddUpTheUseOfLimits has two nodes with access control on one store, and a limit whose keys are in
// buckets of both. Each of them answers for both, and both obey a reset.
func TestNodesAddUpTheUseOfLimits(t *testing.T) {
	end := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer hangs.Close()
	defer close(end)
	store, keys := sharedMem{mem.New()}, filepath.Join(t.TempDir(), "secrets.keys")
	if err := os.WriteFile(keys, []byte(node.NewSecretKey()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*guarded
	for _, name := range []string{"one", "two"} {
		nodes = append(nodes, serveGuarded(t, store, func(c *node.Config) {
			c.Node, c.Buckets, c.AllowPrivate, c.Lease, c.SecretKeys, c.Grace = name, 8, true, 2*time.Second, "file:"+keys, 100*time.Millisecond
		}))
	}
	c := nodes[0].client(nodes[0].admin)
	until(t, func() error { // both have buckets
		list, err := c.Status().Buckets(t.Context())
		owned := map[string]int{}
		for _, b := range list {
			owned[b.Node]++
		}
		if err != nil || owned["one"] == 0 || owned["two"] == 0 || owned[""] > 0 {
			return fmt.Errorf("%v, %v", owned, err)
		}
		return nil
	})
	const of, each = 12, 3
	limit := rouse.Limit{Namespace: own, Name: "a", PerKey: true, Concurrency: 2, Rate: rouse.LimitRate{Count: 1, Per: 24 * time.Hour}}
	if _, err := c.Limits().Put(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	until(t, func() error { // the other node has read it
		list, err := nodes[1].client(nodes[1].admin).Limits().List(t.Context(), own)
		if err != nil || len(list.Limits) != 1 {
			return fmt.Errorf("%+v, %v", list, err)
		}
		return nil
	})
	for i := range of * each {
		spec := rouse.Spec{Schedule: "@after 1ms", Target: hangs.URL, Limit: "a", LimitKey: fmt.Sprint("k", i%of)}
		if _, err := c.Create(t.Context(), own, fmt.Sprint("t", i), spec); err != nil {
			t.Fatal(err)
		}
	}
	mustHave := func(waiting, running int) { // of each key
		t.Helper()
		for _, at := range nodes {
			until(t, func() error {
				_, use, err := at.client(at.admin).Limits().Get(t.Context(), own, "a")
				if err != nil || use.Waiting != of*waiting || use.InProgress != of*running || len(use.Keys) != of || len(use.Nodes) != 2 || use.Nodes[0].Error+use.Nodes[1].Error != "" {
					return fmt.Errorf("%+v, %v", use, err)
				}
				for _, k := range use.Keys {
					if k.Waiting != waiting || k.InProgress != running || k.Oldest < use.Oldest || use.Oldest == 0 {
						return fmt.Errorf("key %+v of %+v", k, use)
					}
				}
				list, err := at.client(at.admin).Limits().List(t.Context(), own)
				if err != nil || len(list.Uses) != 1 || list.Uses[0].Waiting != of*waiting || list.Uses[0].InProgress != of*running || list.Uses[0].Keys != nil || len(list.Nodes) != 2 {
					return fmt.Errorf("listed %+v, %v", list, err)
				}
				return nil
			})
		}
	}
	mustHave(each, 0) // what a node that has just started does not know of a rate
	for running := 1; running <= 2; running++ {
		if _, err := nodes[running-1].client(nodes[running-1].admin).Limits().Reset(t.Context(), own, "a"); err != nil {
			t.Fatal(err)
		}
		mustHave(each-running, running)
	}
	reader := nodes[0].client(nodes[0].key("reader", own))
	if _, use, err := reader.Limits().Get(t.Context(), own, "a"); err != nil || use.InProgress != 2*of {
		t.Errorf("a reader of the namespace sees %+v, %v", use, err)
	}
	if err := c.Access().PutRole(t.Context(), client.Role{Name: "limiter", Verbs: []string{"limits.read"}}); err != nil {
		t.Fatal(err)
	}
	part := nodes[0].client(nodes[0].key("limiter", own))
	if l, use, err := part.Limits().Get(t.Context(), own, "a"); err != nil || l.Name != "a" || len(use.Keys)+len(use.Nodes)+use.Waiting+use.InProgress != 0 {
		t.Errorf("one who may not read timers sees %+v of %+v, %v", use, l, err)
	}
	if list, err := part.Limits().List(t.Context(), own); err != nil || len(list.Limits) != 1 || len(list.Nodes)+list.Uses[0].Waiting != 0 {
		t.Errorf("one who may not read timers sees %+v, %v", list, err)
	}
}
