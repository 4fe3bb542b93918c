package scheduler

import (
	"context"
	"net"
	"testing"

	"github.com/rousehq/rouse/dapr/watch"
)

// A server that is to end at once ends well, whether it has begun to serve or not.
func TestServerThatEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := New(Options{Timers: kept{}, Watch: watch.New(watch.Options{})}).Run(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
}
