package identity

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	spiffev1 "github.com/rousehq/rouse/api/spiffe/v1"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/poll"
)

func TestWorkloadAPI(t *testing.T) {
	ca := identitytest.NewCA(t)
	agent := identitytest.StartAgent(t)
	i, err := FromWorkload(Workload{Address: agent.Address, App: "dapr-scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, i)
	addr := serve(t, i.Credentials())
	orders := of(t, ca, appID, time.Hour)
	if i.Healthy() == nil || call(t, addr, orders.Dialer(anyServer), "shop", "orders") == nil {
		t.Error("it serves without a certificate")
	}
	agent.Give(ca.SVID("spiffe://cluster.local/ns/dapr-system/other"), ca.SVID(schedulerID))
	<-i.Ready()
	right := orders.Dialer(Only(ID{"cluster.local", "dapr-system", "dapr-scheduler"}))
	if err := call(t, addr, right, "shop", "orders"); err != nil {
		t.Error(err)
	}

	// Updates are applied, including trust anchors; invalid ones are not.
	other := identitytest.NewCA(t)
	before := i.now.Load()
	agent.Give(other.SVID("https://cluster.local/ns/dapr-system/dapr-scheduler"))
	agent.Give(other.SVID(schedulerID))
	poll.Until(t, "there is another certificate", func() bool { return i.now.Load() != before })
	elsewhere := of(t, other, appID, time.Hour)
	if err := call(t, addr, elsewhere.Dialer(anyServer), "shop", "orders"); err != nil {
		t.Error(err)
	}
	if err := call(t, addr, orders.Dialer(anyServer), "shop", "orders"); err == nil {
		t.Error("the trust anchors of before are believed")
	}
}

func TestWorkloadAPIThatIsNotBelieved(t *testing.T) {
	ca, other := identitytest.NewCA(t), identitytest.NewCA(t)
	w := Workload{App: "dapr-scheduler"}
	good := func() *spiffev1.X509SVID { return ca.SVID(schedulerID) }
	if _, err := w.parseUpdate([]*spiffev1.X509SVID{good()}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *spiffev1.X509SVID){
		"no certificate":     func(s *spiffev1.X509SVID) { s.X509Svid = nil },
		"broken certificate": func(s *spiffev1.X509SVID) { s.X509Svid = s.X509Svid[1:] },
		"broken key":         func(s *spiffev1.X509SVID) { s.X509SvidKey = s.X509SvidKey[1:] },
		"a key that signs not": func(s *spiffev1.X509SVID) {
			key, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err == nil {
				s.X509SvidKey, err = x509.MarshalPKCS8PrivateKey(key)
			}
			if err != nil {
				t.Error(err)
			}
		},
		"broken trust anchors": func(s *spiffev1.X509SVID) { s.Bundle = s.Bundle[1:] },
		"key of another":       func(s *spiffev1.X509SVID) { s.X509SvidKey = good().X509SvidKey },
		"no trust anchors":     func(s *spiffev1.X509SVID) { s.Bundle = nil },
		"other trust anchors":  func(s *spiffev1.X509SVID) { s.Bundle = other.SVID(schedulerID).Bundle },
	} {
		s := good()
		spoil(s)
		if _, err := w.parseUpdate([]*spiffev1.X509SVID{s}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := w.parseUpdate(nil); err == nil {
		t.Error("nothing is taken for a certificate")
	}
	for _, address := range []string{"", "/run/agent.sock", "unix:", "unix:///", "tcp://", "http://x"} {
		if _, err := FromWorkload(Workload{Address: address}); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}
