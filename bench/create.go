package bench

import (
	"cmp"
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// farDueTime is a due time that no run reaches: from a day on, over thirty days, and far from that of the
// timer before.
func farDueTime(i int64) time.Time {
	const scatter, over = 1_500_000_001, 2_592_000 // without a common factor
	return time.Now().Add(24*time.Hour + time.Duration(i%over*scatter%over)*time.Second)
}

func createBatch(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 2)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	body := newPayloads(o.Size)
	n := int64(o.Count)
	if n == 0 {
		n = 100_000
		if o.hasSharedStore() {
			n = 30_000
		}
		n *= int64(max(1, o.Duration/time.Second))
	}
	spec := func(i int64) *rousev1.Spec {
		return &rousev1.Spec{Schedule: oneShotSchedule(farDueTime(i)), Target: "stream:bench", Payload: body(i)}
	}
	if _, err := createMany(ctx, t, t.roundToServers(4), 0, min(n/10, 50_000), spec); err != nil { // warms up
		return nil, err
	}
	m := t.startMeter(ctx)
	defer m.stopMeter()
	took, err := createMany(ctx, t, t.roundToServers(4), 1_000_000_000, n, spec)
	if err != nil {
		return nil, err
	}
	r := &Result{Timers: n, Seconds: took.Seconds(), Rate: float64(n) / took.Seconds()}
	m.writeUsage(r, n)
	t.closeTarget()
	if o.Server == "" {
		raws := make([]Raw, 1)
		if o.base != nil {
			raws, err = rawCreates(ctx, o, r)
		} else {
			raws[0], err = rawCreate(ctx, o, n, 1000)
		}
		if err != nil {
			return nil, err
		}
		r.setRawLimits(raws)
		if least := map[string]float64{"pebble": 150_000, "sqlite": 60_000}[o.storeKind()]; least > 0 {
			r.addGoal(r.Rate >= least, "at least %.0f/s", least)
		}
		if o.storeKind() != "redis" {
			r.addGoal(r.Ratio >= .6, "at least 60 %% of raw")
		}
	}
	return r, nil
}

func createSingle(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	body := newPayloads(o.Size)
	var clients []rousev1.TimersClient
	var healths []grpc_health_v1.HealthClient
	for i, c := range t.conns {
		clients, healths = append(clients, t.timersClient(i)), append(healths, grpc_health_v1.NewHealthClient(c))
	}
	var seq, asked atomic.Int64
	var mu sync.Mutex
	var latency lagHistogram
	create := func(ctx context.Context) error {
		i, began := seq.Add(1), time.Now()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			latency.recordLag(time.Since(began))
		}()
		_, err := clients[i%int64(len(clients))].Create(ctx,
			&rousev1.CreateRequest{Namespace: namespace, Name: benchTimerName(i),
				Spec: &rousev1.Spec{Schedule: oneShotSchedule(farDueTime(i)), Target: "stream:bench", Payload: body(i)}})
		return err
	}
	empty := func(ctx context.Context) error {
		_, err := healths[asked.Add(1)%int64(len(healths))].Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	if _, _, err := repeatCalls(ctx, time.Second, create); err != nil {
		return nil, err
	}
	// The two take turns, so that both see the same machine.
	r, raw := &Result{}, &Raw{What: "empty gRPC calls, 64 in flight, same connections"}
	var rawN int64
	var rawTime time.Duration
	m := t.startMeter(ctx)
	defer m.stopMeter()
	latency = lagHistogram{}
	var cpu, self, rawCPU time.Duration
	used := func() time.Duration { return processUsage(os.Getpid()).cpu }
	for range 4 {
		before, selfBefore := t.serversUsage().cpu, used()
		n, took, err := repeatCalls(ctx, o.Duration/4, create)
		if err != nil {
			return nil, err
		}
		cpu += t.serversUsage().cpu - before
		self += used() - selfBefore
		before, selfBefore = t.serversUsage().cpu, used()
		r.Timers += n
		r.Seconds += took.Seconds()
		if n, took, err = repeatCalls(ctx, o.Duration/8, empty); err != nil {
			return nil, err
		}
		rawN, rawTime = rawN+n, rawTime+took
		rawCPU += t.serversUsage().cpu - before + used() - selfBefore
	}
	m.writeUsage(r, r.Timers)
	r.ServiceCPU, r.BenchCPU, r.Latency = perTimer(cpu, r.Timers), perTimer(self, r.Timers), latency.lagSummary()
	r.Rate = float64(r.Timers) / r.Seconds
	raw.Rate, raw.CPU = float64(rawN)/rawTime.Seconds(), perTimer(rawCPU, rawN)
	r.setRawLimits([]Raw{*raw})
	if least := map[string]float64{"pebble": 18_000, "sqlite": 12_000}[o.storeKind()]; least > 0 {
		r.addGoal(r.Rate >= least, "at least %.0f/s", least)
		r.addGoal(r.Ratio >= .65, "at least 65 %% of empty calls")
	}
	return r, nil
}

// inFlight is how many calls are made at a time.
const inFlight = 64

// repeatCalls makes calls from inFlight goroutines for a time.
func repeatCalls(ctx context.Context, d time.Duration,
	call func(context.Context) error) (int64, time.Duration, error) {
	var count atomic.Int64
	began := time.Now()
	errs := make([]error, inFlight)
	var wg sync.WaitGroup
	for i := range inFlight {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				if errs[i] = call(ctx); errs[i] != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return count.Load(), time.Since(began), cmp.Or(append(errs, ctx.Err())...)
}
