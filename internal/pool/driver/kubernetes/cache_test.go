package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/kubelink"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestWatchGoesOn checks that the driver learns of all changes while watches end, including those that have
// been dropped from the event history.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	w, server := newHarness(t)
	d := newDriver(t, w.config())
	ensure(t, d, group("a", 1))
	until(t, d, "a runs", run("a", 1, 0))

	server.cut() // it resumes
	ensure(t, d, group("b", 1))
	until(t, d, "b runs", run("b", 1, 0))
	lists := server.count("list")

	server.compact() // it lists again
	ensure(t, d, group("c", 1))
	until(t, d, "c runs", run("c", 1, 0))
	if now := server.count("list"); now == lists {
		t.Error("nothing was listed again, although the event history was dropped")
	}
	for _, key := range []string{"a", "b", "c"} {
		until(t, d, "all run", run(key, 1, 0))
		drain(t, d, key)
	}
	server.compact()
	until(t, d, "all are gone", none)
}

// TestLists checks that a list with many pages is complete, that a list which takes too long is restarted,
// and that Changed reports later changes.
func TestLists(t *testing.T) {
	t.Parallel()
	server := newCluster(t)
	c := testConfig(kubeconfig(t, server.url, ""))
	first := newDriver(t, c)
	ensure(t, first, group("0", 1))
	const groups = 2*kubelink.PageSize + 7
	list(t, first) // its watches continue
	server.copies(first.workloads.at[len(server.url):]+"/"+workloadName(c.Instance, c.Pool, "0"), groups-1)
	var expired atomic.Bool
	server.refusing(func(r *http.Request) (int, string) {
		if r.URL.Query().Get("continue") != "" && expired.CompareAndSwap(false, true) {
			return http.StatusGone, "The provided continue parameter is too old"
		}
		return 0, ""
	})
	before := server.count("list")
	d := newDriver(t, c)
	seen := map[string]bool{}
	for _, w := range list(t, d) {
		seen[w.Key] = true
	}
	if len(seen) != groups || !expired.Load() {
		t.Errorf("there are workers of %d keys, not of %d", len(seen), groups)
	}
	if n := server.count("list") - before; n != 2+3+1 { // workloads: a page, and the second one fails; three pages; pods
		t.Errorf("it took %d requests", n)
	}
	eventually(t, "it tells of the list", func() bool {
		select {
		case <-d.Changed():
			return true
		default:
			return false
		}
	})
	ensure(t, newDriver(t, c), group("one more", 1))
	select {
	case <-d.Changed():
	case <-time.After(patience):
		t.Error("it does not tell of what another one did")
	}
	until(t, d, "it is seen", func(workers []driver.Worker) bool { return len(workers) == groups+1 })
}

