package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sentryv1 "github.com/rousehq/rouse/api/dapr/sentry/v1"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/internal/poll"
)

// patience bounds every wait. It is long because it is reached only when something is broken.
const patience = poll.Patience

const (
	schedulerID = "spiffe://cluster.local/ns/dapr-system/dapr-scheduler"
	appID       = "spiffe://cluster.local/ns/shop/orders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIDOf(t *testing.T) {
	for text, want := range map[string]string{
		appID:                                    appID,
		"spiffe://td/ns/a/b%20c":                 "spiffe://td/ns/a/b%20c",
		"spiffe://td/ns/a":                       "",
		"spiffe://td/ns/a/":                      "",
		"spiffe://td":                            "",
		"spiffe://td/":                           "",
		"spiffe://td/ns/a/b%2Fc":                 "",
		"spiffe://td/ns/a%2Fb/c":                 "",
		"spiffe://td/NS/a/b":                     "",
		"spiffe://td/ns//b":                      "",
		"spiffe://td/ns/a/b/c":                   "",
		"spiffe://td/sa/a/b":                     "",
		"https://td/ns/a/b":                      "",
		"spiffe:///ns/a/b":                       "",
		"spiffe://cluster.local/ns/shop/orders/": "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		id, err := IDOf(&x509.Certificate{URIs: []*url.URL{u}})
		if (err == nil) != (want != "") || err == nil && id.String() != want {
			t.Errorf("%s is %v, %v", text, id, err)
		}
	}
	u, _ := url.Parse(appID)
	if _, err := IDOf(&x509.Certificate{URIs: []*url.URL{u, u}}); err == nil {
		t.Error("a certificate with two ids is taken")
	}
}

// of reads an identity with a SPIFFE id that a CA has signed.
func of(t *testing.T, ca *identitytest.CA, id string, lasts time.Duration) *Identity {
	t.Helper()
	cert, key := ca.IssueFor(t.TempDir(), id, lasts)
	i, err := FromFiles(Files{Certificate: cert, Key: key, TrustAnchors: ca.AnchorsFile})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// guarded is a service with one method, which only the app named in the request may call.
type guarded struct{ sentryv1.UnimplementedCAServer }

func (guarded) SignCertificate(ctx context.Context, r *sentryv1.SignCertificateRequest) (*sentryv1.SignCertificateResponse, error) {
	return &sentryv1.SignCertificateResponse{}, Authorize(ctx, r.Namespace, r.Id)
}

// serve runs the service with an identity until the test ends.
func serve(t *testing.T, with credentials.TransportCredentials) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(with))
	sentryv1.RegisterCAServer(s, guarded{})
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); running.Wait() })
	return l.Addr().String()
}

// call calls the method for an app over a new connection.
func call(t *testing.T, addr string, with credentials.TransportCredentials, namespace, app string) error {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(with))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = sentryv1.NewCAClient(conn).SignCertificate(ctx, &sentryv1.SignCertificateRequest{Namespace: namespace, Id: app})
	return err
}

func anyServer(ID) error { return nil }

func TestWhoMayAskForWhat(t *testing.T) {
	ca := identitytest.NewCA(t)
	addr := serve(t, of(t, ca, schedulerID, time.Hour).Credentials())
	orders := of(t, ca, appID, time.Hour)
	stranger := identitytest.NewCA(t)
	elsewhere := of(t, stranger, appID, time.Hour)
	elsewhere.replaceMaterial(&material{cert: elsewhere.now.Load().cert, anchors: orders.now.Load().anchors}) // it trusts the server, which must refuse it
	expired, err := tls.LoadX509KeyPair(ca.IssueFor(t.TempDir(), appID, -time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		with           credentials.TransportCredentials
		namespace, app string
		want           codes.Code
	}{
		"itself":                    {orders.Dialer(anyServer), "shop", "orders", codes.OK},
		"of another trust domain":   {of(t, ca, "spiffe://public/ns/shop/orders", time.Hour).Dialer(anyServer), "shop", "orders", codes.OK},
		"another app":               {orders.Dialer(anyServer), "shop", "bills", codes.PermissionDenied},
		"another namespace":         {orders.Dialer(anyServer), "shops", "orders", codes.PermissionDenied},
		"of another form":           {of(t, ca, "spiffe://cluster.local/sa/orders", time.Hour).Dialer(anyServer), "shop", "orders", codes.Unauthenticated},
		"of another authority":      {elsewhere.Dialer(anyServer), "shop", "orders", codes.Unavailable},
		"without a certificate":     {credentials.NewTLS(clientConfig(func() *material { return orders.now.Load() }, anyServer)), "shop", "orders", codes.Unavailable},
		"with one that has expired": {credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{expired}, InsecureSkipVerify: true}), "shop", "orders", codes.Unavailable},
		"in plain text":             {insecure.NewCredentials(), "shop", "orders", codes.Unavailable},
		"to another server":         {orders.Dialer(Only(ID{"cluster.local", "dapr-system", "dapr-sentry"})), "shop", "orders", codes.Unavailable},
		"to the right server":       {orders.Dialer(Only(ID{"cluster.local", "dapr-system", "dapr-scheduler"})), "shop", "orders", codes.OK},
	} {
		err := call(t, addr, c.with, c.namespace, c.app)
		if status.Code(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if c.want == codes.PermissionDenied && status.Convert(err).Message() != "identity does not match request" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without TLS, no caller has an identity.
	err = call(t, serve(t, insecure.NewCredentials()), insecure.NewCredentials(), "shop", "orders")
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v without TLS", err)
	}
}

