package kubelease

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheChartInKubernetes installs the chart by Helm on a real API server, which accepts all its objects;
// the service account elects a leader with the rights that the chart gives it. Nothing is left after
// uninstalling. ROUSE_HELM is the path of Helm.
func TestTheChartInKubernetes(t *testing.T) {
	if _, err := exec.LookPath(os.Getenv("ROUSE_HELM")); err != nil {
		t.Skip("ROUSE_HELM names no program: make test-kubernetes builds it")
	}
	k := startKubernetes(t)
	helm := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Getenv("ROUSE_HELM"), append(args, "--kube-apiserver", k.url, "--kube-token", adminToken,
			"--kube-insecure-skip-tls-verify", "--namespace", "default")...)
		cmd.Env = append(os.Environ(), "HELM_DRIVER=secret", "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	const chart = "../../../packaging/helm/rouse"
	values := []string{"--set", "image.repository=registry.example/rouse,store.secret=store,replicas=3,tls.secret=tls,adminKey.secret=admin,sealingKeys.secret=sealing"}
	helm(append([]string{"install", "rouse", chart}, values...)...)
	helm(append([]string{"upgrade", "rouse", chart, "--set", "grace=30"}, values...)...)
	for _, path := range []string{"/apis/apps/v1/namespaces/default/deployments/rouse", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/rouse",
		"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/rouse"} {
		if status, answer, err := k.call(t, http.MethodGet, path, ""); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v\n%s", path, status, err, answer)
		}
	}
	var token struct{ Status struct{ Token string } }
	status, answer, err := k.call(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/rouse/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)
	if err == nil {
		err = json.Unmarshal(answer, &token)
	}
	if err != nil || status != http.StatusCreated {
		t.Fatalf("a token of the service account: %d, %v\n%s", status, err, answer)
	}
	a := run(t, kubeconfig(t, k.url, token.Status.Token), "a")
	eventually(t, "the service account leads", a.Leads)
	a.stop()
	helm("uninstall", "rouse")
	if _, answer, err = k.call(t, http.MethodGet, "/apis/apps/v1/namespaces/default/deployments", ""); err != nil || strings.Contains(string(answer), `"rouse"`) {
		t.Errorf("after uninstalling: %v\n%s", err, answer)
	}
}
