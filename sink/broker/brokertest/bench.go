package brokertest

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
)

// Payload is the payload of benchmarks.
var Payload = bytes.Repeat([]byte("x"), 200)

// slice is the number of messages in one turn.
const slice = 4096

// Benchmark compares deliveries, with 1,024 messages in progress, to a bare client of the same broker. The
// two take turns, so that other load on the machine affects both. raw publishes n messages of Payload and
// waits for their confirms.
func Benchmark(b *testing.B, p broker.Publisher, url, target string, raw func(n int)) {
	s := broker.New()
	s.Add(broker.Connection{Name: "there", URL: url}, p)
	defer s.Close() //nolint:errcheck // of a benchmark
	fires := make([]rouse.Fire, slice)
	spec := rouse.Spec{Target: target, Payload: Payload, ContentType: "text/plain"}
	next := 0
	renew := func() { // fresh ids
		for i := range fires {
			next++
			fires[i] = rouse.Fire{ID: rouse.FireID("default", strconv.Itoa(next), 7, 1801386000000, false), Namespace: "default",
				Name: "timer-1", Generation: 712345,
				Due: 1801386000000, Attempt: 1, Token: 812345, Spec: &spec}
		}
	}
	renew()
	for end := time.Now().Add(patience); ; { // until it is connected
		var o rouse.Outcome
		s.Deliver(b.Context(), fires[:1], func(_ int, got rouse.Outcome) { o = got })
		if o.Verdict == rouse.Done {
			break
		}
		if time.Now().After(end) {
			b.Fatal(o.Detail)
		}
	}
	var tookRaw, took time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= slice {
		n := min(left, slice)
		begin := time.Now()
		raw(n)
		tookRaw += time.Since(begin)
		renew()
		begin = time.Now()
		inParts(b.Context(), b, s, fires[:n])
		took += time.Since(begin)
	}
	b.ReportMetric(float64(b.N)/tookRaw.Seconds(), "raw/s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "deliver/s")
	b.ReportMetric(tookRaw.Seconds()/took.Seconds(), "ratio")
}

// inParts delivers the fires as an engine does: with the lane's batch size and limit.
func inParts(ctx context.Context, b *testing.B, s *broker.Sink, fires []rouse.Fire) {
	lane := s.Lane("default", fires[0].Spec)
	places := make(chan struct{}, lane.Limit/lane.Batch)
	var sending sync.WaitGroup
	for len(fires) > 0 {
		part := fires[:min(len(fires), lane.Batch)]
		fires = fires[len(part):]
		places <- struct{}{}
		sending.Go(func() {
			s.Deliver(ctx, part, func(_ int, o rouse.Outcome) {
				if o.Verdict != rouse.Done {
					b.Error(o)
				}
			})
			<-places
		})
	}
	sending.Wait()
}
