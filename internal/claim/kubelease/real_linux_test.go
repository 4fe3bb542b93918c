package kubelease

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rousehq/rouse/test/servers"
)

// TestWithAKubernetes elects leaders by a lease of a real API server, with exactly the rights that
// docs/operations.md lists. Candidates take over from one that ends and from one that is cut off, and outlive
// an unavailable API server.
func TestWithAKubernetes(t *testing.T) {
	k := startKubernetes(t)
	config := k.Kubeconfig(t, nodeToken, "default")

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
	if err := k.EndAPI(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is no leader", func() bool { return !b.Leads() && !c.Leads() })
	k.StartAPI(t)
	eventually(t, "one leads again", func() bool { return b.Leads() != c.Leads() })

	// The lease of a candidate that hangs expires, and another one leads.
	var leader, other = b, c
	if c.Leads() {
		leader, other = c, b
	}
	proxy := servers.NewProxy(t, strings.TrimPrefix(k.URL, "https://"))
	other.stop()
	d := run(t, kubeconfig(t, proxy.URL(k.URL), nodeToken), "d#1")
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

// nodeToken is that of a user who has only what it is granted.
const nodeToken = "node-token"

type kubernetes struct{ *servers.Kubernetes }

func startKubernetes(t *testing.T) kubernetes {
	t.Helper()
	return kubernetes{servers.StartKubernetes(t, map[string]string{nodeToken: "node"})}
}

// grant gives the nodes their rights.
func (k kubernetes) grant(t *testing.T) {
	t.Helper()
	const base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	for path, body := range map[string]string{
		"roles": `{"metadata":{"name":"rouse"},"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get","create","update"]}]}`,
		"rolebindings": `{"metadata":{"name":"rouse"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"rouse"},
			"subjects":[{"kind":"User","name":"node","apiGroup":"rbac.authorization.k8s.io"}]}`,
	} {
		if status, answer, err := k.Call(t, http.MethodPost, base+path, "", body); err != nil || status != http.StatusCreated {
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

func (k kubernetes) lease(t *testing.T) (l realLease) {
	t.Helper()
	status, answer, err := k.Call(t, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases/rouse", "", "")
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(answer, &l)
	}
	if err != nil || status != http.StatusOK {
		t.Fatal(fmt.Errorf("the lease: %d, %w\n%s", status, err, answer))
	}
	return l
}
