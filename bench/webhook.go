package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// receiver counts POSTs in this process.
type receiver struct {
	server *http.Server
	url    string
	done   chan error
	sample atomic.Pointer[http.Header] // of the first POST
	tally  atomic.Pointer[tally]
}

func startReceiver(tl *tally) (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	rc := &receiver{url: "http://" + l.Addr().String() + "/", done: make(chan error, 1)}
	rc.tally.Store(tl)
	rc.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		now := time.Now()
		if rc.sample.Load() == nil {
			h := q.Header.Clone()
			rc.sample.Store(&h)
		}
		if due, err := time.Parse(time.RFC3339Nano, q.Header.Get("rouse-due")); err == nil {
			if i, ok := parseTimerNumber(q.Header.Get("rouse-timer")); ok {
				rc.tally.Load().recordArrival(i, due.UnixMilli(), now)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}), ReadHeaderTimeout: 10 * time.Second}
	go func() { rc.done <- rc.server.Serve(l) }()
	return rc, nil
}

func (rc *receiver) closeReceiver() {
	_ = rc.server.Close()
	<-rc.done
}

func measureWebhook(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 2)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	tl := newTally(1 << 21)
	rc, err := startReceiver(tl)
	if err != nil {
		return nil, err
	}
	defer rc.closeReceiver()
	body := newPayloads(o.Size)
	r := &Result{}

	// Ten thousand due in one second.
	n := int64(o.Count)
	n = cmp.Or(n, 10_000)
	due := time.Now().Add(3 * time.Second).Truncate(time.Second)
	if _, err = createMany(ctx, t, t.roundToServers(2), 0, n, func(i int64) *rousev1.Spec {
		return &rousev1.Spec{Schedule: oneShotSchedule(due.Add(time.Duration(i%1000) * time.Millisecond)), Target: rc.url,
			Payload: body(i)}
	}); err != nil {
		return nil, err
	}
	if time.Now().After(due) {
		return nil, errors.New("creating took so long that some were due already")
	}
	if err := waitFor(ctx, time.Minute, func() bool { return tl.got.Load() >= n }); err != nil {
		return nil, fmt.Errorf("%d of %d came: %w", tl.got.Load(), n, err)
	}
	first := time.Since(due)
	tl.writeArrivals(r, n)
	worst := r.Lag.Max
	r.addResultNote("%d due in one second: all delivered %.3f s after it began, lag at most %.1f ms", n,
		first.Seconds(), worst)
	if o.base == nil {
		r.addGoal(worst <= 1000, "%d due in one second: all within 1 s", n)
	}

	// Sustained: created by stream, due at once, as fast as they are delivered.
	tl.mu.Lock()
	tl.lag = lagHistogram{}
	tl.mu.Unlock()
	var next, acked atomic.Int64
	next.Store(n)
	end := time.Now().Add(time.Second + o.Duration)
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		cr, err := newCreator(cctx, t.timersClient(0), 64, &acked, nil)
		if err != nil {
			failed = err
			return
		}
		for time.Now().Before(end) && failed == nil {
			if next.Load()-tl.got.Load() > 20_000 {
				time.Sleep(time.Millisecond)
				continue
			}
			from := next.Add(perMessage) - perMessage
			msg := make([]*rousev1.NewTimer, perMessage)
			now := time.Now()
			for i := range msg {
				wait := 100*time.Millisecond + time.Duration(rand.IntN(200))*time.Millisecond
				msg[i] = &rousev1.NewTimer{Name: benchTimerName(from + int64(i)),
					Spec: &rousev1.Spec{Schedule: oneShotSchedule(now.Add(wait)), Target: rc.url, Payload: body(from + int64(i))}}
			}
			failed = cr.sendCreates(cctx, msg)
		}
		failed = errors.Join(failed, cr.finishCreates())
	})
	time.Sleep(time.Second)
	m := t.startMeter(ctx)
	defer m.stopMeter()
	before, began := tl.got.Load(), time.Now()
	time.Sleep(time.Until(end))
	r.Timers = tl.got.Load() - before
	r.Seconds = time.Since(began).Seconds()
	r.Rate = float64(r.Timers) / r.Seconds
	m.writeUsage(r, r.Timers)
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	if err := waitFor(ctx, 30*time.Second, func() bool { return tl.got.Load() >= next.Load() }); err != nil {
		r.addResultNote("gave up waiting for %d timers", next.Load()-tl.got.Load())
	}
	tl.writeArrivals(r, next.Load())
	raw, err := rawPosts(ctx, rc, body(0), o.Duration/2)
	if err != nil {
		return nil, err
	}
	r.setRawLimits([]Raw{raw})
	if o.storeKind() == "pebble" {
		r.addGoal(r.Rate >= 25_000, "sustained at least 25,000/s")
	}
	r.addGoal(*r.Lost == 0 && *r.Doubled == 0 && *r.Early == 0, "none lost, doubled or early")
	return r, nil
}

// rawPosts measures net/http from this process to the same receiver, with the headers of a fire. The receiver
// judges them as it judges fires.
func rawPosts(ctx context.Context, rc *receiver, body []byte, d time.Duration) (Raw, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight, MaxIdleConns: inFlight,
		DisableCompression: true}}
	defer client.CloseIdleConnections()
	rc.tally.Store(newTally(0))
	header := rc.sample.Load().Clone()
	header.Del("Content-Length")
	before := processUsage(os.Getpid()).cpu
	n, took, err := repeatCalls(ctx, d, func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, rc.url, newReader(body))
		if err != nil {
			return err
		}
		q.Header = header // nothing changes it
		resp, err := client.Do(q)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	return Raw{What: "POSTs by net/http to the same receiver, with the same headers, 64 in flight",
		Rate: float64(n) / took.Seconds(),
		CPU:  perTimer(processUsage(os.Getpid()).cpu-before, n)}, err
}
