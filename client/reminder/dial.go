package reminder

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse/internal/grpclink"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// seedsOf reads a target of Open.
func seedsOf(target string, o Options) (list []grpclink.Address, err error) {
	for _, one := range grpclink.Split(target) {
		a, err := o.linkOptions().Parse(one)
		if err != nil {
			return nil, fmt.Errorf("reminder: %w", err)
		}
		if !slices.ContainsFunc(list, func(s grpclink.Address) bool { return s.Target == a.Target }) {
			list = append(list, a)
		}
	}
	return list, nil
}

// linkOptions returns the options of connections.
func (o *Options) linkOptions() grpclink.Options {
	return grpclink.Options{TLS: o.TLS, Files: grpclink.Files(o.CA, o.Cert, o.Key), Insecure: o.Insecure, Token: o.Token}
}

// newConnection returns a connection, which its first call makes. Links have a pause of their own.
func newConnection(a grpclink.Address, o Options) (*grpc.ClientConn, error) {
	opts := append([]grpc.DialOption{grpc.WithStatsHandler(departures{})}, o.Dial...)
	return o.linkOptions().Connect(a, 100*time.Millisecond, 5*time.Second, opts...)
}

// learnedAddress reads the address of an instance that the service reported. It never weakens the options of
// the caller: with TLS, instances are reached over TLS, and a remote instance cannot send the client to this
// host.
func (c *Client) learnedAddress(told string) (a grpclink.Address, err error) {
	if err := grpclink.Reported(told, c.seeds); err != nil {
		return a, err
	}
	a, err = c.o.linkOptions().Parse(told)
	secure := c.o.TLS != nil || c.o.CA != "" || c.o.Cert != ""
	a.Plain = a.Plain && slices.ContainsFunc(c.seeds, func(s grpclink.Address) bool { return s.Plain }) ||
		!secure && slices.ContainsFunc(c.seeds, func(s grpclink.Address) bool { return s.Explicit })
	return a, err
}

// departure is true once a call has left this process: only then can it have had an effect.
type departure struct{ atomic.Bool }

type departureKey struct{}

// departures notes the departures of calls.
type departures struct{}

func (departures) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (departures) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (departures) HandleConn(context.Context, stats.ConnStats)                       {}

func (departures) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); ok {
		if d, ok := ctx.Value(departureKey{}).(*departure); ok {
			d.Store(true)
		}
	}
}
