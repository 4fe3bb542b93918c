package identitytest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	spiffev1 "github.com/rousehq/rouse/api/spiffe/v1"
)

// Agent is a server of SPIFFE's Workload API.
type Agent struct {
	Address string // unix:PATH
	t       testing.TB

	mu      sync.Mutex
	now     *spiffev1.X509SVIDResponse // nil: requests are refused
	changed chan struct{}
}

// StartAgent runs an agent until the test ends. It returns no certificates until Give is called.
func StartAgent(t testing.TB) *Agent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Address: "unix:" + path, t: t, changed: make(chan struct{})}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "SpiffeWorkloadAPI", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "FetchX509SVID", ServerStreams: true,
				Handler: func(_ any, stream grpc.ServerStream) error { return a.streamSVIDs(stream) }}}}, a)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); running.Wait() })
	return a
}

// SVID returns a certificate with its key in the agent's form.
func (ca *CA) SVID(id string) *spiffev1.X509SVID {
	ca.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.t.Fatal(err)
	}
	svid := &spiffev1.X509SVID{SpiffeId: id, X509SvidKey: key, Bundle: ca.anchor.Raw}
	for text := ca.Sign(public, id, time.Hour); ; {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return svid
		}
		svid.X509Svid = append(svid.X509Svid, block.Bytes...)
	}
}

// Give sets the certificates that the agent returns from now on, and sends them to existing callers too.
func (a *Agent) Give(svids ...*spiffev1.X509SVID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = &spiffev1.X509SVIDResponse{Svids: svids}
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Agent) streamSVIDs(stream grpc.ServerStream) error {
	if md, _ := metadata.FromIncomingContext(stream.Context()); len(md.Get("workload.spiffe.io")) != 1 {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	if err := stream.RecvMsg(&spiffev1.X509SVIDRequest{}); err != nil {
		return err
	}
	for {
		a.mu.Lock()
		now, changed := a.now, a.changed
		a.mu.Unlock()
		if now == nil {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := stream.SendMsg(now); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}
