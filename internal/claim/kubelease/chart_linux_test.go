package kubelease

import (
	"net/http"
	"strings"
	"testing"
)

// TestTheChartInKubernetes installs the chart by Helm on a real API server, which accepts all its objects;
// the service account elects a leader with the rights that the chart gives it. Nothing is left after
// uninstalling.
func TestTheChartInKubernetes(t *testing.T) {
	k := startKubernetes(t)
	const chart = "../../../packaging/helm/rouse"
	values := []string{"--namespace", "default", "--set", "image.repository=registry.example/rouse,store.secret=store,replicas=3,tls.secret=tls,adminKey.secret=admin,sealingKeys.secret=sealing"}
	k.Helm(t, append([]string{"install", "rouse", chart}, values...)...)
	k.Helm(t, append([]string{"upgrade", "rouse", chart, "--set", "grace=30"}, values...)...)
	for _, path := range []string{"/apis/apps/v1/namespaces/default/deployments/rouse", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/rouse",
		"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/rouse"} {
		if status, answer, err := k.Call(t, http.MethodGet, path, "", ""); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v\n%s", path, status, err, answer)
		}
	}
	a := run(t, k.Kubeconfig(t, k.AccountToken(t, "default", "rouse"), "default"), "a")
	eventually(t, "the service account leads", a.Leads)
	a.stop()
	k.Helm(t, "uninstall", "rouse", "--namespace", "default")
	if _, answer, err := k.Call(t, http.MethodGet, "/apis/apps/v1/namespaces/default/deployments", "", ""); err != nil || strings.Contains(string(answer), `"rouse"`) {
		t.Errorf("after uninstalling: %v\n%s", err, answer)
	}
}
