package kubernetes

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// scenarios run with a fake and a real Kubernetes.
var scenarios = map[string]func(t *testing.T, w *harness){
	"Adopted": adopted, "Apart": apart, "Crashes": crashes, "StatefulSetsWait": statefulSetsWait, "Autoscaled": autoscaled, "ScaledByQueue": scaledByQueue,
	"ScalerMissing": scalerMissing, "ScalingChanges": scalingChanges, "KindChanges": kindChanges, "OthersDelete": othersDelete, "Labels": labels, "Managed": managed,
	"NoPodsYet": noPodsYet, "ForeignWorkload": foreignWorkload, "Scaled": scaled,
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	w, _ := newHarness(t)
	runScenarios(t, w)
}

func runScenarios(t *testing.T, w *harness) {
	t.Run("all", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(scenarios)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); scenarios[name](t, w) })
		}
	})
}

// config returns a configuration whose workers sleep.
func (w *harness) config() Config {
	c := testConfig(w.kubeconfig)
	c.Template = sleeper()
	return c
}

// adopted checks that workers outlive their driver, that the next driver finds them, changes nothing without
// need, and replaces them if their template has changed.
func adopted(t *testing.T, w *harness) {
	c := w.config()
	first, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, first, group("k", 2))
	before := until(t, first, "two run", run("k", 2, 0))
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Ensure(t.Context(), group("k", 1)); err == nil {
		t.Error("a closed driver makes workloads")
	}
	second := newDriver(t, c)
	if after := until(t, second, "two run", run("k", 2, 0)); !sameIDs(before, after) {
		t.Errorf("there were %+v, and now there are %+v", before, after)
	}
	generation := meta(w.one(t, workloadsOf(Deployment), c))["generation"]
	ensure(t, second, group("k", 2))
	if now := meta(w.one(t, workloadsOf(Deployment), c))["generation"]; now != generation {
		t.Error("a workload that is as it should be was changed")
	}

	worker(c.Template)["args"] = []any{"1"}
	third := newDriver(t, c)
	ensure(t, third, group("k", 2))
	until(t, third, "all are of the new template", func(workers []driver.Worker) bool {
		return run("k", 2, 0)(workers) && !slices.ContainsFunc(workers, func(w driver.Worker) bool {
			return slices.ContainsFunc(before, func(o driver.Worker) bool { return o.ID == w.ID })
		})
	})
	other := group("k", 2)
	other.Vars["WORKER_PREFETCH"] = "7"
	ensure(t, third, other)
	eventually(t, "pods have the new variable", func() bool {
		pods := w.of(t, podResource, c)
		return len(pods) == 2 && variable(pods[0], "WORKER_PREFETCH")["value"] == "7" && variable(pods[1], "WORKER_PREFETCH")["value"] == "7"
	})
	ensure(t, third, group("k", 2))
	eventually(t, "pods have lost the new variable", func() bool {
		pods := w.of(t, podResource, c)
		return len(pods) == 2 && variable(pods[0], "WORKER_PREFETCH") == nil && variable(pods[1], "WORKER_PREFETCH") == nil
	})
	drain(t, third, "k")
	until(t, third, "nothing is left", none)
}

