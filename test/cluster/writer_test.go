package cluster

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// writer leads timers through their lives. After a write with an unknown outcome, a name is only deleted: a
// node that was suspended may still make an old write.
type writer struct {
	*load
	*harness.Writer
}

// lives sets how often timers of each kind are made.
func (w *writer) lives() []harness.Life {
	return []harness.Life{
		harness.NewLife(37, "once", w.once),
		harness.NewLife(15, "series", w.series),
		harness.NewLife(15, "every", w.every),
		harness.NewLife(15, "moved", w.moved),
		harness.NewLife(13, "removed", w.removed),
		harness.NewLife(5, "far", w.far),
	}
}

// write creates or replaces a timer, and reports whether that is sure.
func (w *writer) write(name string, at harness.When, replace bool) bool {
	_, sure := w.writeTimer(name, at, replace)
	return sure
}

// writeTimer is write that returns the timer as it was answered.
func (w *writer) writeTimer(name string, at harness.When, replace bool) (made rouse.Timer, sure bool) {
	made, res := w.Put(name, w.Target(), at, replace)
	if res == history.Info {
		w.Unsure = append(w.Unsure, name)
	}
	return made, res == history.OK
}

// once is a timer that fires and ends. No other call changes it, so all of these must arrive.
func (w *writer) once(ctx context.Context, name string) {
	longest := 2500
	if w.R.IntN(3) == 0 {
		longest = 6000 // so that another node fires it if its node dies
	}
	if w.write(name, w.In(w.Between(20, longest)), false) && w.R.IntN(3) == 0 {
		w.Get(name)
	}
}

// series is a timer that fires a few times and ends: all of them must arrive, regardless of which nodes die.
func (w *writer) series(_ context.Context, name string) {
	w.write(name, w.Series(5, 600*time.Millisecond), false)
}

// every fires until it is deleted.
func (w *writer) every(ctx context.Context, name string) {
	at := harness.Every(w.Between(200, 700))
	if w.R.IntN(2) == 0 {
		at.Spec.Misfire = history.MisfireLatest
	}
	if w.write(name, at, false) {
		w.Pause(ctx, w.Between(300, 3000))
		w.Get(name)
	}
	w.Remove(name)
}

// moved is a timer that is replaced, before or after it fired; sometimes by one that is due at the same time,
// so that its generation goes on, if it has not ended.
func (w *writer) moved(ctx context.Context, name string) {
	made, sure := w.writeTimer(name, w.In(w.Between(20, 2000)), false)
	if !sure {
		return
	}
	w.Pause(ctx, w.Between(0, 700))
	to := w.In(w.Between(20, 2000))
	if w.R.IntN(4) == 0 {
		to = harness.Once(made.Due)
	}
	if w.write(name, to, true) {
		w.Get(name)
	}
}

// removed is a timer that is deleted, before or after it fired, and sometimes made again.
func (w *writer) removed(ctx context.Context, name string) {
	if !w.write(name, w.In(w.Between(20, 2000)), false) {
		return
	}
	w.Pause(ctx, w.Between(0, 700))
	if !w.Remove(name) {
		return
	}
	w.Get(name)
	if w.R.IntN(3) == 0 {
		w.write(name, w.In(w.Between(20, 1000)), false)
	}
}

// far is a timer that is not due while the test runs; the final listing must have it.
func (w *writer) far(ctx context.Context, name string) {
	if !w.write(name, w.In(time.Hour), false) {
		return
	}
	switch w.R.IntN(4) {
	case 0:
		w.write(name, w.In(2*time.Hour), true)
	case 1:
		w.Remove(name)
	}
}
