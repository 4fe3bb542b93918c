package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/grpclink"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/server"
)

// others has connections to the other nodes of the store, by which nodes read each other's status.
type others struct {
	core core

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn // by address
	closed bool
}

// otherNodes returns the other nodes.
func (o *others) otherNodes(ctx context.Context) ([]server.Other, error) {
	nodes, err := o.core.Nodes()(ctx)
	if err != nil {
		return nil, rouse.Unavailable(err)
	}
	var list []server.Other
	live := map[string]bool{}
	for _, n := range nodes {
		address := parts.PublishedBy(n.Data).Address
		if n.ID == o.core.Config().Node || address == "" { // without an address it has no API
			continue
		}
		live[address] = true
		one := server.Other{ID: n.ID, Context: func(ctx context.Context) context.Context {
			if token := o.core.NodeToken(n.ID, time.Now()); token != "" {
				return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return ctx
		}}
		if conn, err := o.connectionTo(address); err != nil {
			one.Err = err
		} else {
			one.Conn = conn
		}
		list = append(list, one)
	}
	o.pruneConnections(live)
	return list, nil
}

// connectionTo returns the connection to an address.
func (o *others) connectionTo(address string) (*grpc.ClientConn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, rouse.ErrClosed
	}
	if conn := o.conns[address]; conn != nil {
		return conn, nil
	}
	_, secure := o.core.Mutual()
	link := grpclink.Options{TLS: secure, Insecure: secure == nil}
	at, err := link.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := link.Connect(at, 100*time.Millisecond, time.Second)
	if err == nil {
		o.conns[address] = conn
	}
	return conn, err
}

// pruneConnections closes connections to nodes that are gone.
func (o *others) pruneConnections(live map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for address, conn := range o.conns {
		if !live[address] {
			_ = conn.Close()
			delete(o.conns, address)
		}
	}
}

func (o *others) closeConnections() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.pruneConnections(nil)
}
