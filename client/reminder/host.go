package reminder

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// hostLoop keeps this sidecar known as a host of actors, over a stream to one of the instances to which it is
// connected, until ctx ends.
func (c *Client) hostLoop(ctx context.Context) {
	b := backoff.New(firstPause, listedPause)
	for ctx.Err() == nil {
		l, life, changed, err := c.pickLink(nil, nil)
		if err != nil {
			return // the client closes, or is refused
		}
		if l == nil {
			backoff.SleepOr(ctx, mostPause, changed)
			continue
		}
		stood, err := c.serveAsHost(ctx, l, life)
		if ctx.Err() != nil {
			return
		}
		if stood {
			b.Reset()
		}
		c.telling.Lock()
		c.o.Lost(&InstanceError{l.address, err})
		c.telling.Unlock()
		b.Pause(ctx)
	}
}

// serveAsHost registers as a host at an instance, and keeps a stream until it ends, the instance is lost, or
// ctx ends. stood reports whether the stream was established.
func (c *Client) serveAsHost(ctx context.Context, l *link, life context.Context) (stood bool, err error) {
	service := reminderv1.NewActorServiceClient(l.conn)
	soon, cancel := context.WithTimeout(ctx, registerTime)
	answer, err := service.RegisterActorHost(soon, &reminderv1.RegisterActorHostRequest{AppId: c.o.App,
		Address: c.o.Address, ActorTypes: c.o.ActorTypes})
	cancel()
	if err != nil {
		return false, errorFromGRPC(err)
	}
	heartbeat := defaultHeartbeat
	if d := answer.GetHeartbeat().AsDuration(); d > 0 {
		heartbeat = max(d, leastHeartbeat)
	}
	standing, cut := context.WithCancelCause(context.WithoutCancel(ctx)) // outlives ctx, for an orderly end
	defer cut(nil)
	defer context.AfterFunc(life, func() { cut(errGone) })()
	wire, err := service.ConnectActorHost(standing)
	if err != nil {
		return false, errorFromGRPC(err)
	}
	hello := &reminderv1.ActorHostStream{HostMessage: &reminderv1.ActorHostStream_Hello{Hello: c.caller}}
	if err := wire.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return false, errorFromGRPC(err)
	}
	var sending sync.WaitGroup
	sending.Go(func() { heartbeatUntilEnd(ctx, standing, cut, wire, heartbeat) })
	defer sending.Wait()
	defer cut(nil)
	silence := time.AfterFunc(silences*heartbeat, func() { cut(errSilent) })
	defer silence.Stop()
	defer c.actors.endStream()
	for {
		m, err := wire.Recv()
		if err != nil {
			if cause := context.Cause(standing); errors.Is(cause, errSilent) || errors.Is(cause, errGone) {
				return stood, cause
			}
			if errors.Is(err, io.EOF) {
				return stood, errors.New("the instance has ended the stream of the host")
			}
			if _, ok := status.FromError(err); ok {
				return stood, errorFromGRPC(err)
			}
			return stood, err
		}
		silence.Reset(silences * heartbeat)
		if !stood {
			stood = true
			c.actors.beginStream()
		}
		switch m := m.GetPlacementMessage().(type) {
		case *reminderv1.PlacementStream_HostsUpdate:
			c.actors.storeHosts(m.HostsUpdate)
			c.mu.Lock()
			c.announceChange()
			c.mu.Unlock()
		case *reminderv1.PlacementStream_PlacementUpdate:
			c.actors.applyPlacement(m.PlacementUpdate)
		}
	}
}

// heartbeatUntilEnd sends an empty message each heartbeat, and ends the stream in order when ctx ends.
func heartbeatUntilEnd(ctx, standing context.Context, cut context.CancelCauseFunc,
	wire grpc.BidiStreamingClient[reminderv1.ActorHostStream, reminderv1.PlacementStream], heartbeat time.Duration) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	empty := &reminderv1.ActorHostStream{HostMessage: &reminderv1.ActorHostStream_EmptyMsg{EmptyMsg: &emptypb.Empty{}}}
	for {
		select {
		case <-standing.Done():
			return
		case <-ctx.Done():
			_ = wire.CloseSend()
			late := time.NewTimer(byeTime)
			defer late.Stop()
			select {
			case <-standing.Done():
			case <-late.C:
				cut(context.Cause(ctx))
			}
			return
		case <-tick.C:
			if wire.Send(empty) != nil {
				return // it is over; Recv returns why
			}
		}
	}
}
