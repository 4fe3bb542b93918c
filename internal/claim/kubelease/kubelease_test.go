package kubelease

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/poll"
)

// TestMain checks that a finished elector leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneLeadsAndGivesWay(t *testing.T) {
	server := newLeases(t)
	config := kubeconfig(t, server.url, "")
	a := run(t, config, "a#1")
	eventually(t, "a leads", a.Leads)
	b := run(t, config, "b#1")
	eventually(t, "b knows of a", func() bool { return b.Holder() == "a#1" })
	if b.Leads() || a.Holder() != "a#1" {
		t.Errorf("b leads: %v; a reports %q", b.Leads(), a.Holder())
	}
	a.stop()
	if a.Leads() || a.Holder() == "a#1" {
		t.Error("a leads after its end")
	}
	server.mu.Lock()
	holder := server.lease.holderName()
	server.mu.Unlock()
	if holder == "a#1" {
		t.Error("a has not given the lease back")
	}
	eventually(t, "b leads", b.Leads)
	if got := b.heard(); got != "a#1,,b#1" && got != "a#1,b#1" {
		t.Errorf("b heard of %s", got)
	}
	b.stop()
	for _, c := range []*candidate{a, b} {
		if errs := c.failures(); len(errs) > 0 {
			t.Errorf("%v", errs)
		}
	}
}

// A leader that cannot renew stops leading before another can begin. It retries, and may lead again.
func TestALeaderThatIsCutOff(t *testing.T) {
	server := newLeases(t)
	url, cut := server.proxyTo(t)
	a := run(t, kubeconfig(t, url, ""), "a")
	eventually(t, "a leads", a.Leads)
	b := run(t, kubeconfig(t, server.url, ""), "b")
	cut(true)
	both := false
	eventually(t, "b takes over", func() bool {
		leads := b.Leads() // read first: a must have stopped leading before
		both = both || leads && a.Leads()
		return leads
	})
	if both || a.Leads() {
		t.Error("two lead")
	}
	eventually(t, "a reports why", func() bool { return len(a.failures()) > 0 && a.Err() != nil })
	if a.Holder() != "" {
		t.Errorf("a thinks that %s leads", a.Holder())
	}
	cut(false)
	eventually(t, "a hears of b", func() bool { return a.Holder() == "b" && a.Err() == nil })
	b.stop()
	eventually(t, "a leads again", a.Leads)
}

// A node far from the API server leads: a read and a write that take almost as long as a request may, each.
func TestASlowServer(t *testing.T) {
	server := newLeases(t)
	o := Options{TTL: leastTTL}
	a := run(t, kubeconfig(t, server.slowly(t, o.requestTimeout()*2/3, o.requestTimeout()*2/3), ""), "a")
	eventually(t, "a leads", a.Leads)
	if errs := a.failures(); len(errs) > 0 {
		t.Errorf("%v", errs)
	}
}

// A node whose writes are not answered in time writes the lease, and does not know it: another one leads once
// it has ended.
func TestALeaseIsHeldByANodeThatKnowsIt(t *testing.T) {
	if !poll.Long {
		t.Skip("it takes some leases; ROUSE_LONG=1 runs it")
	}
	server := newLeases(t)
	o := Options{TTL: leastTTL}
	run(t, kubeconfig(t, server.slowly(t, 0, o.requestTimeout()*3/2), ""), "far")
	holder := func() string {
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.lease == nil {
			return ""
		}
		return server.lease.holderName()
	}
	eventually(t, "the far node has the lease", func() bool { return holder() == "far" })
	near := run(t, kubeconfig(t, server.url, ""), "near")
	eventually(t, "the near one leads", near.Leads)
}

// The API server becomes available only after longer than the lease lasts: the elector still runs.
func TestAServerThatComesLate(t *testing.T) {
	server := newLeases(t)
	server.set(true, 0)
	a := run(t, kubeconfig(t, server.url, ""), "a")
	eventually(t, "some tries", func() bool { return len(a.failures()) >= 3 })
	if a.Leads() || a.Holder() != "" {
		t.Error("it leads without a server")
	}
	server.set(false, http.StatusForbidden)
	eventually(t, "a refusal", func() bool { err := a.Err(); return err != nil && strings.Contains(err.Error(), "Forbidden") })
	if err := a.Err(); !strings.Contains(err.Error(), "the lease default/rouse of Kubernetes") {
		t.Errorf("%v", err)
	}
	server.set(false, 0)
	eventually(t, "it leads", a.Leads)
}

// Shutdown does not wait for a server that does not respond.
func TestTheEndIsBounded(t *testing.T) {
	server := newLeases(t)
	a := run(t, kubeconfig(t, server.url, ""), "a")
	eventually(t, "a leads", a.Leads)
	server.mu.Lock() // blocks every response
	begun := time.Now()
	a.stop()
	took := time.Since(begun)
	server.mu.Unlock()
	if took > release+patience/2 {
		t.Errorf("it took %v", took)
	}
	if a.Leads() {
		t.Error("it leads after its end")
	}
}

func TestPausesGrowToABound(t *testing.T) {
	for _, ttl := range []time.Duration{leastTTL, 15 * time.Second, 10 * time.Minute} {
		o, before := Options{TTL: ttl}, time.Duration(0)
		for fails := range 100 {
			d := o.pauseAfter(fails)
			if d <= before && d != maxPause || d > maxPause {
				t.Errorf("lease of %v: %v after %d failures, %v before", ttl, d, fails, before)
			}
			before = d
		}
		if before != maxPause {
			t.Errorf("lease of %v: %v at the end", ttl, before)
		}
	}
}

func TestWhatCannotBe(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"run in a pod with a service account": {Namespace: "default", Name: "rouse", Identity: "a"},
		"no such file":                        {Namespace: "default", Name: "rouse", Identity: "a", Kubeconfig: "/nowhere/kubeconfig"},
		`kubeconfig "` + empty:                {Namespace: "default", Name: "rouse", Identity: "a", Kubeconfig: empty},
		"identity":                            {Namespace: "default", Name: "rouse"},
		`"Default" is no namespace`:           {Namespace: "Default", Name: "rouse", Identity: "a"},
		`"a_b" is no name of a lease`:         {Namespace: "default", Name: "a_b", Identity: "a"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, _, err := Split("rouse"); err == nil {
		t.Error("a name without a namespace passes")
	}
	if ns, name, err := Split("apps/rouse.leader"); ns != "apps" || name != "rouse.leader" || err != nil {
		t.Errorf("%q %q %v", ns, name, err)
	}
}

// TestForm checks how a lease is written, as the API server reads times with exactly six digits after the
// point.
func TestForm(t *testing.T) {
	l := newLease("default", "rouse")
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = "a", 15, &microTime{time.Unix(0, 1_500_000_000).In(time.FixedZone("", 3600))}
	text, err := json.Marshal(l)
	const want = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"default","name":"rouse"},` +
		`"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"1970-01-01T00:00:01.500000Z","leaseTransitions":0}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
