package engine_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/rousetest/history"
)

// client works on one timer, one call at a time, each through any node.
func (w *simulation) client(ctx context.Context, name string) {
	for ctx.Err() == nil {
		if !backoff.Sleep(ctx, time.Duration(w.intn(4000))*time.Millisecond) {
			return
		}
		e := w.current()
		if e == nil {
			continue
		}
		switch n := w.intn(20); {
		case n < 7:
			w.create(ctx, e, name)
		case n < 9:
			w.delete(ctx, e, name)
		case n < 12:
			w.get(ctx, e, name)
		case n < 14:
			w.pause(ctx, e, name)
		case n < 16:
			w.resume(ctx, e, name)
		case n < 18:
			w.skip(ctx, e, name)
		default:
			w.runNow(ctx, e, name)
		}
	}
}

// result is what a client knows after a call that returned err.
func result(err error) history.Res {
	var invalid *rouse.Invalid
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, rouse.ErrNotFound), errors.Is(err, rouse.ErrConflict), errors.As(err, &invalid):
		return history.Fail
	}
	return history.Info
}

func (w *simulation) create(ctx context.Context, e *timers.Timers, name string) {
	w.mu.Lock()
	w.last++
	gen := w.last
	w.mu.Unlock()
	p := timers.Put{Key: key(name), Mode: timers.CreateOrReplace, Spec: rouse.Spec{Target: "sim:" + name[:1], Payload: []byte(strconv.FormatUint(gen, 10)),
		Retry: rouse.Retry{Attempts: 3, Interval: 100 * time.Millisecond, Jitter: 50 * time.Millisecond}}}
	if callsBack(name) {
		p.Spec.OnSuccess, p.Spec.OnFailure = "sim:callbacks", "sim:callbacks"
	}
	ev := history.Put{Replace: true, Timer: name, Gen: gen, T0: w.now(), Spec: history.Spec{MaxAttempts: 3, Serial: true}}
	switch w.intn(3) {
	case 0:
		d := time.Duration(1+w.intn(200)) * 100 * time.Millisecond
		p.Spec.Schedule, ev.Spec.Delay = "@after "+d.String(), d
	case 1:
		at := time.Now().Add(time.Duration(w.intn(20_000)) * time.Millisecond).Truncate(time.Millisecond)
		p.Spec.Schedule, ev.Spec.At = at.UTC().Format(time.RFC3339Nano), history.At(at)
	default:
		d := time.Duration(1+w.intn(5)) * time.Second
		p.Spec.Schedule, p.Spec.Overlap, ev.Spec.Every, ev.Spec.Misfire = "@every "+d.String(), rouse.OverlapWait, d, history.MisfireLatest
	}
	w.seen(w.writes, name, w.now())
	res, err := e.Put(ctx, []timers.Put{p})
	ev.T1 = w.now()
	switch {
	case err != nil:
		ev.Res = history.Info
	case res[0].Err != nil:
		ev.Res = history.Fail
	default:
		ev.Res, ev.Due, ev.InFlight = history.OK, history.At(res[0].Timer.Due.Time()), res[0].InFlight
		w.number(res[0].Timer.Generation, p.Spec.Payload)
	}
	w.write(ev)
}

func (w *simulation) delete(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Delete{Timer: name, T0: w.now()}
	d, err := e.Delete(ctx, key(name), 0)
	w.seen(w.writes, name, w.now())
	ev.T1, ev.Res = w.now(), result(err)
	if err == nil {
		ev.InFlight = d.InFlight
	}
	w.write(ev)
}

func (w *simulation) get(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Get{Timer: name, T0: w.now()}
	tm, err := e.Get(ctx, key(name))
	ev.T1 = w.now()
	switch {
	case err == nil:
		ev.Res = history.OK
		ev.Gen = w.number(tm.Generation, tm.Spec.Payload)
	case errors.Is(err, rouse.ErrNotFound):
		ev.Res = history.NotFound
	default:
		ev.Res = history.Info
	}
	w.write(ev)
}

func (w *simulation) pause(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Pause{Timer: name, T0: w.now()}
	var until rouse.Instant
	if w.intn(2) == 0 {
		until = rouse.At(time.Now().Add(time.Duration(1000+w.intn(8000)) * time.Millisecond))
		ev.Until = history.At(until.Time())
		w.seen(w.pauseEnds, name, ev.Until)
	}
	_, err := e.Pause(ctx, key(name), "", until)
	w.seen(w.edits, name, w.now())
	ev.T1, ev.Res = w.now(), result(err)
	w.write(ev)
}

func (w *simulation) resume(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Resume{Timer: name, T0: w.now()}
	_, err := e.Resume(ctx, key(name))
	w.seen(w.edits, name, w.now())
	ev.T1, ev.Res = w.now(), result(err)
	w.write(ev)
}

func (w *simulation) skip(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Skip{Timer: name, Count: 1 + w.intn(2), T0: w.now()}
	_, err := e.Skip(ctx, key(name), uint32(ev.Count), "")
	w.seen(w.edits, name, w.now())
	ev.T1, ev.Res = w.now(), result(err)
	w.write(ev)
}

func (w *simulation) runNow(ctx context.Context, e *timers.Timers, name string) {
	ev := history.Run{Timer: name, T0: w.now()}
	id, due, err := e.RunNow(ctx, key(name))
	w.seen(w.edits, name, w.now())
	ev.T1, ev.Res = w.now(), result(err)
	if err == nil {
		ev.Key, ev.Due = id, history.At(due.Time())
	}
	w.write(ev)
}
