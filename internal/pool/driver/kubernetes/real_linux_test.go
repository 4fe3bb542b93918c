package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/test/servers"
)

// TestWithAKubernetes runs the contract and all scenarios with a real Kubernetes without machines: API
// server, etcd, and the controllers of Deployments, StatefulSets, HorizontalPodAutoscalers and garbage
// collection; a kubelet of this test runs the pods. The driver has exactly the rights listed in
// docs/pools.md. Only KEDA's definition of the ScaledObject is installed: objects are validated and stored,
// but not acted on.
//
// The programs are too large to be built by each test run: "make test-kubernetes" builds them, and
// ROUSE_KUBE_APISERVER, ROUSE_KUBE_CONTROLLERS and ROUSE_ETCD contain their paths.
func TestWithAKubernetes(t *testing.T) {
	k := startKubernetes(t)
	w := &harness{kubeconfig: kubeconfig(t, k.url, driverToken)}
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
	if err := k.server.End(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "lists fail", func() bool { _, err := d.List(t.Context()); return err != nil })
	if err := d.Ensure(t.Context(), group("k", 2)); err == nil {
		t.Error("an object was created without an API server")
	}
	k.startServer(t)
	eventually(t, "lists succeed", func() bool { _, err := d.List(t.Context()); return err == nil })
	ensure(t, d, group("k", 2))
	until(t, d, "two run", run("k", 2, 0))
	drain(t, d, "k")
	until(t, d, "they are gone", none)
}

// Tokens of the users of the API server: an administrator, and the driver with its granted rights.
const (
	adminToken  = "admin-token"
	driverToken = "driver-token"
)

//go:embed testdata/scaledobjects.yaml
var scaledObjects string

//go:embed testdata/rights.yaml
var rights string

// kubernetes is an API server, its etcd, and controllers.
type kubernetes struct {
	url         string
	dir         string
	etcd        string
	adminConfig string
	server      *servers.Program
}

// free returns an unused address.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	for _, name := range []string{"ROUSE_KUBE_APISERVER", "ROUSE_KUBE_CONTROLLERS", "ROUSE_ETCD"} {
		if _, err := exec.LookPath(os.Getenv(name)); err != nil {
			t.Skipf("%s names no program: make test-kubernetes builds it", name)
		}
	}
	k := &kubernetes{dir: t.TempDir(), etcd: "http://" + free(t), url: "https://" + free(t)}
	peer := "http://" + free(t)
	servers.StartProgram(t, os.Getenv("ROUSE_ETCD"), "--name=a", "--data-dir="+k.in("etcd"), "--listen-client-urls="+k.etcd, "--advertise-client-urls="+k.etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=a="+peer, "--unsafe-no-fsync")
	users := adminToken + `,admin,1,"system:masters"` + "\n" + driverToken + ",driver,2\n"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for name, body := range map[string][]byte{"users": []byte(users), "key": text} {
		if err := os.WriteFile(k.in(name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.adminConfig = kubeconfig(t, k.url, adminToken)
	k.startServer(t)
	k.apply(t, "apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh", scaledObjects)
	k.apply(t, "api/v1/namespaces/workers", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"workers","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)
	k.apply(t, "api/v1/nodes/"+nodeName, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+nodeName+`"}}`)
	eventually(t, "the API server knows ScaledObjects", func() bool {
		return k.call(t, http.MethodGet, "apis/keda.sh/v1alpha1/namespaces/workers/scaledobjects", "", "") == nil
	})
	servers.StartProgram(t, os.Getenv("ROUSE_KUBE_CONTROLLERS"), "--kubeconfig="+k.adminConfig, "--leader-elect=false", "--secure-port=0", "--cert-dir="+k.in("certs"),
		"--horizontal-pod-autoscaler-sync-period=1s",
		"--controllers=deployment-controller,replicaset-controller,statefulset-controller,garbage-collector-controller,horizontal-pod-autoscaler-controller")
	return k
}

func (k *kubernetes) in(name string) string { return filepath.Join(k.dir, name) }

// startServer starts the API server, and returns when it answers.
func (k *kubernetes) startServer(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(k.url, "https://"), ":")
	k.server = servers.StartProgram(t, os.Getenv("ROUSE_KUBE_APISERVER"), "--etcd-servers="+k.etcd, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+k.in("certs"), "--token-auth-file="+k.in("users"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://rouse.test", "--service-account-key-file="+k.in("key"), "--service-account-signing-key-file="+k.in("key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")
	// The rights of the administrator and the namespace exist a moment after the start of the server.
	eventually(t, "the API server", func() bool { return k.call(t, http.MethodGet, "api/v1/namespaces/default", "", "") == nil })
}

// call makes a request as the administrator.
func (k *kubernetes) call(t *testing.T, method, path, contentType, body string) error {
	t.Helper()
	a, err := connect(k.adminConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	var object, answer any
	if err := yaml.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	return a.Do(ctx, method, a.At(path)+"?"+query, contentType, object, &answer)
}

// apply creates an object from YAML.
func (k *kubernetes) apply(t *testing.T, path, text string) {
	t.Helper()
	eventually(t, path+" is made", func() bool {
		err := k.call(t, http.MethodPatch, path+"?fieldManager=test&fieldValidation=Strict", "application/apply-patch+yaml", text)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

// grant grants the driver the documented rights.
func (k *kubernetes) grant(t *testing.T) {
	t.Helper()
	const base = "apis/rbac.authorization.k8s.io/v1/namespaces/workers/"
	k.apply(t, base+"roles/rouse", rights)
	k.apply(t, base+"rolebindings/rouse", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"rouse"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"rouse"},"subjects":[{"kind":"User","name":"driver","apiGroup":"rbac.authorization.k8s.io"}]}`)
}
