package kubernetes

import (
	_ "embed"
	"net/http"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/test/servers"
)

// TestWithAKubernetes runs the contract and all scenarios with a real Kubernetes without machines: API
// server, etcd, and the controllers of Deployments, StatefulSets, HorizontalPodAutoscalers and garbage
// collection; a kubelet of this test runs the pods. The driver has exactly the rights listed in
// docs/pools.md. Only KEDA's definition of the ScaledObject is installed: objects are validated and stored,
// but not acted on.
func TestWithAKubernetes(t *testing.T) {
	k := startKubernetes(t)
	w := &harness{kubeconfig: k.Kubeconfig(t, driverToken, "workers")}
	w.connect(t, k.adminConfig)

	// Without the rights each call reports that; with them it succeeds.
	d := newDriver(t, w.config())
	if _, err := d.List(t.Context()); err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), "docs/pools.md") {
		t.Errorf("a list without rights: %v", err)
	}
	if err := d.Ensure(t.Context(), group("k", 1)); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a call without rights: %v", err)
	}
	k.grant(t)
	eventually(t, "it may list", func() bool { _, err := d.List(t.Context()); return err == nil })

	startKubelet(t, k.adminConfig, "workers")
	t.Run(Deployment, func(t *testing.T) { holdToContract(t, w.kubeconfig, Deployment, notOfPods) })
	t.Run(StatefulSet, func(t *testing.T) { holdToContract(t, w.kubeconfig, StatefulSet, notOfSets) })
	runScenarios(t, w)
	t.Run("HPA", func(t *testing.T) { minimumHolds(t, w) })
	t.Run("Refused", func(t *testing.T) { refusalIsTold(t, w) })
	t.Run("Away", func(t *testing.T) { k.away(t, w) })
}

// minimumHolds checks that an autoscaler controls the number of workers, and that a rollout keeps it.
func minimumHolds(t *testing.T, w *harness) {
	c := w.config()
	c.Scaling.HPA = &HPA{Min: 2, Max: 5}
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	old := until(t, d, "the autoscaler has made it two", run("k", 2, 0))
	worker(c.Template)["args"] = []any{"1"}
	d = newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "two others run", func(workers []driver.Worker) bool { return run("k", 2, 0)(workers) && !sameIDs(workers, old) })
	drain(t, d, "k")
	until(t, d, "they are gone", none)
}

// refusalIsTold checks that a workload whose pods are refused is listed with the reason.
func refusalIsTold(t *testing.T, w *harness) {
	c := w.config()
	c.Template["spec"].(map[string]any)["hostNetwork"] = true // not allowed by the namespace
	d := newDriver(t, c)
	ensure(t, d, group("k", 2))
	until(t, d, "the reason why there are no pods", func(workers []driver.Worker) bool {
		return len(workers) == 2 && workers[0].State == driver.Waiting && strings.Contains(workers[0].LastExit, "host namespaces")
	})
	drain(t, d, "k")
	until(t, d, "they are gone", none)
}

// away checks that calls fail while the API server is unavailable, and that the driver reconnects.
func (k *kubernetes) away(t *testing.T, w *harness) {
	c := w.config()
	d := newDriver(t, c)
	ensure(t, d, group("k", 1))
	until(t, d, "it runs", run("k", 1, 0))
	if err := k.EndAPI(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "lists fail", func() bool { _, err := d.List(t.Context()); return err != nil })
	if err := d.Ensure(t.Context(), group("k", 2)); err == nil {
		t.Error("an object was created without an API server")
	}
	k.StartAPI(t)
	eventually(t, "lists succeed", func() bool { _, err := d.List(t.Context()); return err == nil })
	ensure(t, d, group("k", 2))
	until(t, d, "two run", run("k", 2, 0))
	drain(t, d, "k")
	until(t, d, "they are gone", none)
}

// driverToken is that of the driver, who has only what it is granted.
const driverToken = "driver-token"

//go:embed testdata/scaledobjects.yaml
var scaledObjects string

//go:embed testdata/rights.yaml
var rights string

// kubernetes is an API server, its etcd, and controllers.
type kubernetes struct {
	*servers.Kubernetes
	adminConfig string
}

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	k := &kubernetes{Kubernetes: servers.StartKubernetes(t, map[string]string{driverToken: "driver"})}
	k.adminConfig = k.Kubeconfig(t, servers.KubernetesAdmin, "workers")
	k.Apply(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh", scaledObjects)
	k.Apply(t, "/api/v1/namespaces/workers", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"workers","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)
	k.Apply(t, "/api/v1/nodes/"+nodeName, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+nodeName+`"}}`)
	eventually(t, "the API server knows ScaledObjects", func() bool {
		status, _, err := k.Call(t, http.MethodGet, "/apis/keda.sh/v1alpha1/namespaces/workers/scaledobjects", "", "")
		return err == nil && status == http.StatusOK
	})
	k.StartControllers(t, "deployment-controller,replicaset-controller,statefulset-controller,garbage-collector-controller,horizontal-pod-autoscaler-controller",
		"--horizontal-pod-autoscaler-sync-period=1s")
	return k
}

// grant grants the driver the documented rights.
func (k *kubernetes) grant(t *testing.T) {
	t.Helper()
	const base = "/apis/rbac.authorization.k8s.io/v1/namespaces/workers/"
	k.Apply(t, base+"roles/rouse", rights)
	k.Apply(t, base+"rolebindings/rouse", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"rouse"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"rouse"},"subjects":[{"kind":"User","name":"driver","apiGroup":"rbac.authorization.k8s.io"}]}`)
}
