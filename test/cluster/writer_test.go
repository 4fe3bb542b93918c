package cluster

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

// writer leads timers through their lives, one timer after another. After a write with an unknown outcome, a
// name is only deleted: a node that was suspended may still make an old write.
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
	{37, "once", (*writer).once},
	{15, "series", (*writer).series},
	{15, "every", (*writer).every},
	{15, "moved", (*writer).moved},
	{13, "removed", (*writer).removed},
	{5, "far", (*writer).far},
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
		w.pause(ctx, w.between(20, 100))
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

// write creates or replaces a timer, and reports whether that is sure.
func (w *writer) write(name string, at when, replace bool) bool {
	_, e := w.put(w.c, name, w.target(), at, replace)
	if e.Res == history.Info {
		w.unsure = append(w.unsure, name)
	}
	return e.Res == history.OK
}

// once is a timer that fires and ends. No other call changes it, so all of these must arrive.
func (w *writer) once(ctx context.Context, name string) {
	longest := 2500
	if w.r.IntN(3) == 0 {
		longest = 6000 // so that another node fires it if its node dies
	}
	if w.write(name, w.in(w.between(20, longest)), false) && w.r.IntN(3) == 0 {
		w.get(w.c, name)
	}
}

// series is a timer that fires a few times and ends: all of them must arrive, regardless of which nodes die.
func (w *writer) series(ctx context.Context, name string) {
	const times, step = 5, 600 * time.Millisecond
	start := rouse.At(time.Now().Add(w.between(100, 800)))
	w.write(name, when{
		text: fmt.Sprintf("R%d/%s/PT0.6S", times, start),
		spec: history.Spec{Every: step, Start: harness.Moment(start), Until: harness.Moment(start.Add((times - 1) * step)), Misfire: history.MisfireAll},
	}, false)
}

// every fires until it is deleted.
func (w *writer) every(ctx context.Context, name string) {
	d := w.between(200, 700)
	at := when{text: "@every " + d.String(), spec: history.Spec{Every: d, Misfire: history.MisfireAll}}
	if w.r.IntN(2) == 0 {
		at.spec.Misfire = history.MisfireLatest
	}
	if w.write(name, at, false) {
		w.pause(ctx, w.between(300, 3000))
		w.get(w.c, name)
	}
	w.remove(name)
}

// moved is a timer that is replaced, before or after it fired.
func (w *writer) moved(ctx context.Context, name string) {
	if !w.write(name, w.in(w.between(20, 2000)), false) {
		return
	}
	w.pause(ctx, w.between(0, 700))
	if w.write(name, w.in(w.between(20, 2000)), true) {
		w.get(w.c, name)
	}
}

// removed is a timer that is deleted, before or after it fired, and sometimes made again.
func (w *writer) removed(ctx context.Context, name string) {
	if !w.write(name, w.in(w.between(20, 2000)), false) {
		return
	}
	w.pause(ctx, w.between(0, 700))
	if !w.remove(name) {
		return
	}
	w.get(w.c, name)
	if w.r.IntN(3) == 0 {
		w.write(name, w.in(w.between(20, 1000)), false)
	}
}

// far is a timer that is not due while the test runs; the final listing must have it.
func (w *writer) far(ctx context.Context, name string) {
	if !w.write(name, w.in(time.Hour), false) {
		return
	}
	switch w.r.IntN(4) {
	case 0:
		w.write(name, w.in(2*time.Hour), true)
	case 1:
		w.remove(name)
	}
}

// remove deletes a timer, and retries until the service reports it gone. It reports whether the first try
// did. After a write with an unknown outcome, that write may still come: then the timer is deleted once more
// in the end.
func (w *writer) remove(name string) (sure bool) {
	unsure := false
	for wait := 10; w.calling.Err() == nil; w.pause(w.calling, w.between(wait/2, wait)) {
		switch _, err := w.delete(w.c, name); {
		case err == nil:
			return !unsure
		case errors.Is(err, rouse.ErrNotFound):
			if unsure {
				w.unsure = append(w.unsure, name)
			}
			return !unsure
		case harness.Result(err) == history.Info:
			unsure = true
		}
		wait = min(2*wait, 500)
	}
	return false
}
