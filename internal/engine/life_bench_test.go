//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// BenchmarkLife measures the life of a timer without the store and the network: create, fire, settle. The CPU
// time includes the calls that make the timers.
//
//	go test -run xxx -bench Life -benchtime 400000x ./internal/engine
func BenchmarkLife(b *testing.B) {
	sink := &counter{}
	e := timers.New(&void{Store: mem.New()}, claim.NewSole(64), sink,
		timers.Options{Compile: schedule.Compile, Engine: engine.Options{Buckets: 64, Ahead: time.Hour}})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	const atOnce, outstanding = 100, 100_000
	var next atomic.Int64
	create := func() {
		from := next.Add(atOnce) - atOnce
		for from-sink.n.Load() > outstanding {
			time.Sleep(time.Millisecond)
		}
		puts := make([]timers.Put, atOnce)
		for i := range puts {
			at := time.Now().UTC().Add(200*time.Millisecond + time.Duration(rand.IntN(800))*time.Millisecond)
			puts[i] = timers.Put{Given: true, Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("timer-%010d", from+int64(i))},
				Spec: rouse.Spec{Schedule: at.Format("2006-01-02T15:04:05.000Z"), Target: "test:a", Payload: make([]byte, 150)}}
		}
		if _, err := e.Put(ctx, puts); err != nil {
			b.Error(err)
		}
	}
	run := func(n int64) {
		var wg sync.WaitGroup
		for c := range int64(64) {
			wg.Go(func() {
				for i := c * atOnce; i < n; i += 64 * atOnce {
					create()
				}
			})
		}
		wg.Wait()
		for sink.n.Load() < next.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	run(100_000)
	b.ReportAllocs()
	b.ResetTimer()
	used := -cpuTime()
	first := next.Load()
	run(int64(b.N))
	b.StopTimer()
	used += cpuTime()
	b.ReportMetric(float64(used)/float64(next.Load()-first), "cpu-ns/timer")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

// void is a store that keeps nothing. Its commits take as long as those of thousands of timers do.
type void struct {
	rouse.Store
	last uint64
}

func (v *void) Claim(context.Context, rouse.Window) (rouse.Batch, error) {
	return rouse.Batch{Now: rouse.At(time.Now())}, nil
}

func (v *void) Apply(_ context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(10 * time.Millisecond)
	results := make([]rouse.Result, len(changes))
	for i := range changes {
		v.last++
		results[i] = rouse.Result{Applied: true}
		if changes[i].To != nil {
			results[i].Revision = v.last
		}
	}
	return results, nil
}

// counter is a sink that delivers nothing.
type counter struct{ n atomic.Int64 }

func (s *counter) Check(*rouse.Spec) error { return nil }

func (s *counter) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "test:a", Limit: 10_000, Batch: 256}
}

func (s *counter) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
	s.n.Add(int64(len(fires)))
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