// run keeps an identity fresh until the test ends.
func run(t *testing.T, i *Identity) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { i.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func TestFilesAreReadAgain(t *testing.T) {
	ca := identitytest.NewCA(t)
	dir := t.TempDir()
	anchors := filepath.Join(dir, "ca.crt")
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(anchors, ca.Anchors)
	cert, key := ca.Issue(dir, "spiffe://cluster.local/ns/a/first")
	i, err := FromFiles(Files{Certificate: cert, Key: key, TrustAnchors: anchors, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-i.Ready()
	run(t, i)
	addr := serve(t, i.Credentials())
	who := func(client *Identity) (app string) {
		_ = call(t, addr, client.Dialer(func(s ID) error { app = s.App; return nil }), "shop", "orders")
		return app
	}
	orders := of(t, ca, appID, time.Hour)
	if got := who(orders); got != "first" {
		t.Fatalf("the server is %q", got)
	}
	put(key, []byte("half of it")) // a file that is still being written
	put(anchors, nil)
	for range 20 {
		if got := who(orders); got != "first" {
			t.Fatalf("the server is %q, with broken files", got)
		}
	}
	put(anchors, ca.Anchors)
	ca.Issue(dir, "spiffe://cluster.local/ns/a/second")
	poll.Until(t, "the second certificate is in force", func() bool { return who(orders) == "second" })

	// A second authority is trusted together with the old one, and then alone.
	other := identitytest.NewCA(t)
	elsewhere := of(t, other, appID, time.Hour)
	elsewhere.replaceMaterial(&material{cert: elsewhere.now.Load().cert, anchors: orders.now.Load().anchors})
	if err := call(t, addr, elsewhere.Dialer(anyServer), "shop", "orders"); err == nil {
		t.Fatal("a certificate of an authority that is not trusted yet is believed")
	}
	put(anchors, append(append([]byte{}, ca.Anchors...), other.Anchors...))
	poll.Until(t, "the other authority is believed", func() bool { return call(t, addr, elsewhere.Dialer(anyServer), "shop", "orders") == nil })
	if err := call(t, addr, orders.Dialer(anyServer), "shop", "orders"); err != nil {
		t.Errorf("the old authority next to the new one: %v", err)
	}
	put(anchors, other.Anchors)
	other.Issue(dir, "spiffe://cluster.local/ns/a/third")
	poll.Until(t, "the old authority is not believed any more", func() bool { return call(t, addr, orders.Dialer(anyServer), "shop", "orders") != nil })
}

func TestFilesThatAreNoIdentity(t *testing.T) {
	ca, other := identitytest.NewCA(t), identitytest.NewCA(t)
	dir, dir2, dir3 := t.TempDir(), t.TempDir(), t.TempDir()
	cert, key := ca.Issue(dir, schedulerID)
	cert2, key2 := ca.Issue(dir2, "")
	_, otherKey := ca.Issue(dir3, schedulerID)
	for name, f := range map[string]Files{
		"no such file":        {Certificate: dir + "/none", Key: key, TrustAnchors: ca.AnchorsFile},
		"the key of another":  {Certificate: cert, Key: otherKey, TrustAnchors: ca.AnchorsFile},
		"other trust anchors": {Certificate: cert, Key: key, TrustAnchors: other.AnchorsFile},
		"no trust anchors":    {Certificate: cert, Key: key, TrustAnchors: key},
		"no SPIFFE id":        {Certificate: cert2, Key: key2, TrustAnchors: ca.AnchorsFile},
	} {
		if _, err := FromFiles(f); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := FromFiles(Files{Certificate: cert, Key: key, TrustAnchors: ca.AnchorsFile}); err != nil {
		t.Error(err)
	}
}

func TestExpiredCertificateIsUnhealthy(t *testing.T) {
	i := newIdentity()
	if i.Healthy() == nil {
		t.Error("healthy without a certificate")
	}
	i.replaceMaterial(of(t, identitytest.NewCA(t), schedulerID, time.Hour).now.Load())
	if err := i.Healthy(); err != nil {
		t.Error(err)
	}
	leaf := *i.now.Load().cert.Leaf
	leaf.NotAfter = time.Now().Add(-time.Second)
	cert := *i.now.Load().cert
	cert.Leaf = &leaf
	i.editMaterial(func(m *material) { m.cert = &cert })
	if i.Healthy() == nil {
		t.Error("healthy with an expired certificate")
	}
	if err := call(t, serve(t, i.Credentials()), of(t, identitytest.NewCA(t), appID, time.Hour).Dialer(anyServer), "a", "b"); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v of a server whose certificate has expired", err)
	}
}
