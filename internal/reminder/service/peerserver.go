package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// Bounds of the listener for other instances. A connection beyond maxPeerConns waits until another one is
// closed.
const (
	maxPeerConns   = 1024
	maxPeerStreams = 1024
	peerHandshake  = 5 * time.Second
	peerMessage    = 4 << 20
)

// ServePeers serves other instances on a listener until ctx ends. With TLS, the configuration decides which
// clients are instances.
func (s *Service) ServePeers(ctx context.Context, l net.Listener, secure *tls.Config) error {
	transport := insecure.NewCredentials()
	if secure != nil {
		transport = credentials.NewTLS(secure)
	}
	server := grpc.NewServer(grpc.Creds(transport), grpc.UnaryInterceptor(s.guardPeer),
		grpc.ConnectionTimeout(peerHandshake), grpc.MaxConcurrentStreams(maxPeerStreams),
		grpc.MaxRecvMsgSize(peerMessage), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}))
	reminderv1.RegisterInstanceServiceServer(server, instanceServer{Service: s})
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		server.Stop()
		close(stopped)
	})
	err := server.Serve(netutil.LimitListener(l, maxPeerConns))
	if stop() { // the listener broke
		server.Stop()
		return err
	}
	<-stopped
	return nil
}

// guardPeer turns errors of calls into statuses, and recovers from panics.
func (s *Service) guardPeer(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("a call of another instance panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out, err = nil, status.Error(codes.Internal, "internal error")
		}
	}()
	if out, err = handle(access.With(ctx, access.System), request); err != nil {
		return nil, rousev1.ErrorToStatus(err).Err()
	}
	return out, nil
}
