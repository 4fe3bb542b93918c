//go:build unix

package servers

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
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// KubernetesAdmin is the token of a user who may do everything.
const KubernetesAdmin = "admin-token"

// Kubernetes is an API server with its etcd, without the rest of a cluster.
type Kubernetes struct {
	URL string

	dir, etcd string
	api       *Program
	client    *http.Client
}

// StartKubernetes starts an API server that knows users by their tokens. Test runs do not build such large
// programs: ROUSE_KUBE_APISERVER and ROUSE_ETCD are their paths, and make test-kubernetes builds them.
// Without them the test is skipped.
func StartKubernetes(t testing.TB, users map[string]string) *Kubernetes {
	t.Helper()
	for _, name := range []string{"ROUSE_KUBE_APISERVER", "ROUSE_ETCD"} {
		if _, err := exec.LookPath(os.Getenv(name)); err != nil {
			t.Skipf("%s names no program: make test-kubernetes builds it", name)
		}
	}
	k := &Kubernetes{dir: t.TempDir(), etcd: "http://" + unusedAddress(t), URL: "https://" + unusedAddress(t),
		client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}}
	peer := "http://" + unusedAddress(t)
	StartProgram(t, os.Getenv("ROUSE_ETCD"), "--name=a", "--data-dir="+k.pathInDir("etcd"), "--listen-client-urls="+k.etcd,
		"--advertise-client-urls="+k.etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=a="+peer, "--unsafe-no-fsync")
	lines := KubernetesAdmin + `,admin,1,"system:masters"` + "\n"
	for token, user := range users {
		lines += fmt.Sprintf("%s,%s,%s\n", token, user, user)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for name, body := range map[string][]byte{"users": []byte(lines), "key": text} {
		if err := os.WriteFile(k.pathInDir(name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.StartAPI(t)
	return k
}

// unusedAddress returns an address without a listener.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (k *Kubernetes) pathInDir(name string) string { return filepath.Join(k.dir, name) }

// StartAPI starts the API server again, and returns when it answers.
func (k *Kubernetes) StartAPI(t testing.TB) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(k.URL, "https://"), ":")
	k.api = StartProgram(t, os.Getenv("ROUSE_KUBE_APISERVER"), "--etcd-servers="+k.etcd, "--bind-address=127.0.0.1",
		"--secure-port="+port,
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+k.pathInDir("certs"),
		"--token-auth-file="+k.pathInDir("users"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://rouse.test", "--service-account-key-file="+k.pathInDir("key"),
		"--service-account-signing-key-file="+k.pathInDir("key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")
	// The rights of the administrator and the namespace exist a moment after the start of the server.
	k.retryUntilOK(t, "the API server answers", func() (int, []byte,
		error) {
		return k.Call(t, http.MethodGet, "/api/v1/namespaces/default", "", "")
	})
}

// retryUntilOK calls do until it succeeds.
func (k *Kubernetes) retryUntilOK(t testing.TB, what string, do func() (status int, answer []byte, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := pollUntilNil(ctx, func(context.Context) error {
		status, answer, err := do()
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// EndAPI kills the API server.
func (k *Kubernetes) EndAPI() error { return k.api.End() }

// StartControllers starts controllers, given by their names with commas between. The program is
// ROUSE_KUBE_CONTROLLERS; without it the test is skipped.
func (k *Kubernetes) StartControllers(t testing.TB, names string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(os.Getenv("ROUSE_KUBE_CONTROLLERS")); err != nil {
		t.Skip("ROUSE_KUBE_CONTROLLERS names no program: make test-kubernetes builds it")
	}
	StartProgram(t, os.Getenv("ROUSE_KUBE_CONTROLLERS"),
		append([]string{"--kubeconfig=" + k.Kubeconfig(t, KubernetesAdmin, "default"), "--leader-elect=false",
			"--secure-port=0", "--cert-dir=" + k.pathInDir("certs"), "--controllers=" + names}, args...)...)
}

// Call makes a request as the administrator.
func (k *Kubernetes) Call(t testing.TB, method, path, contentType, body string) (status int, answer []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, k.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+KubernetesAdmin)
	if contentType == "" {
		contentType = "application/json"
	}
	r.Header.Set("Content-Type", contentType)
	res, err := k.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 16<<20))
	return res.StatusCode, answer, err
}

// Apply creates or changes an object, which is given as YAML. Unknown fields are refused.
func (k *Kubernetes) Apply(t testing.TB, path, text string) {
	t.Helper()
	k.retryUntilOK(t, path+" is made", func() (int, []byte, error) {
		return k.Call(t, http.MethodPatch, path+"?fieldManager=test&force=true&fieldValidation=Strict",
			"application/apply-patch+yaml", text)
	})
}

// Kubeconfig writes a file with the credentials of a user.
func (k *Kubernetes) Kubeconfig(t testing.TB, token, namespace string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":%q}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":%q}}]}`, namespace, k.URL, token)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Helm runs Helm on the API server, as the administrator. The program is ROUSE_HELM; without it the test is
// skipped.
func (k *Kubernetes) Helm(t testing.TB, args ...string) {
	t.Helper()
	helm := os.Getenv("ROUSE_HELM")
	if _, err := exec.LookPath(helm); err != nil {
		t.Skip("ROUSE_HELM names no program: make test-kubernetes builds it")
	}
	cmd := exec.CommandContext(t.Context(), helm, append(args, "--kube-apiserver", k.URL, "--kube-token", KubernetesAdmin,
		"--kube-insecure-skip-tls-verify")...)
	cmd.Env = append(os.Environ(), "HELM_DRIVER=secret", "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
}

// AccountToken returns a token of a service account.
func (k *Kubernetes) AccountToken(t testing.TB, namespace, name string) string {
	t.Helper()
	var token struct{ Status struct{ Token string } }
	status, answer, err := k.Call(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token",
		"",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)
	if err == nil {
		err = json.Unmarshal(answer, &token)
	}
	if err != nil || status != http.StatusCreated {
		t.Fatalf("a token of the service account %s/%s: %d, %v\n%s", namespace, name, status, err, answer)
	}
	return token.Status.Token
}
