package webhook_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

// BenchmarkDeliver compares deliveries, 64 in flight, with a bare http.Client against the same server: the
// three take turns in short slices, so that what else the machine does meets them alike. "client" posts the
// same bytes with a content type only, "same-headers" with the headers of a fire. The ratios are those of the
// rates, ours to theirs.
func BenchmarkDeliver(b *testing.B) {
	target := serve(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	payload := bytes.Repeat([]byte("x"), 200)
	secret := webhook.NewSecret()
	fire := rouse.Fire{ID: rouse.FireID("default", "timer-1", 7, 1801386000000, false), Namespace: "default", Name: "timer-1",
		Generation: 712345, Due: 1801386000000, Attempt: 1, Token: 812345, Spec: &rouse.Spec{Target: target, Payload: payload, ContentType: "text/plain"}}
	s := webhook.New(webhook.Options{AllowPrivate: true, Signing: signs(secret)})
	defer s.Close()
	headers := headersOf(b, s, fire)

	t := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t}
	runs := []func(){
		func() { post(b, client, target, payload, http.Header{"Content-Type": {"text/plain"}}) },
		func() { post(b, client, target, payload, headers) },
		func() {
			s.Deliver(context.Background(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) {
				if o.Verdict != rouse.Done {
					b.Error(o)
				}
			})
		},
	}
	var took [3]time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= 2000 {
		for i, run := range runs {
			begin := time.Now()
			inFlight(min(left, 2000), run)
			took[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(b.N)/took[0].Seconds(), "client/s")
	b.ReportMetric(float64(b.N)/took[1].Seconds(), "same-headers/s")
	b.ReportMetric(float64(b.N)/took[2].Seconds(), "deliver/s")
	b.ReportMetric(took[0].Seconds()/took[2].Seconds(), "ratio-client")
	b.ReportMetric(took[1].Seconds()/took[2].Seconds(), "ratio-same-headers")
}

// BenchmarkBatch delivers batches of 100 signed fires, 64 in flight.
func BenchmarkBatch(b *testing.B) {
	target := serve(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	secret := webhook.NewSecret()
	s := webhook.New(webhook.Options{AllowPrivate: true, Signing: signs(secret)})
	defer s.Close()
	spec := rouse.Spec{Target: target, Payload: bytes.Repeat([]byte("x"), 200), ContentType: "text/plain", Webhook: rouse.Webhook{Batch: 100}}
	fires := make([]rouse.Fire, 100)
	for i := range fires {
		fires[i] = rouse.Fire{ID: rouse.FireID("default", "timer-1", 7, rouse.Instant(i), false), Namespace: "default", Name: "timer-1", Due: 1801386000000, Attempt: 1, Spec: &spec}
	}
	b.ReportAllocs()
	b.ResetTimer()
	inFlight(b.N, func() { s.Deliver(context.Background(), fires, func(int, rouse.Outcome) {}) })
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "fires/s")
}

// serve returns the address of a plain server.
func serve(b *testing.B, h http.HandlerFunc) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	b.Cleanup(func() {
		_ = srv.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String() + "/hook"
}

// headersOf returns the headers that a fire is sent with.
func headersOf(b *testing.B, s *webhook.Sink, f rouse.Fire) http.Header {
	got := make(chan http.Header, 1)
	spec := *f.Spec
	spec.Target = serve(b, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	f.Spec = &spec
	s.Deliver(context.Background(), []rouse.Fire{f}, func(int, rouse.Outcome) {})
	h := <-got
	h.Del("Content-Length")
	return h
}

func post(b *testing.B, c *http.Client, target string, payload []byte, h http.Header) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(payload))
	if err != nil {
		b.Error(err)
		return
	}
	req.Header = h
	resp, err := c.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// inFlight runs one n times, 64 at a time.
func inFlight(n int, one func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				one()
			}
		})
	}
	workers.Wait()
}
