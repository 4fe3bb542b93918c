package crash

import (
	"context"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// writer leads timers through their lives.
type writer struct {
	*load
	*harness.Writer
}

// lives sets how often timers of each kind are made.
func (w *writer) lives() []harness.Life {
	return []harness.Life{
		harness.NewLife(25, "once", w.once),
		harness.NewLife(8, "series", w.series),
		harness.NewLife(8, "every", w.every),
		harness.NewLife(10, "moved", w.moved),
		harness.NewLife(7, "removed", w.removed),
		harness.NewLife(5, "far", w.far),
		harness.NewLife(6, "overlapping", w.overlapping),
		harness.NewLife(6, "deadline", w.deadline),
		harness.NewLife(5, "patient", w.patient),
		harness.NewLife(4, "calm", w.calm),
		harness.NewLife(4, "rare", w.rare),
		harness.NewLife(4, "paused", w.paused),
		harness.NewLife(3, "again", w.again),
		harness.NewLife(2, "skipped", w.skipped),
		harness.NewLife(2, "asked", w.asked),
		harness.NewLife(1, "doomed", w.doomed),
	}
}

// make creates a timer. If the outcome is unknown, it is sometimes written again.
func (w *writer) make(name, target string, at harness.When) {
	_, res := w.Put(name, target, at, false)
	for res == history.Info && w.Calling.Err() == nil && w.R.IntN(2) == 0 {
		_, res = w.Put(name, target, w.In(w.Between(100, 1500)), true)
	}
}

// once is a timer that fires and ends. No other call changes it, so all of these must arrive.
func (w *writer) once(ctx context.Context, name string) {
	w.make(name, w.Target(), w.In(w.Between(50, 2500)))
	if w.R.IntN(3) == 0 {
		w.Get(name)
	}
}

// series is a timer that fires a few times and ends: all of them must arrive, however often the server is
// killed.
func (w *writer) series(_ context.Context, name string) {
	w.Put(name, w.Target(), w.Series(4, 500*time.Millisecond), false)
}

// every fires until it is deleted.
func (w *writer) every(ctx context.Context, name string) {
	at := w.each(200, 700)
	if w.R.IntN(2) == 0 {
		at.Spec.Misfire = history.MisfireLatest
	}
	w.Put(name, w.Target(), at, false)
	w.Pause(ctx, w.Between(300, 2000))
	w.Get(name)
	w.Remove(name)
}

// moved is a timer that is replaced, before or after it fired.
func (w *writer) moved(ctx context.Context, name string) {
	w.make(name, w.Target(), w.In(w.Between(50, 1500)))
	w.Pause(ctx, w.Between(0, 500))
	w.Put(name, w.Target(), w.In(w.Between(1501, 2500)), true) // at another time than before, or it would be the same generation
	w.Get(name)
}

// removed is a timer that is deleted, before or after it fired, and sometimes made again.
func (w *writer) removed(ctx context.Context, name string) {
	w.make(name, w.Target(), w.In(w.Between(50, 1500)))
	w.Pause(ctx, w.Between(0, 500))
	w.Remove(name)
	w.Get(name)
	if w.R.IntN(3) == 0 {
		w.make(name, w.Target(), w.In(w.Between(50, 1000)))
	}
}

// far is a timer that is not due while the test runs; the final listing must have it.
func (w *writer) far(ctx context.Context, name string) {
	w.Put(name, w.Target(), w.In(time.Hour), false)
	switch w.R.IntN(4) {
	case 0:
		w.Put(name, w.Target(), w.In(2*time.Hour), true)
	case 1:
		w.Remove(name)
	}
}
