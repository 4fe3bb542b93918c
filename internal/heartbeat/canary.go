package heartbeat

import (
	"context"
	"log/slog"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// Key is the timer of the canary.
var Key = rouse.Key{Namespace: "rouse-canary", Name: "canary"}

// target is its target.
const target = "canary:"

// late is after how many intervals without a fire the canary is late.
const late = 3

// Canary is a timer whose fires show that the whole path works: store, claims, engine, sink.
type Canary struct {
	Every  time.Duration // 0: there is none
	Store  rouse.Store
	Timers func() *timers.Timers
}

// Run returns a function that makes the timer, or changes its interval, and then waits for the end of the
// node.
func (c Canary) Run(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for tick := time.NewTicker(c.Every); ; {
			if err := c.Make(ctx); err != nil && ctx.Err() == nil {
				log.Warn("the canary could not be made", "error", err)
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C: // a client may have deleted it
			}
		}
	}
}

// Make makes the timer, unless it is there as it should be.
func (c Canary) Make(ctx context.Context) error {
	spec := rouse.Spec{Schedule: "@every " + c.Every.String(), Target: target, Misfire: rouse.MisfireLatest}
	rows, err := c.Store.Get(ctx, []rouse.Key{Key})
	if err != nil {
		return err
	}
	if rows[0].Revision != 0 {
		if t, err := rouse.DecodeTimer(&rows[0]); err == nil && t.Spec.Schedule == spec.Schedule && !t.Paused {
			return nil
		}
	}
	results, err := c.Timers().Put(ctx, []timers.Put{{Key: Key, Spec: spec, Mode: timers.CreateOrReplace}})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// Age returns how long ago the occurrence was due that fired last, the one before the next, and whether that
// is too long. It is read from the store, so that all nodes report the same, and after a restart, too.
func (c Canary) Age(ctx context.Context) (age time.Duration, isLate bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := c.Store.Get(ctx, []rouse.Key{Key})
	if err != nil {
		return 0, false, err
	}
	now, err := c.Store.Now(ctx)
	if err != nil || rows[0].Revision == 0 { // it has just been made, or will be
		return 0, false, err
	}
	age = max(0, now.Sub(rows[0].Due.Add(-c.Every)))
	return age, age > late*c.Every, nil
}

// Seconds returns the age for the metric.
func (c Canary) Seconds() float64 {
	age, _, err := c.Age(context.Background())
	if err != nil {
		return -1
	}
	return age.Seconds()
}

// Sink is the end of the canary's path.
type Sink struct{}

// Check implements rouse.Sink.
func (Sink) Check(spec *rouse.Spec) error {
	if spec.Target != target {
		return rouse.Refuse("target", spec.Target, "is kept for the canary of rouse itself", "use another target")
	}
	return nil
}

// Lane implements rouse.Sink.
func (Sink) Lane(string, *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "canary", Limit: 16, Batch: 16}
}

// Deliver implements rouse.Sink.
func (Sink) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
}
