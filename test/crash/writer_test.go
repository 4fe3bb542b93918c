package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// writer leads timers through their lives, one timer after another.
type writer struct {
	*load
	id, n  int
	r      *rand.Rand
	unsure []string // names whose end is not certain
}

// lives sets how often timers of each kind are made, in a hundred.
var lives = []struct {
	percent int
	kind    string
	live    func(w *writer, ctx context.Context, name string)
}{
	{25, "once", (*writer).once},
	{8, "series", (*writer).series},
	{8, "every", (*writer).every},
	{10, "moved", (*writer).moved},
	{7, "removed", (*writer).removed},
	{5, "far", (*writer).far},
	{6, "overlapping", (*writer).overlapping},
	{6, "deadline", (*writer).deadline},
	{5, "patient", (*writer).patient},
	{4, "calm", (*writer).calm},
	{4, "rare", (*writer).rare},
	{4, "paused", (*writer).paused},
	{3, "again", (*writer).again},
	{2, "skipped", (*writer).skipped},
	{2, "asked", (*writer).asked},
	{1, "doomed", (*writer).doomed},
}

// run makes timers until ctx ends, and then finishes what it has begun.
func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		dice := w.r.IntN(100)
		for _, l := range lives {
			if dice -= l.percent; dice < 0 {
				w.n++
				l.live(w, ctx, fmt.Sprintf("%s-%02d-%04d", l.kind, w.id, w.n))
				break
			}
		}
		w.pause(ctx, w.between(10, 50))
	}
	for _, name := range w.unsure {
		w.remove(name)
	}
}

// pause waits for d, or until ctx ends.
func (w *writer) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (w *writer) between(from, to int) time.Duration {
	return time.Duration(from+w.r.IntN(to-from)) * time.Millisecond
}

// target is the HTTP receiver or the subscriber.
func (w *writer) target() string {
	if w.r.IntN(3) == 0 {
		return "stream:" + channel
	}
	return w.url
}

// in is a single shot, given as a delay or as an instant.
func (w *writer) in(d time.Duration) when {
	if w.r.IntN(2) == 0 {
		return when{text: "@after " + d.String(), spec: history.Spec{Delay: d}}
	}
	at := rouse.At(time.Now().Add(d))
	return when{text: at.String(), spec: history.Spec{At: harness.Moment(at)}}
}

// make creates a timer. If the outcome is unknown, it is sometimes written again.
func (w *writer) make(name, target string, at when) {
	_, res := w.put(name, target, at, false)
	for res == history.Info && w.calling.Err() == nil && w.r.IntN(2) == 0 {
		_, res = w.put(name, target, w.in(w.between(100, 1500)), true)
	}
}

// once is a timer that fires and ends. No other call changes it, so all of these must arrive.
func (w *writer) once(ctx context.Context, name string) {
	w.make(name, w.target(), w.in(w.between(50, 2500)))
	if w.r.IntN(3) == 0 {
		w.get(name)
	}
}

// series is a timer that fires a few times and ends: all of them must arrive, however often the server is
// killed.
func (w *writer) series(ctx context.Context, name string) {
	const times, step = 4, 500 * time.Millisecond
	start := rouse.At(time.Now().Add(w.between(100, 800)))
	w.put(name, w.target(), when{
		text: fmt.Sprintf("R%d/%s/PT0.5S", times, start),
		spec: history.Spec{Every: step, Start: harness.Moment(start), Until: harness.Moment(start.Add((times - 1) * step)), Misfire: history.MisfireAll},
	}, false)
}

// every fires until it is deleted.
func (w *writer) every(ctx context.Context, name string) {
	at := w.each(200, 700)
	if w.r.IntN(2) == 0 {
		at.spec.Misfire = history.MisfireLatest
	}
	w.put(name, w.target(), at, false)
	w.pause(ctx, w.between(300, 2000))
	w.get(name)
	w.remove(name)
}

// moved is a timer that is replaced, before or after it fired.
func (w *writer) moved(ctx context.Context, name string) {
	w.make(name, w.target(), w.in(w.between(50, 1500)))
	w.pause(ctx, w.between(0, 500))
	w.put(name, w.target(), w.in(w.between(50, 1500)), true)
	w.get(name)
}

// removed is a timer that is deleted, before or after it fired, and sometimes made again.
func (w *writer) removed(ctx context.Context, name string) {
	w.make(name, w.target(), w.in(w.between(50, 1500)))
	w.pause(ctx, w.between(0, 500))
	w.remove(name)
	w.get(name)
	if w.r.IntN(3) == 0 {
		w.make(name, w.target(), w.in(w.between(50, 1000)))
	}
}

// far is a timer that is not due while the test runs; the final listing must have it.
func (w *writer) far(ctx context.Context, name string) {
	w.put(name, w.target(), w.in(time.Hour), false)
	switch w.r.IntN(4) {
	case 0:
		w.put(name, w.target(), w.in(2*time.Hour), true)
	case 1:
		w.remove(name)
	}
}

// remove deletes a timer, and retries until the server reports it gone. After a try with an unknown outcome,
// the server may have seen what its disk never will: then the timer is deleted once more when everything
// works.
func (w *writer) remove(name string) {
	for unsure := false; w.calling.Err() == nil; w.pause(w.calling, w.between(5, 20)) {
		switch err := w.delete(name); {
		case err == nil:
			return
		case errors.Is(err, rouse.ErrNotFound):
			if unsure {
				w.unsure = append(w.unsure, name)
			}
			return
		case harness.Result(err) == history.Info:
			unsure = true
		}
	}
}

// expected reports whether a refusal is part of the load: timers end while their writer deletes them, and a
// write with an unknown outcome turns out to be made.
func expected(err error) bool {
	return errors.Is(err, rouse.ErrNotFound) || errors.Is(err, rouse.ErrExists) || errors.Is(err, rouse.ErrFull)
}