func sameIDs(a, b []driver.Worker) bool {
	ids := func(list []driver.Worker) []string {
		var all []string
		for _, w := range list {
			all = append(all, w.ID)
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(ids(a), ids(b))
}

// apart checks that pools and instances of one namespace do not see each other, whatever their names.
func apart(t *testing.T, w *harness) {
	base := w.config()
	var all []*Driver
	for _, pool := range []string{"p", "p-k", "P"} {
		for _, suffix := range []string{"", "x"} {
			c := base
			c.Pool, c.Instance = pool, base.Instance+suffix
			all = append(all, newDriver(t, c))
		}
	}
	for i, d := range all {
		ensure(t, d, group("k", 1+i%2))
	}
	for i, d := range all {
		until(t, d, "its own run", run("k", 1+i%2, 0))
	}
	drain(t, all[0], "k")
	until(t, all[0], "its own are gone", none)
	for i, d := range all[1:] {
		until(t, d, "its own still run", run("k", 1+(i+1)%2, 0))
		drain(t, d, "k")
		until(t, d, "its own are gone", none)
	}
}

// crashes checks that the end of a worker by itself is reported.
func crashes(t *testing.T, w *harness) {
	c := w.config()
	worker(c.Template)["command"] = []any{"sh", "-c", "exit 3"}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it was started three times", func(workers []driver.Worker) bool {
		return len(workers) == 1 && workers[0].Starts >= 3 && workers[0].State == driver.Waiting && workers[0].LastExit == "exit status 3"
	})
	drain(t, d, "k")
	until(t, d, "it is gone", none)

	worker(c.Template)["command"] = []any{"/no/such/program"}
	d = newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "the reason why it does not start", func(workers []driver.Worker) bool {
		return len(workers) == 1 && workers[0].State == driver.Waiting && workers[0].Starts == 0 && strings.Contains(workers[0].LastExit, "no such file")
	})
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// statefulSetsWait checks that the new worker of a StatefulSet does not start before the last one of its name
// has ended.
func statefulSetsWait(t *testing.T, w *harness) {
	c := w.config()
	c.Kind = StatefulSet
	worker(c.Template)["command"] = []any{"sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"} // it is killed after its grace period
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	old := until(t, d, "it runs", run("k", 1, 0))[0]
	uid := meta(w.one(t, podResource, c))["uid"]
	drain(t, d, "k")
	ensure(t, d, group("k", 1))
	until(t, d, "the old one drains", func(workers []driver.Worker) bool {
		return slices.ContainsFunc(workers, func(w driver.Worker) bool { return w.ID == old.ID && w.State == driver.Draining })
	})
	if now := w.of(t, podResource, c); len(now) > 1 {
		t.Errorf("there are two of %s", old.ID)
	}
	if fresh := until(t, d, "the fresh one runs", run("k", 1, 0))[0]; fresh.ID != old.ID {
		t.Errorf("the fresh one is %s, not %s", fresh.ID, old.ID)
	}
	if meta(w.one(t, podResource, c))["uid"] == uid {
		t.Error("it is the old one")
	}
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// kindChanges checks that workloads of the kind of an earlier configuration are recognized and deleted.
func kindChanges(t *testing.T, w *harness) {
	c := w.config()
	first := newDriver(t, c)
	for _, key := range []string{"wanted", "not wanted"} {
		ensure(t, first, group(key, 1))
		until(t, first, "it runs", run(key, 1, 0))
	}
	c.Kind = StatefulSet
	d := newDriver(t, c)
	until(t, d, "they are seen", func(workers []driver.Worker) bool {
		return run("wanted", 1, 0)(workers) && run("not wanted", 1, 0)(workers)
	})
	ensure(t, d, group("wanted", 1))
	drain(t, d, "not wanted")
	until(t, d, "they end", func(workers []driver.Worker) bool {
		return run("wanted", 1, 0)(workers) && run("not wanted", 0, 0)(workers)
	})
	if n := len(w.of(t, workloadsOf(Deployment), c)); n > 0 {
		t.Errorf("there are %d Deployments", n)
	}
	drain(t, d, "wanted")
	until(t, d, "it is gone", none)

	// A workload scaled to zero has no pods by which it could be recognized.
	c.Kind = Deployment
	idle := newDriver(t, c)
	ensure(t, idle, group("idle", 1))
	until(t, idle, "it runs", run("idle", 1, 0))
	was := w.one(t, workloadsOf(Deployment), c)
	name := meta(was)["name"].(string)
	spec := was["spec"].(map[string]any)
	spec["replicas"] = 0
	if _, err := w.admin.applyObject(t.Context(), idle.workloads.at, name, map[string]any{"apiVersion": "apps/v1", "kind": Deployment, "metadata": map[string]any{
		"name": name, "namespace": c.Namespace, "labels": meta(was)["labels"], "annotations": meta(was)["annotations"]}, "spec": spec}); err != nil {
		t.Fatal(err)
	}
	until(t, idle, "it has no pods", func(workers []driver.Worker) bool { return len(workers) == 1 && workers[0].State == driver.Waiting })
	c.Kind = StatefulSet
	d = newDriver(t, c)
	ensure(t, d, group("idle", 1))
	until(t, d, "it runs", run("idle", 1, 0))
	if n := len(w.of(t, workloadsOf(Deployment), c)); n > 0 {
		t.Errorf("there are %d Deployments", n)
	}
	drain(t, d, "idle")
	until(t, d, "it is gone", none)
}

// othersDelete checks that a workload that another client has deleted is created again, with pods of another
// turn.
func othersDelete(t *testing.T, w *harness) {
	c := w.config()
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	was := w.one(t, workloadsOf(Deployment), c)
	if _, err := w.admin.deleteObject(t.Context(), d.workloads.at, meta(was)["name"].(string), ""); err != nil {
		t.Fatal(err)
	}
	until(t, d, "it is missed", func(workers []driver.Worker) bool {
		return !slices.ContainsFunc(workers, func(w driver.Worker) bool { return w.State != driver.Draining })
	})
	ensure(t, d, group("k", 1))
	until(t, d, "it runs again", run("k", 1, 0))
	if at(was, "spec", "selector", "matchLabels", labelTurn) == at(w.one(t, workloadsOf(Deployment), c), "spec", "selector", "matchLabels", labelTurn) {
		t.Error("it has the same turn")
	}
	drain(t, d, "k")
	until(t, d, "it is gone", none)
}

// labels checks that all created objects carry the labels of their owner.
func labels(t *testing.T, w *harness) {
	c := w.config()
	c.Pool = strings.Repeat("p", 63) + "."
	c.Labels, c.Annotations = map[string]string{"team": "maps"}, map[string]string{"example.com/note": "a note"}
	c.Scaling.HPA = &HPA{Max: 2}
	d := newDriver(t, c)
	ensure(t, d, group("naïve %41", 1))
	until(t, d, "it runs", run("naïve %41", 1, 0))
	for _, r := range []resource{workloadsOf(Deployment), podResource, hpaResource} {
		m := meta(w.one(t, r, c))
		if at(m, "labels", labelManagedBy) != managedBy || at(m, "labels", labelTurn) == nil || at(m, "annotations", annotationPool) != c.Pool ||
			at(m, "annotations", annotationKey) != "na%C3%AFve%20%2541" {
			t.Errorf("a %s has the labels %v and annotations %v", r.kind, m["labels"], m["annotations"])
		}
		if r.kind != hpaResource.kind && (at(m, "labels", "team") != "maps" || at(m, "annotations", "example.com/note") != "a note") {
			t.Errorf("a %s has the labels %v and annotations %v", r.kind, m["labels"], m["annotations"])
		}
	}
	if hash := at(meta(w.one(t, workloadsOf(Deployment), c)), "annotations", annotationHash); hash == nil {
		t.Error("the workload does not say by what it was made")
	}
	drain(t, d, "naïve %41")
	until(t, d, "it is gone", none)
}

// noPodsYet checks that a workload is listed before it has pods, with one entry per worker.
func noPodsYet(t *testing.T, w *harness) {
	c := w.config()
	d := newDriver(t, c)
	ensure(t, d, group("k", 3))
	if n := len(list(t, d)); n != 3 {
		t.Errorf("there are %d workers right after they were asked for", n)
	}
	drain(t, d, "k")
	for _, w := range list(t, d) {
		if w.State != driver.Draining {
			t.Errorf("%+v does not drain", w)
		}
	}
	until(t, d, "they are gone", none)
}

// foreignWorkload checks that another client's workload with the same name is left alone.
func foreignWorkload(t *testing.T, w *harness) {
	c := w.config()
	d := newDriver(t, c)
	name := workloadName(c.Instance, c.Pool, "k")
	for _, notes := range []obj{{}, {annotationKey: "k"}, {annotationKey: "another"}} {
		theirs := obj{"apiVersion": "apps/v1", "kind": Deployment, "metadata": obj{"name": name, "namespace": "workers", "labels": obj{labelInstance: c.Instance}, "annotations": notes},
			"spec": obj{"replicas": 0, "selector": obj{"matchLabels": obj{"a": "b"}}, "template": obj{"metadata": obj{"labels": obj{"a": "b"}}, "spec": obj{"containers": []any{obj{"name": "c", "image": "i"}}}}}}
		if _, err := w.admin.applyObject(t.Context(), d.workloads.at, name, theirs); err != nil {
			t.Fatal(err)
		}
		if err := d.Ensure(t.Context(), group("k", 1)); err == nil || !strings.Contains(err.Error(), "does not belong to this key") {
			t.Errorf("it is taken: %v", err)
		}
		if err := d.Drain(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "does not belong to this key") {
			t.Errorf("it is deleted: %v", err)
		}
	}
	if w.one(t, workloadsOf(Deployment), c); len(list(t, d)) > 0 {
		t.Error("it is listed")
	}
	if _, err := w.admin.deleteObject(t.Context(), d.workloads.at, name, ""); err != nil {
		t.Fatal(err)
	}
}
