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

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

// BenchmarkDeliver compares deliveries, 64 in flight, with a bare http.Client in the same process against the same server:
// "client" posts the same bytes with a content type, "client-headers" with as many headers as a fire has.
func BenchmarkDeliver(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	defer serving.Wait()
	defer srv.Close()
	target := "http://" + l.Addr().String() + "/hook"
	payload := bytes.Repeat([]byte("x"), 200)

	b.Run("client", func(b *testing.B) { raw(b, target, payload, nil) })
	fire := rouse.Fire{ID: rouse.FireID("default", "timer-1", 7, 1801386000000, false), Namespace: "default", Name: "timer-1",
		Generation: 712345, Due: 1801386000000, Attempt: 1, Token: 812345, Spec: &rouse.Spec{Target: target, Payload: payload, ContentType: "text/plain"}}
	secret := webhook.NewSecret()
	headers := deliver(b, target, &fire, nil)
	b.Run("client-headers", func(b *testing.B) { raw(b, target, payload, headers) })
	for name, secrets := range map[string][]string{"unsigned": nil, "signed": {secret}} {
		b.Run(name, func(b *testing.B) {
			s := webhook.New(webhook.Options{AllowPrivate: true, Secrets: func(string) []string { return secrets }})
			defer s.Close()
			inFlight(b, func() {
				s.Deliver(context.Background(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) {
					if o.Verdict != rouse.Done {
						b.Error(o)
					}
				})
			})
		})
	}
	b.Run("batch-100", func(b *testing.B) {
		s := webhook.New(webhook.Options{AllowPrivate: true, Secrets: func(string) []string { return []string{secret} }})
		defer s.Close()
		spec := *fire.Spec
		spec.Webhook.Batch = 100
		fires := make([]rouse.Fire, 100)
		for i := range fires {
			fires[i] = fire
			fires[i].Spec = &spec
		}
		inFlight(b, func() { s.Deliver(context.Background(), fires, func(int, rouse.Outcome) {}) })
		b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "fires/s")
	})
}

// deliver sends a fire once and returns the headers that it had.
func deliver(b *testing.B, target string, f *rouse.Fire, secrets []string) http.Header {
	got := make(chan http.Header, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.Header })}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	defer serving.Wait()
	defer srv.Close()
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	spec := *f.Spec
	spec.Target = "http://" + l.Addr().String()
	one := *f
	one.Spec = &spec
	s.Deliver(context.Background(), []rouse.Fire{one}, func(int, rouse.Outcome) {})
	h := <-got
	h.Del("Content-Length")
	return h
}

func raw(b *testing.B, target string, payload []byte, h http.Header) {
	t := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer t.CloseIdleConnections()
	c := &http.Client{Transport: t}
	inFlight(b, func() {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(payload))
		if err != nil {
			b.Error(err)
			return
		}
		if req.Header = h; h == nil {
			req.Header = http.Header{"Content-Type": {"text/plain"}}
		}
		resp, err := c.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
}

// inFlight runs one b.N times, 64 at a time.
func inFlight(b *testing.B, one func()) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				one()
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
