package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// harness is an API server with controllers and a kubelet, of which a test knows more than the driver: the
// fake of this package, or a real one.
type harness struct {
	kubeconfig string // of the driver
	admin      *api
}

func newHarness(t *testing.T) (*harness, *cluster) {
	t.Helper()
	c := newCluster(t)
	w := &harness{kubeconfig: kubeconfig(t, c.url, "")}
	w.connect(t, w.kubeconfig)
	startKubelet(t, w.kubeconfig, "workers")
	return w, c
}

func (w *harness) connect(t *testing.T, kubeconfig string) {
	t.Helper()
	var err error
	if w.admin, err = connectAPI(kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.admin.Close)
}

// of returns the objects of a kind of an instance, by name.
func (w *harness) of(t *testing.T, r resource, c Config) []obj {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var list struct{ Items []obj }
	if err := w.admin.Do(ctx, http.MethodGet, w.admin.collectionURL(r, "workers")+"?labelSelector="+labelInstance+"="+c.Instance, "", nil, &list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b obj) int { return cmp.Compare(meta(a)["name"].(string), meta(b)["name"].(string)) })
	return list.Items
}

// one returns the only object of a kind.
func (w *harness) one(t *testing.T, r resource, c Config) obj {
	t.Helper()
	list := w.of(t, r, c)
	if len(list) != 1 {
		t.Fatalf("there are %d %s", len(list), r.plural)
	}
	return list[0]
}

// merge changes an object, as kubectl does.
func (w *harness) merge(t *testing.T, at string, change obj) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var now obj
	if err := w.admin.Do(ctx, http.MethodPatch, at+"?fieldManager=kubectl", "application/merge-patch+json", change, &now); err != nil {
		t.Fatal(err)
	}
}

func group(key string, workers int) driver.Group {
	return driver.Group{Key: key, Workers: workers, Vars: map[string]string{"WORKER_KEY": key, "WORKER_POOL": "p", queueVariable: "p-req-" + key}}
}

func ensure(t *testing.T, d driver.Driver, g driver.Group) {
	t.Helper()
	if err := d.Ensure(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

func drain(t *testing.T, d driver.Driver, key string) {
	t.Helper()
	if err := d.Drain(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, d driver.Driver) []driver.Worker {
	t.Helper()
	var workers []driver.Worker
	var err error
	eventually(t, "the API server answers within the timeout of a call", func() bool {
		workers, err = d.List(t.Context())
		return !errors.Is(err, context.DeadlineExceeded)
	})
	if err != nil {
		t.Fatal(err)
	}
	return workers
}

// until waits until the list of a driver matches a condition, and returns the list.
func until(t *testing.T, d driver.Driver, what string, holds func(workers []driver.Worker) bool) []driver.Worker {
	t.Helper()
	var last []driver.Worker
	defer func() {
		if t.Failed() {
			t.Logf("the list is %+v", last)
		}
	}()
	eventually(t, what, func() bool { last = list(t, d); return holds(last) })
	return last
}

// run returns a condition: so many pods of a key run, and so many drain.
func run(key string, running, draining int) func([]driver.Worker) bool {
	return func(workers []driver.Worker) bool {
		r, d := 0, 0
		for _, w := range workers {
			switch {
			case w.Key != key:
			case w.State == driver.Draining:
				d++
			case w.State == driver.Running && w.Starts > 0:
				r++
			default:
				return false
			}
		}
		return r == running && d == draining
	}
}

func none(workers []driver.Worker) bool { return len(workers) == 0 }

// worker returns the container of the worker in a template.
func worker(template map[string]any) map[string]any {
	return template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// sleeper returns the template of a worker that ends when asked to.
func sleeper() map[string]any {
	t := template()
	worker(t)["command"] = []any{"sleep", "1000"}
	return t
}

// variable returns a variable of a pod's worker.
func variable(o obj, name string) obj {
	for _, v := range anys(worker(o)["env"]) {
		if asObj(v)["name"] == name {
			return asObj(v)
		}
	}
	return nil
}

func TestFakeSelects(t *testing.T) {
	if !selects("a=b,c=d", obj{"metadata": obj{"labels": obj{"a": "b", "c": "d"}}}) || selects("a=b,c=d", obj{"metadata": obj{"labels": obj{"a": "b"}}}) {
		t.Error("selectors do not select")
	}
	if strings.Contains(expand("$$(A)"), "$$") {
		t.Error("variables are not expanded")
	}
}
