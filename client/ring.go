package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse/internal/grpclink"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// ring has the connections to the addresses of a client. Calls use them in turn and skip those that are down,
// so that an unavailable node costs no call, not even one that must not be retried.
type ring struct {
	members []member
	turn    atomic.Uint32
}

type member struct {
	grpclink.Address
	conn *grpc.ClientConn
}

// patienceEach bounds the time to connect to one address, so that the next one is tried.
const patienceEach = 3 * time.Second

func (r *ring) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.pickConnection(ctx).Invoke(ctx, method, args, reply, opts...)
}

func (r *ring) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.pickConnection(ctx).NewStream(ctx, desc, method, opts...)
}

// pickConnection returns the connection for the next call: the next one in turn that is up; else the first
// one that connects; else the next one in turn, so that the call returns its error.
func (r *ring) pickConnection(ctx context.Context) *grpc.ClientConn {
	n := len(r.members)
	if n == 1 {
		return r.members[0].conn
	}
	turn := int(r.turn.Add(1)) % n
	var standing *grpc.ClientConn
	for k := range n {
		conn := r.members[(turn+k)%n].conn
		switch conn.GetState() {
		case connectivity.Ready:
			if standing == nil {
				standing = conn
			}
		case connectivity.Idle:
			conn.Connect()
		}
	}
	if standing != nil {
		return standing
	}
	for k := range n {
		if conn := r.members[(turn+k)%n].conn; becomesReady(ctx, conn) {
			return conn
		}
	}
	return r.members[turn].conn
}

// becomesReady waits until a connection is established or has failed, and reports which.
func becomesReady(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, patienceEach)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
