package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// TestDrainGivesBack: if the service supports it, a drain returns the fires that no handler has started,
// including those in transit, and settles the others; then the service ends the stream.
func TestDrainGivesBack(t *testing.T) {
	c, f := start(t, Options{})
	ready, over := make(chan struct{}), make(chan error, 1)
	var returned, done []uint64
	f.subscribe = func(_ *rousev1.Open, stream rousev1.Fires_SubscribeServer) error {
		if err := stream.SendHeader(metadata.Pairs(canHeader, "leave")); err != nil {
			return err
		}
		send := func(tags ...uint64) error {
			m := &rousev1.SubscribeResponse{}
			for _, tag := range tags {
				m.Fires = append(m.Fires, &rousev1.Fire{Tag: tag, DeadlineMs: time.Now().Add(time.Minute).UnixMilli()})
			}
			return stream.Send(m)
		}
		if err := send(1, 2, 3); err != nil {
			return err
		}
		for crossed := false; len(returned) < 3 || len(done) < 1; {
			r, err := stream.Recv()
			if err != nil {
				return err
			}
			if l := r.GetLeave(); l != nil {
				returned = append(returned, l.Returned...)
				if !crossed { // as if it had been on its way
					crossed = true
					if err := send(4); err != nil {
						return err
					}
				}
			}
			done = append(done, r.GetSettle().GetDone()...)
			if len(r.GetSettle().GetFailures()) > 0 {
				return errors.New("a failure was told")
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	free := make(chan struct{})
	go func() {
		over <- c.Subscribe(ctx, SubscribeOptions{Concurrency: 1, Lost: func(err error) { t.Error(err) }}, func(ctx context.Context, _ Fire) error {
			close(ready)
			<-free
			return ctx.Err()
		})
	}()
	within(t, ready, "a handler")
	cancel()
	close(free)
	if err := within(t, over, "Subscribe to return"); err != nil {
		t.Error(err)
	}
	slices.Sort(returned)
	if !slices.Equal(returned, []uint64{2, 3, 4}) || !slices.Equal(done, []uint64{1}) {
		t.Errorf("gave back %v and did %v; want 2, 3 and 4, and 1", returned, done)
	}
}
