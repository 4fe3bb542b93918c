package cli

import (
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	a := &App{Ctx: t.Context(), Flags: globalFlags{}}
	a.Flags.Server = l.Addr().String()
	for name, do := range map[string]func(c *client.Client) error{
		"list": func(c *client.Client) error { _, err := c.Count(a.Ctx, rouse.Query{}); return err },
		"create": func(c *client.Client) error {
			_, err := c.Create(a.Ctx, "", "a", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
			return err
		},
		"a stream": func(c *client.Client) error {
			_, err := c.Bulk(a.Ctx, client.BulkRequest{Action: client.BulkPause}, nil)
			return err
		},
	} {
		left <- struct{}{}
		left <- struct{}{}
		if err := a.WithClient(do); !errors.Is(err, rouse.ErrFull) || len(left) != 0 {
			t.Errorf("%s: %v, and %d early calls were not made", name, err, len(left))
		}
		for len(left) > 0 {
			<-left
		}
	}
}

// TestAnAnswerIsNotAskedForAServer: whether a server is running is asked only if none has answered.
func TestAnAnswerIsNotAskedForAServer(t *testing.T) {
	a := &App{Dialled: "127.0.0.1:7411"}
	for _, c := range []struct {
		err   error
		lines int
	}{
		{rousev1.StatusToError(rousev1.ErrorToStatus(&rouse.StoreError{Err: errors.New("refused")})), 1},
		{rousev1.StatusToError(rousev1.ErrorToStatus(rousev1.ErrStarting)), 1},
		{rousev1.StatusToError(status.New(codes.Unavailable, "connection refused")), 2},
		{rousev1.StatusToError(status.New(codes.Unimplemented, "unknown service rouse.v1.Timers")), 2},
	} {
		if lines := a.explainError(c.err); len(lines) != c.lines {
			t.Errorf("%v: %q", c.err, lines)
		}
	}
}