// TestRefusals checks that each call reports the error of the API server, and that calls succeed again after
// it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w, server := newHarness(t)
	d := newDriver(t, w.config())
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	for _, answer := range []struct {
		status  int
		message string
		texts   []string
	}{
		{status: http.StatusForbidden, message: `deployments.apps is forbidden: User "x" cannot list`, texts: []string{"403 Forbidden", "cannot list", "docs/pools.md"}},
		{status: http.StatusTooManyRequests, message: "slow down", texts: []string{"429", "slow down"}},
		{status: http.StatusInternalServerError, message: "etcd is away", texts: []string{"500", "etcd is away"}},
	} {
		server.refusing(func(r *http.Request) (int, string) {
			if strings.Contains(r.URL.Path, "deployments") {
				return answer.status, answer.message
			}
			return 0, ""
		})
		server.cut()
		var err error
		eventually(t, "lists fail", func() bool { _, err = d.List(t.Context()); return err != nil })
		for what, err := range map[string]error{"list": err, "ensure": d.Ensure(t.Context(), group("k", 2)), "drain": d.Drain(t.Context(), "k")} {
			for _, text := range answer.texts {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%s returns %v, without %q", what, err, text)
				}
			}
		}
		server.refusing(nil)
		eventually(t, "lists succeed", func() bool { _, err := d.List(t.Context()); return err == nil })
	}
	until(t, d, "it still runs", run("k", 1, 0))
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// TestNoAnswer checks that calls end with their context while the API server does not answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	server := newCluster(t)
	hang := make(chan struct{})
	server.refusing(func(*http.Request) (int, string) { <-hang; return http.StatusServiceUnavailable, "it hung" })
	defer close(hang)
	d := newDriver(t, testConfig(kubeconfig(t, server.url, "")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.List(ctx)
	for what, err := range map[string]error{"list": err, "ensure": d.Ensure(ctx, group("k", 1)), "drain": d.Drain(ctx, "k")} {
		if err == nil {
			t.Errorf("%s succeeds", what)
		}
	}
}

// TestHeldByFinalizers checks that a workload that a finalizer keeps counts as draining, and that no other
// one is created before it is gone.
func TestHeldByFinalizers(t *testing.T) {
	t.Parallel()
	w, _ := newHarness(t)
	c := w.config()
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	at := d.workloads.at + "/" + workloadName(c.Instance, c.Pool, "k")
	w.merge(t, at, obj{"metadata": obj{"finalizers": []any{"example.com/hold"}}})
	drain(t, d, "k")
	if got := list(t, d); len(got) != 1 || got[0].State != driver.Draining {
		t.Errorf("after Drain there is %+v", got)
	}
	until(t, d, "it drains", func(workers []driver.Worker) bool { return len(workers) == 1 && workers[0].State == driver.Draining })
	drain(t, d, "k")
	if err := d.Ensure(t.Context(), group("k", 1)); err == nil || !strings.Contains(err.Error(), "finalizers") {
		t.Errorf("the error is %v", err)
	}
	w.merge(t, at, obj{"metadata": obj{"finalizers": []any{}}})
	until(t, d, "it is gone", none)
}

// TestOwnWritesAreSeen checks that a list contains the effect of earlier calls before a watch reports it.
func TestOwnWritesAreSeen(t *testing.T) {
	t.Parallel()
	w, server := newHarness(t)
	d := newDriver(t, w.config())
	list(t, d) // the watches have started
	var hold atomic.Bool
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	server.refusing(func(r *http.Request) (int, string) {
		if hold.Load() && r.URL.Query().Get("watch") != "" {
			<-held
		}
		return 0, ""
	})
	hold.Store(true)
	server.cut()
	ensure(t, d, group("k", 2))
	if got := list(t, d); len(got) != 2 {
		t.Errorf("after Ensure there is %+v", got)
	}
	drain(t, d, "k")
	for _, w := range list(t, d) {
		if w.State != driver.Draining {
			t.Errorf("after Drain there is %+v", w)
		}
	}
}

// TestScaledGroupsCostNothing checks that repeated calls of Ensure for a scaled group, whose number of
// workers differs from the pool's, make no requests while nothing changes.
func TestScaledGroupsCostNothing(t *testing.T) {
	t.Parallel()
	w, server := newHarness(t)
	c := w.config()
	c.Scaling.HPA = &HPA{Max: 3}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	calls := server.count("get") + server.count("patch")
	for range 3 {
		ensure(t, d, group("k", 1))
	}
	// The kubelet of the test makes requests as well, but none at this point.
	if now := server.count("get") + server.count("patch"); now != calls {
		t.Errorf("it took %d requests", now-calls)
	}
	other := group("k", 1)
	other.Vars["A"] = "b"
	ensure(t, d, other)
	if n := len(w.of(t, workloadsOf(Deployment), c)); n != 1 || variable(asObj(at(w.one(t, workloadsOf(Deployment), c), "spec", "template")), "A") == nil {
		t.Error("what has changed is not seen to")
	}
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// TestSlowControllers checks that the pods of a deleted workload count as draining although they have not
// been deleted yet, and do not count for the next workload.
func TestSlowControllers(t *testing.T) {
	t.Parallel()
	w, server := newHarness(t)
	d := newDriver(t, w.config())
	ensure(t, d, group("k", 1))
	old := until(t, d, "it runs", run("k", 1, 0))[0]
	server.rest(true)
	drain(t, d, "k")
	if !run("k", 0, 1)(list(t, d)) {
		t.Errorf("after Drain there is %+v", list(t, d))
	}
	ensure(t, d, group("k", 1))
	for _, w := range list(t, d) {
		if (w.ID == old.ID) != (w.State == driver.Draining) {
			t.Errorf("after %s drains there is %+v", old.ID, w)
		}
	}
	server.rest(false)
	until(t, d, "only the fresh one runs", run("k", 1, 0))
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// TestLateEvents checks that late events do not overwrite newer states.
func TestLateEvents(t *testing.T) {
	a, err := connectAPI(kubeconfig(t, "http://127.0.0.1:1", ""))
	if err != nil {
		t.Fatal(err)
	}
	c := newCache(a, podResource, "n", "", func() {}, nil)
	take := func(event, uid, version, name string) {
		o := &object{}
		o.Metadata.UID, o.Metadata.ResourceVersion, o.Metadata.Name = uid, version, name
		c.Took(event, o)
	}
	take("ADDED", "u", "10", "new")
	take("MODIFIED", "u", "9", "old")
	if c.objectNamed("new") == nil || c.objectNamed("old") != nil {
		t.Error("an old event counts")
	}
	c.dropDeleted("u")
	take("MODIFIED", "u", "11", "risen")
	if len(c.allObjects()) > 0 {
		t.Error("a deleted object is back")
	}
	take("DELETED", "u", "12", "risen")
	if len(c.dropped) > 0 {
		t.Error("what is gone is remembered for ever")
	}
	take("ADDED", "v", "not a number", "x")
	take("MODIFIED", "v", "nor this", "y")
	if c.objectNamed("y") == nil {
		t.Error("versions that cannot be compared do not count")
	}
}
