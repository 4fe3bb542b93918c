package main

import (
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/client"
)

// TestCommandsWaitForAServerThatIsStarting: also those that the client does not repeat otherwise, and
// streams.
func TestCommandsWaitForAServerThatIsStarting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{}, 2) // calls that come too early
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		select {
		case <-left:
			return rousev1.ErrorToStatus(&rouse.RetryAfter{Err: rousev1.ErrStarting, After: time.Millisecond}).Err()
		default:
			return rousev1.ErrorToStatus(rouse.ErrFull).Err() // it has begun
		}
	}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	a := &app{ctx: t.Context(), cli: cli{}}
	a.cli.Server = l.Addr().String()
	for name, do := range map[string]func(c *client.Client) error{
		"list": func(c *client.Client) error { _, err := c.Count(a.ctx, rouse.Query{}); return err },
		"create": func(c *client.Client) error {
			_, err := c.Create(a.ctx, "", "a", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
			return err
		},
		"a stream": func(c *client.Client) error {
			_, err := c.Bulk(a.ctx, client.BulkRequest{Action: client.BulkPause}, nil)
			return err
		},
	} {
		left <- struct{}{}
		left <- struct{}{}
		if err := a.remote(do); !errors.Is(err, rouse.ErrFull) || len(left) != 0 {
			t.Errorf("%s: %v, and %d early calls were not made", name, err, len(left))
		}
		for len(left) > 0 {
			<-left
		}
	}
}
