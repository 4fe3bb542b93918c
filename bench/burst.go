package bench

import (
	"context"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// measureBurst creates timers that are all due within one second, and measures how long after it they are all
// acknowledged.
func measureBurst(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 2)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	n := int64(o.Count)
	switch {
	case n != 0:
	case o.hasSharedStore():
		n = 100_000
	default:
		n = 1_000_000
	}
	body := newPayloads(o.Size)
	tl, log := newTally(n), historyLog{o.History}
	log.writeConfig(8 * time.Second)
	defer log.writeEnd()
	sub, err := receiveAll(ctx, t, tl, log)
	if err != nil {
		return nil, err
	}
	// The second that they are due in begins when all are surely created.
	per := time.Duration(map[string]int64{"pebble": 20, "sqlite": 60, "postgres": 100, "redis": 100}[o.storeKind()]) *
		time.Microsecond
	due := time.Now().Add(5*time.Second + time.Duration(n)*per).Truncate(time.Second)
	m := t.startMeter(ctx)
	defer m.stopMeter()
	took, err := createMany(ctx, t, t.roundToServers(4), 0, n, func(i int64) *rousev1.Spec {
		return &rousev1.Spec{Schedule: oneShotSchedule(due.Add(time.Duration(i%1000) * time.Millisecond)),
			Target: "stream:bench", Payload: body(i)}
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Timers: n}
	if time.Now().After(due) {
		r.addResultNote("creating took %v, longer than planned: the burst was under way already",
			took.Round(time.Millisecond))
	}
	if err := waitFor(ctx, time.Until(due)+2*time.Minute, func() bool { return tl.got.Load() >= n }); err != nil {
		r.addResultNote("gave up: %v", err)
	}
	r.Seconds = time.Since(due).Seconds()
	r.Rate = float64(tl.got.Load()) / r.Seconds
	m.writeUsage(r, n)
	if err := sub.closeStreams(); err != nil {
		return nil, err
	}
	tl.writeArrivals(r, n)
	if limit := map[string]float64{"pebble": 8, "sqlite": 30}[o.storeKind()]; limit > 0 {
		r.addGoal(r.Seconds <= limit, "within %.0f s", limit)
		r.addGoal(r.RSS <= 1<<30, "at most 1 GiB resident")
	}
	r.addGoal(*r.Lost == 0 && *r.Doubled == 0 && *r.Early == 0, "none lost, doubled or early")
	return r, nil
}
