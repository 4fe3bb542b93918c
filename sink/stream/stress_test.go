package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub/hubtest"
)

// Subscribers with filters come, settle in every way, and vanish in the middle, while fires are delivered
// from many goroutines: each fire is reported once, and those that are not done are delivered again until
// they are.
func TestStress(t *testing.T) {
	running := goleak.IgnoreCurrent()
	defer goleak.VerifyNone(t, running)
	s := New(Options{})
	client, stop := serve(t, s)
	defer stop()
	ctx, cut := context.WithCancel(t.Context())
	defer cut()

	const timers, senders = 3000, 4
	var open atomic.Int64 // timers that are not done
	open.Store(timers)
	var working sync.WaitGroup
	for n := range senders {
		working.Go(func() {
			left := make([]rouse.Fire, timers/senders)
			for i := range left {
				left[i] = fire(fmt.Sprintf("p%d-%d-%d", i%2, n, i), timeout(100*time.Millisecond))
			}
			r := rand.New(rand.NewPCG(5, uint64(n)))
			for len(left) > 0 {
				var mu sync.Mutex
				var reported sync.WaitGroup
				var again []rouse.Fire
				for from := 0; from < len(left); {
					part := left[from:min(from+1+r.IntN(maxFires), len(left))]
					from += len(part)
					reports := make([]int, len(part))
					reported.Add(len(part))
					working.Go(func() {
						s.Deliver(ctx, part, func(i int, o rouse.Outcome) {
							mu.Lock()
							defer mu.Unlock()
							if reports[i]++; reports[i] > 1 {
								t.Errorf("fire %s was reported twice", part[i].Name)
								return
							}
							if o.Verdict == rouse.Done {
								open.Add(-1)
							} else {
								again = append(again, part[i])
							}
							reported.Done()
						})
					})
				}
				reported.Wait()
				left = again
			}
		})
	}
	var subscribing sync.WaitGroup
	for n := range 5 {
		subscribing.Go(func() {
			r := rand.New(rand.NewPCG(6, uint64(n)))
			for ctx.Err() == nil {
				o := jobs(uint32(1 + r.IntN(100)))
				if n < 2 {
					o.NamePrefix = fmt.Sprintf("p%d", n)
				}
				visit(ctx, client, o, r)
			}
		})
	}
	working.Wait()
	if n := open.Load(); n != 0 {
		t.Errorf("%d timers are not done", n)
	}
	cut()
	subscribing.Wait()
}

// visit is one life of a subscriber.
func visit(ctx context.Context, client rousev1.FiresClient, open *rousev1.Open, r *rand.Rand) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	stream, err := client.Subscribe(ctx)
	if err != nil {
		return
	}
	_ = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: open}})
	for range 3 + r.IntN(20) {
		response, err := stream.Recv()
		if err != nil {
			return
		}
		m := &rousev1.Settle{}
		for _, f := range response.Fires {
			switch r.IntN(10) {
			case 0:
				m.Failures = append(m.Failures, &rousev1.Failure{Tag: f.Tag, Permanent: r.IntN(2) == 0})
			case 1: // keeps it until it leaves
			default:
				m.Done = append(m.Done, f.Tag)
			}
		}
		if stream.Send(hubtest.Settle(m)) != nil {
			return
		}
		if r.IntN(4) == 0 {
			_ = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Credits{Credits: uint32(r.IntN(10))}})
		}
	}
	if r.IntN(2) == 0 {
		_ = stream.CloseSend()
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}
}
