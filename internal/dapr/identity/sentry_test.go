package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sentryv1 "github.com/rousehq/rouse/api/dapr/sentry/v1"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/poll"
)

var errAway = status.Error(codes.Unavailable, "away")

func sentryOf(ca *identitytest.CA, s *identitytest.Sentry) Sentry {
	return Sentry{Address: s.Addr, TrustAnchors: ca.AnchorsFile, Self: ID{"cluster.local", "dapr-system", "dapr-scheduler"}, Every: time.Millisecond}
}

func TestSentrySigns(t *testing.T) {
	ca := identitytest.NewCA(t)
	sentry := identitytest.StartSentry(t, ca, "spiffe://cluster.local/ns/dapr-system/dapr-sentry")
	sentry.Set(time.Hour, errAway, "")
	o := sentryOf(ca, sentry)
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(o.TokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := FromSentry(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, i)
	addr := serve(t, i.Credentials())
	orders := of(t, ca, appID, time.Hour)
	poll.Until(t, "Sentry was asked twice", func() bool { return len(sentry.Asked()) >= 2 })
	if i.Healthy() == nil || call(t, addr, orders.Dialer(anyServer), "shop", "orders") == nil {
		t.Error("it serves without a certificate")
	}
	sentry.Set(3*time.Second, nil, "")
	<-i.Ready()
	if err := call(t, addr, orders.Dialer(Only(o.Self)), "shop", "orders"); err != nil {
		t.Error(err)
	}
	if got := sentry.Asked()[0]; got.Id != "dapr-scheduler" || got.Namespace != "dapr-system" || got.TrustDomain != "cluster.local" ||
		got.Token != "secret" || got.TokenValidator != sentryv1.SignCertificateRequest_JWKS {
		t.Errorf("Sentry was asked %v", got)
	}

	// Before the certificate expires, it is replaced by one with another key.
	first := i.now.Load().cert
	sentry.Set(time.Hour, nil, "")
	poll.Until(t, "there is another certificate", func() bool { return i.now.Load().cert != first })
	if left := time.Until(first.Leaf.NotAfter); left < 0 {
		t.Errorf("the first certificate had expired %v before", -left)
	}
	requests := sentry.Asked()
	if string(requests[len(requests)-1].CertificateSigningRequest) == string(requests[len(requests)-2].CertificateSigningRequest) {
		t.Error("the second certificate has the key of the first")
	}
	if err := call(t, addr, orders.Dialer(Only(o.Self)), "shop", "orders"); err != nil {
		t.Error(err)
	}

	// Trust anchors change.
	other := identitytest.NewCA(t)
	elsewhere := of(t, other, appID, time.Hour)
	elsewhere.replaceMaterial(&material{cert: elsewhere.now.Load().cert, anchors: orders.now.Load().anchors})
	if err := os.WriteFile(ca.AnchorsFile, append(append([]byte{}, ca.Anchors...), other.Anchors...), 0o600); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the other authority is believed", func() bool { return call(t, addr, elsewhere.Dialer(anyServer), "shop", "orders") == nil })
}

func TestSentryThatIsNotBelieved(t *testing.T) {
	ca := identitytest.NewCA(t)
	right := identitytest.StartSentry(t, ca, "spiffe://cluster.local/ns/dapr-system/dapr-sentry")
	impostor := identitytest.StartSentry(t, ca, "spiffe://cluster.local/ns/shop/dapr-sentry")
	stranger := identitytest.StartSentry(t, identitytest.NewCA(t), "spiffe://cluster.local/ns/dapr-system/dapr-sentry")
	for name, s := range map[string]*identitytest.Sentry{"another namespace": impostor, "another authority": stranger} {
		o := sentryOf(ca, s)
		i, err := FromSentry(o)
		if err != nil {
			t.Fatal(err)
		}
		if cert, err := o.requestCertificate(t.Context(), i); err == nil {
			t.Errorf("%s: it is believed: %v", name, cert.Leaf.URIs)
		}
		if n := len(s.Asked()); n != 0 {
			t.Errorf("%s: it was told %v", name, s.Asked())
		}
	}
	right.Set(time.Hour, nil, "spiffe://cluster.local/ns/dapr-system/dapr-placement")
	o := sentryOf(ca, right)
	i, err := FromSentry(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.requestCertificate(t.Context(), i); err == nil {
		t.Error("a certificate of another id is taken")
	}
	right.Set(time.Hour, nil, "")
	if _, err := o.requestCertificate(t.Context(), i); err != nil {
		t.Error(err)
	}
	cert, key := ca.Issue(t.TempDir(), o.Self.String())
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	_, mine, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.checkSigned(i.now.Load(), mine, text); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a certificate of another key, which is %T: %v", pair.PrivateKey, err)
	}
	if err := verifyChain(nil, []*x509.Certificate{pair.Leaf}); err == nil {
		t.Error("a certificate is trusted before there are trust anchors")
	}
	if _, ok := Of(t.Context()); ok {
		t.Error("a call that did not come by a connection has an id")
	}
	right.SignBy(identitytest.NewCA(t))
	if _, err := o.requestCertificate(t.Context(), i); err == nil {
		t.Error("a certificate of an authority that is not trusted is taken")
	}
	o.TrustAnchors = filepath.Join(t.TempDir(), "none")
	if _, err := FromSentry(o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v without trust anchors", err)
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	token, empty := filepath.Join(dir, "token"), filepath.Join(dir, "empty")
	if err := errors.Join(os.WriteFile(token, []byte("x"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s         Sentry
		token     string
		validator sentryv1.SignCertificateRequest_TokenValidator
		fails     bool
	}{
		{s: Sentry{}},
		{s: Sentry{TokenFile: token}, token: "x", validator: sentryv1.SignCertificateRequest_JWKS},
		{s: Sentry{TokenFile: token, Kubernetes: true}, token: "x", validator: sentryv1.SignCertificateRequest_KUBERNETES},
		{s: Sentry{Kubernetes: true}, token: "x", validator: sentryv1.SignCertificateRequest_KUBERNETES},
		{s: Sentry{TokenFile: empty, Kubernetes: true}, validator: sentryv1.SignCertificateRequest_KUBERNETES, fails: true},
		{s: Sentry{TokenFile: empty}, validator: sentryv1.SignCertificateRequest_JWKS, fails: true},
		{s: Sentry{TokenFile: dir + "/none", Kubernetes: true}, validator: sentryv1.SignCertificateRequest_KUBERNETES, fails: true},
	} {
		got, validator, err := c.s.readSentryToken([]string{dir + "/none", token})
		if got != c.token || validator != c.validator || (err != nil) != c.fails {
			t.Errorf("%+v: got %q, %v, %v", c.s, got, validator, err)
		}
	}
	// A pod that mounts no token sends none, like Dapr's own processes.
	pod := Sentry{Kubernetes: true}
	if got, validator, err := pod.readSentryToken([]string{dir + "/none", empty}); got != "" || validator != sentryv1.SignCertificateRequest_UNKNOWN || err != nil {
		t.Errorf("without a token of the pod: %q, %v, %v", got, validator, err)
	}
}
