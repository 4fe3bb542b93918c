package bench

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Lag is how late fires were, in milliseconds.
type Lag struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p99_9_ms"`
	Max  float64 `json:"max_ms"`
}

// tally judges arrivals: how often each timer did, and how late.
type tally struct {
	early atomic.Int64
	got   atomic.Int64 // distinct timers

	mu    sync.Mutex
	seen  []uint8 // by timer
	dup   int64
	lag   lagHistogram
	since time.Time // fires due earlier are not measured
}

func newTally(n int64) *tally { return &tally{seen: make([]uint8, n)} }

// recordArrival notes timer i, due at due, at now.
func (t *tally) recordArrival(i int64, due int64, now time.Time) {
	late := now.Sub(time.UnixMilli(due))
	if late < 0 {
		t.early.Add(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for int64(len(t.seen)) <= i {
		t.seen = append(t.seen, make([]uint8, 1<<20)...)
	}
	if t.seen[i] > 0 {
		t.dup++
	} else {
		t.got.Add(1)
	}
	t.seen[i] = min(t.seen[i]+1, 255)
	if !time.UnixMilli(due).Before(t.since) {
		t.lag.recordLag(late)
	}
}

// startMeasuring begins to measure: fires that are due earlier do not count.
func (t *tally) startMeasuring(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = since
	t.lag = lagHistogram{}
}

// writeArrivals writes the judgement into r: of the first n timers those that never came are lost.
func (t *tally) writeArrivals(r *Result, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost, early, dup := int64(0), t.early.Load(), t.dup
	for i := range n {
		if i >= int64(len(t.seen)) || t.seen[i] == 0 {
			lost++
		}
	}
	r.Lost, r.Early, r.Doubled = &lost, &early, &dup
	if t.lag.n > 0 {
		r.Lag = t.lag.lagSummary()
	}
}

// lagHistogram counts durations in buckets of a 32nd of their magnitude.
type lagHistogram struct {
	counts [64 * 32]int64
	n      int64
	max    time.Duration
}

func (h *lagHistogram) recordLag(d time.Duration) {
	us := uint64(max(d, 0).Microseconds())
	h.counts[bucketOf(us)]++
	h.n++
	h.max = max(h.max, d)
}

func bucketOf(v uint64) int {
	if v < 32 {
		return int(v)
	}
	shift := bits.Len64(v) - 6
	return (shift+1)*32 + int(v>>shift) - 32
}

func bucketTop(i int) uint64 {
	if i < 32 {
		return uint64(i)
	}
	shift := i/32 - 1
	return uint64(i%32+33)<<shift - 1
}

func (h *lagHistogram) lagQuantile(q float64) time.Duration {
	want := int64(q * float64(h.n))
	var sum int64
	for i, c := range h.counts {
		if sum += c; sum > want {
			return min(time.Duration(bucketTop(i))*time.Microsecond, h.max)
		}
	}
	return h.max
}

func (h *lagHistogram) lagSummary() *Lag {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &Lag{P50: ms(h.lagQuantile(.5)), P99: ms(h.lagQuantile(.99)), P999: ms(h.lagQuantile(.999)), Max: ms(h.max)}
}

// subscriber takes fires from streams and acknowledges each message at once.
type subscriber struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	errs   []error       // by stream
	lost   []atomic.Bool // its node is stopped: that its stream ends is no error
}

// subscribeStreams opens n streams for a channel, one server after the other; onFires is called with the
// stream's number and each message, concurrently between streams.
func subscribeStreams(ctx context.Context, t *target, n int, channel string,
	onFires func(stream int, fires []*rousev1.Fire, now time.Time)) (*subscriber, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscriber{cancel: cancel, errs: make([]error, n), lost: make([]atomic.Bool, n)}
	for i := range n {
		stream, err := t.firesClient(i).Subscribe(ctx)
		if err == nil {
			err = stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{
				Open: &rousev1.Open{Namespace: namespace, Channel: channel, Credits: 20_000}}})
		}
		if err != nil {
			return nil, errors.Join(err, s.closeStreams())
		}
		s.wg.Go(func() {
			for {
				resp, err := stream.Recv()
				if err != nil {
					if ctx.Err() == nil && !errors.Is(err, io.EOF) {
						if !s.lost[i].Load() {
							s.errs[i] = err
						}
					}
					return
				}
				now := time.Now()
				tags := make([]uint64, len(resp.Fires))
				for j, f := range resp.Fires {
					tags[j] = f.Tag
				}
				if onFires != nil {
					onFires(i, resp.Fires, now)
				}
				if err := stream.Send(
					&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: &rousev1.Settle{Done: tags}}}); err != nil {
					return
				}
			}
		})
	}
	return s, nil
}

// receiveAll takes the fires of the scenarios' timers, judges them and writes them down.
func receiveAll(ctx context.Context, t *target, tl *tally, log historyLog) (*subscriber, error) {
	return subscribeStreams(ctx, t, t.roundToServers(2), "bench", func(_ int, fires []*rousev1.Fire, now time.Time) {
		log.writeFires(fires, now)
		for _, f := range fires {
			if i, ok := parseTimerNumber(f.Name); ok {
				tl.recordArrival(i, f.DueMs, now)
			}
		}
	})
}

func (s *subscriber) closeStreams() error {
	s.cancel()
	s.wg.Wait()
	return errors.Join(s.errs...)
}
