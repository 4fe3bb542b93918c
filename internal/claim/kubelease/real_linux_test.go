package kubelease

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/test/servers"
)

// TestWithAKubernetes elects leaders by a lease of a real API server, with exactly the rights that
// docs/operations.md lists. Candidates take over from one that ends and from one that is cut off, and outlive
// an unavailable API server.
//
// Each run of the tests cannot build such large programs: ROUSE_KUBE_APISERVER and ROUSE_ETCD are their
// paths.
func TestWithAKubernetes(t *testing.T) {
	k := startKubernetes(t)
	config := kubeconfig(t, k.url, nodeToken)

	// Without the rights it reports an error, and retries.
	a := run(t, config, "a#1")
	eventually(t, "a is refused", func() bool { return a.Err() != nil && strings.Contains(a.Err().Error(), "forbidden") })
	if a.Leads() {
		t.Error("it leads without rights")
	}
	k.grant(t)
	eventually(t, "a leads", a.Leads)
	if got := k.lease(t); got.Spec.HolderIdentity != "a#1" || got.Spec.LeaseDurationSeconds != 3 {
		t.Errorf("the lease is %+v", got)
	}
	b, c := run(t, config, "b#1"), run(t, config, "c#1")
	eventually(t, "b and c know of a", func() bool { return b.Holder() == "a#1" && c.Holder() == "a#1" })

	// A candidate that ends releases the lease.
	a.stop()
	if got := k.lease(t).Spec.HolderIdentity; got == "a#1" {
		t.Error("a has not given the lease back")
	}
	eventually(t, "b or c leads", func() bool { return b.Leads() || c.Leads() })
	if b.Leads() && c.Leads() {
		t.Error("two lead")
	}

	// While the API server is unavailable no candidate leads; afterwards one does.
	if err := k.api.End(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is no leader", func() bool { return !b.Leads() && !c.Leads() })
	k.startAPI(t)
	eventually(t, "one leads again", func() bool { return b.Leads() != c.Leads() })

	// The lease of a candidate that hangs expires, and another one leads.
	var leader, other = b, c
	if c.Leads() {
		leader, other = c, b
	}
	proxy := servers.NewProxy(t, strings.TrimPrefix(k.url, "https://"))
	other.stop()
	d := run(t, kubeconfig(t, proxy.URL(k.url), nodeToken), "d#1")
	eventually(t, "d knows who leads", func() bool { return d.Holder() != "" })
	leader.stop()
	eventually(t, "d leads", d.Leads)
	proxy.CutToServer()
	e := run(t, config, "e#1")
	both := false
	eventually(t, "e leads", func() bool {
		leads := e.Leads() // read first: d must have stopped leading before
		both = both || leads && d.Leads()
		return leads
	})
	if both || d.Leads() {
		t.Error("two lead")
	}
	proxy.Heal()
	eventually(t, "d knows of e", func() bool { return d.Holder() == "e#1" })
}

// Tokens of the users of the API server: one is an admin, the other has only what it is granted.
const (
	adminToken = "admin-token"
	nodeToken  = "node-token"
)

// kubernetes is an API server with its etcd, without the rest of a cluster.
type kubernetes struct {
	url    string
	dir    string
	etcd   string
	api    *servers.Program
	client *http.Client
}

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	for _, name := range []string{"ROUSE_KUBE_APISERVER", "ROUSE_ETCD"} {
		if _, err := exec.LookPath(os.Getenv(name)); err != nil {
			t.Skipf("%s names no program: tools/kube has it, with the steps to build it", name)
		}
	}
	k := &kubernetes{dir: t.TempDir(), client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}}
	k.etcd = "http://" + nowhere(t)
	peer := "http://" + nowhere(t)
	servers.StartProgram(t, os.Getenv("ROUSE_ETCD"), "--name=a", "--data-dir="+filepath.Join(k.dir, "etcd"), "--listen-client-urls="+k.etcd, "--advertise-client-urls="+k.etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=a="+peer, "--unsafe-no-fsync")
	k.url = "https://" + nowhere(t)
	k.writeFiles(t)
	k.startAPI(t)
	return k
}

// writeFiles writes the users and the key of service accounts, which an API server needs to start.
func (k *kubernetes) writeFiles(t *testing.T) {
	t.Helper()
	users := adminToken + `,admin,1,"system:masters"` + "\n" + nodeToken + ",node,2\n"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for name, body := range map[string][]byte{"users": []byte(users), "key": text} {
		if err := os.WriteFile(filepath.Join(k.dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startAPI starts the API server and waits until it responds.
func (k *kubernetes) startAPI(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(k.url, "https://"), ":")
	in := func(name string) string { return filepath.Join(k.dir, name) }
	k.api = servers.StartProgram(t, os.Getenv("ROUSE_KUBE_APISERVER"), "--etcd-servers="+k.etcd, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+in("certs"), "--token-auth-file="+in("users"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://rouse.test", "--service-account-key-file="+in("key"), "--service-account-signing-key-file="+in("key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")
	// The admin's rights and the namespace exist a moment after the server started.
	eventually(t, "the API server", func() bool {
		status, _, err := k.call(t, http.MethodGet, "/api/v1/namespaces/default", "")
		return err == nil && status == http.StatusOK
	})
}

// call sends a request to the API server as the admin.
func (k *kubernetes) call(t *testing.T, method, path, body string) (status int, answer []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, k.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	res, err := k.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, answer, err
}

// grant gives the nodes their rights.
func (k *kubernetes) grant(t *testing.T) {
	t.Helper()
	const base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	for path, body := range map[string]string{
		"roles": `{"metadata":{"name":"rouse"},"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get","create","update"]}]}`,
		"rolebindings": `{"metadata":{"name":"rouse"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"rouse"},
			"subjects":[{"kind":"User","name":"node","apiGroup":"rbac.authorization.k8s.io"}]}`,
	} {
		if status, answer, err := k.call(t, http.MethodPost, base+path, body); err != nil || status != http.StatusCreated {
			t.Fatalf("%s: %d, %v\n%s", path, status, err, answer)
		}
	}
}

type realLease struct {
	Spec struct {
		HolderIdentity       string
		LeaseDurationSeconds int
	}
}

func (k *kubernetes) lease(t *testing.T) (l realLease) {
	t.Helper()
	status, answer, err := k.call(t, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases/rouse", "")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(answer, &l)
	}
	if err != nil || status != http.StatusOK {
		t.Fatal(fmt.Errorf("the lease: %d, %w\n%s", status, err, answer))
	}
	return l
}
