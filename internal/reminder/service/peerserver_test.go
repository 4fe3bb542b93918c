package service

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/certs"
)

// TestOnlyNodesCallInstances: with TLS, a client of the same authority, one without a certificate and one in
// plain text are refused, and sidecars' port does not have these calls.
func TestOnlyNodesCallInstances(t *testing.T) {
	a, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, a.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	files := func(name string, names ...string) certs.Files {
		cert, key, err := a.Write(dir, name, certs.Request{Names: names, NotAfter: time.Now().Add(time.Hour), Server: name != "client"})
		if err != nil {
			t.Fatal(err)
		}
		return certs.Files{Cert: cert, Key: key, CA: ca}
	}
	node := func(name string) *certs.Server {
		s, err := certs.NewServer(files(name, name+".nodes.rouse", "spiffe://rouse/node"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	secure, _ := node("one").Mutual(nil)
	_, other := node("two").Mutual(nil)
	stranger, err := files("client", "spiffe://rouse/shop").Client()
	if err != nil {
		t.Fatal(err)
	}
	stranger.InsecureSkipVerify = true // it would talk to any server, which has to refuse it

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{opts: Options{Log: slog.New(slog.DiscardHandler), MostMoved: 10}}
	s.peers.init("self", other)
	defer s.peers.closePeers()
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.ServePeers(ctx, l, secure); err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer cancel()
	peer, err := s.peers.clientTo(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The call is refused for its arguments, so it has arrived.
	if _, err := peer.TakeTokens(t.Context(), &reminderv1.TakeTokensRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a node: %v", err)
	}
	bare := stranger.Clone()
	bare.Certificates = nil
	for name, with := range map[string]credentials.TransportCredentials{"a client": credentials.NewTLS(stranger), "without a certificate": credentials.NewTLS(bare), "plain text": insecure.NewCredentials()} {
		conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(with))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reminderv1.NewInstanceServiceClient(conn).TakeTokens(t.Context(), &reminderv1.TakeTokensRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
	public := grpc.NewServer()
	s.Register(public)
	if _, there := public.GetServiceInfo()["rouse.reminder.v1.InstanceService"]; there {
		t.Error("the calls of instances are served where sidecars connect")
	}
}
