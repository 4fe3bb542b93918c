package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// measurePipeline creates timers that are due within a second, as fast as they are settled: create, fire and
// acknowledge, over streams.
func measurePipeline(ctx context.Context, o Options) (*Result, error) {
	r, err := measureFlow(ctx, o, 0)
	if err != nil {
		return nil, err
	}
	if o.Server == "" {
		raws, others := make([]Raw, 1), []Raw(nil)
		if o.base != nil {
			raws, others, err = rawPipelines(ctx, o, r)
		} else {
			raws[0], err = rawPipeline(ctx, o, max(200_000, r.Timers/2), 1000)
		}
		if err != nil {
			return nil, err
		}
		r.setRawLimits(raws)
		r.Raws = append(r.Raws, others...)
		if least := leastPipeline[o.storeKind()+" "+o.Strategy]; least > 0 {
			r.addGoal(r.Rate >= least, "at least %.0f/s", least)
		}
		if o.storeKind() == "pebble" {
			r.addGoal(r.ServiceCPU <= 12, "at most 12 µs of CPU a timer in the service")
		}
	}
	return r, nil
}

// leastPipeline is how many timers a second are to go through, by store and strategy.
var leastPipeline = map[string]float64{
	"pebble bucket": 120_000, "sqlite bucket": 35_000, "postgres bucket": 40_000, "postgres lease": 20_000,
	"redis bucket": 50_000,
}

// measureLag creates timers at a steady rate, due one to two seconds later, and measures how late they come.
func measureLag(ctx context.Context, o Options) (*Result, error) {
	if o.Rate == 0 {
		o.Rate = 5000
		if o.hasSharedStore() {
			o.Rate = sharedRate
		}
	}
	r, err := measureFlow(ctx, o, o.Rate)
	if err != nil {
		return nil, err
	}
	r.addResultNote("at a steady %d/s", o.Rate)
	if o.Server == "" && r.Lag != nil {
		limit := map[string]float64{"pebble": 10, "sqlite": 20}[o.storeKind()]
		if limit > 0 && o.Rate > 5000 {
			limit = 50
		}
		if limit > 0 {
			r.addGoal(r.Lag.P99 <= limit, "p99 at most %.0f ms", limit)
		}
		r.addGoal(*r.Early == 0, "none early")
	}
	return r, nil
}

// sharedRate is how many fires a second lag and failover have on a store that nodes share.
const sharedRate = 2000

// outstanding bounds the timers of a sustained run that are created and not acknowledged. As they wait for
// 0.6 s on the average, it bounds the rate as well: at three times the rate that a store is to reach, or
// more.
const (
	outstanding       = 150_000
	sharedOutstanding = 75_000
)

// measureFlow creates, receives and settles for o.Duration, at a rate per second or (0) as fast as it goes.
// Before, it warms up: until fires have come for a second, or for three seconds at a rate.
func measureFlow(ctx context.Context, o Options, rate int) (*Result, error) {
	t, err := openTarget(ctx, o, 2)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	body := newPayloads(o.Size)
	tl, log := newTally(1<<22), historyLog{o.History}
	log.writeConfig(2 * time.Second)
	defer log.writeEnd()
	sub, err := receiveAll(ctx, t, tl, log)
	if err != nil {
		return nil, err
	}
	var next, acked, late atomic.Int64
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
	}()
	var enough atomic.Bool
	bound := int64(outstanding)
	if o.hasSharedStore() {
		bound = sharedOutstanding
	}
	streams := t.roundToServers(2)
	errs := make([]error, streams)
	for s := range streams {
		wg.Go(func() {
			errs[s] = func() error {
				cr, err := newCreator(ctx, t.timersClient(s), 64, &acked, func(resp *rousev1.BatchCreateResponse, sent time.Time) {
					log.writeCreates(resp, sent)
					now := time.Now().UnixMilli()
					for _, c := range resp.Created {
						if c.DueMs <= now {
							late.Add(1) // was due before it was acknowledged: not a fair measure of lag
						}
					}
				})
				if err != nil {
					return err
				}
				for !enough.Load() && ctx.Err() == nil {
					if rate == 0 {
						if next.Load()-tl.got.Load() > bound {
							time.Sleep(time.Millisecond)
							continue
						}
					} else if due := int64(time.Since(began).Seconds() * float64(rate)); next.Load() >= due {
						time.Sleep(time.Millisecond)
						continue
					}
					n := int64(perMessage)
					if rate > 0 {
						n = int64(cmp.Or(o.Batch, min(perMessage, max(1, rate/500))))
					}
					from := next.Add(n) - n
					msg := make([]*rousev1.NewTimer, n)
					now := time.Now()
					for i := range msg {
						wait := 200*time.Millisecond + time.Duration(rand.IntN(800))*time.Millisecond
						if rate > 0 {
							wait += 800 * time.Millisecond
						}
						msg[i] = &rousev1.NewTimer{Name: benchTimerName(from + int64(i)),
							Spec: &rousev1.Spec{Schedule: oneShotSchedule(now.Add(wait)), Target: "stream:bench",
								Payload: body(from + int64(i))}}
					}
					if err := cr.sendCreates(ctx, msg); err != nil {
						return errors.Join(err, cr.finishCreates())
					}
				}
				return cr.finishCreates()
			}()
		})
	}
	warmth := 3 * time.Second
	if rate == 0 {
		warmth = time.Second
		if err := waitFor(ctx, patience, func() bool { return tl.got.Load() > 0 }); err != nil {
			cancel()
			wg.Wait()
			return nil, errors.Join(fmt.Errorf("the first fire: %w", err), errors.Join(errs...))
		}
	}
	if err := sleepContext(ctx, warmth); err != nil {
		return nil, err
	}
	m := t.startMeter(ctx)
	defer m.stopMeter()
	first, warm := tl.got.Load(), time.Now()
	tl.startMeasuring(warm)
	if err := sleepContext(ctx, o.Duration); err != nil {
		return nil, err
	}
	n := tl.got.Load() - first
	took := time.Since(warm)
	enough.Store(true)
	r := &Result{Timers: n, Seconds: took.Seconds(), Rate: float64(n) / took.Seconds()}
	m.writeUsage(r, n)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !waitUntilDrained(ctx, tl, acked.Load()) {
		r.addResultNote("gave up waiting for %d of %d timers", acked.Load()-tl.got.Load(), acked.Load())
	}
	if err := sub.closeStreams(); err != nil {
		return nil, err
	}
	tl.writeArrivals(r, next.Load())
	if l := late.Load(); l > 0 {
		r.addResultNote("%d timers were due before their create was acknowledged", l)
	}
	return r, nil
}

// waitUntilDrained waits until n timers have come, as long as some come every now and then.
func waitUntilDrained(ctx context.Context, tl *tally, n int64) bool {
	for had := int64(-1); tl.got.Load() > had; {
		had = tl.got.Load()
		if waitFor(ctx, 15*time.Second, func() bool { return tl.got.Load() >= n }) == nil {
			return true
		}
	}
	return false
}

// waitFor calls ok every 5 ms until it returns true.
func waitFor(ctx context.Context, limit time.Duration, ok func() bool) error {
	for deadline := time.Now().Add(limit); !ok(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v", limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
