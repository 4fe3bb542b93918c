package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
)

// Writer leads timers through their lives, one timer after another.
type Writer struct {
	R      *rand.Rand
	Unsure []string // names whose end is not certain: they are deleted in the end

	load  *Load
	id, n int
}

// Life is a kind of timer, and how often one is made, in a hundred.
type Life struct {
	percent int
	kind    string
	live    func(ctx context.Context, name string)
}

// NewLife returns a kind of timer.
func NewLife(percent int, kind string, live func(ctx context.Context, name string)) Life {
	return Life{percent, kind, live}
}

// Run makes timers until ctx ends, with a pause of up to breath after each, and then finishes the one that it
// has begun.
func (w *Writer) Run(ctx context.Context, lives []Life, breath time.Duration) {
	for ctx.Err() == nil {
		dice := w.R.IntN(100)
		for _, l := range lives {
			if dice -= l.percent; dice < 0 {
				w.n++
				l.live(ctx, fmt.Sprintf("%s-%02d-%04d", l.kind, w.id, w.n))
				break
			}
		}
		most := int(breath.Milliseconds())
		w.Pause(ctx, w.Between(most/5, most))
	}
	for _, name := range w.Unsure {
		w.Remove(name)
	}
}

// Pause waits for d, or until ctx ends.
func (w *Writer) Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Between is a number of milliseconds.
func (w *Writer) Between(from, to int) time.Duration {
	return time.Duration(from+w.R.IntN(to-from)) * time.Millisecond
}

// Target is the HTTP receiver or the subscriber.
func (w *Writer) Target() string {
	if w.R.IntN(3) == 0 {
		return "stream:" + w.load.Channel
	}
	return w.load.URL
}

// In is a single shot, given as a delay or as an instant.
func (w *Writer) In(d time.Duration) When {
	if w.R.IntN(2) == 0 {
		return When{Text: "@after " + d.String(), Spec: history.Spec{Delay: d}}
	}
	return Once(rouse.At(time.Now().Add(d)))
}

// Once is a single shot at an instant.
func Once(at rouse.Instant) When { return When{Text: at.String(), Spec: history.Spec{At: Moment(at)}} }

// Every is an interval, all of whose occurrences fire.
func Every(d time.Duration) When {
	return When{Text: "@every " + d.String(), Spec: history.Spec{Every: d, Misfire: history.MisfireAll}}
}

// Series is some occurrences, all of which fire, the first of them soon.
func (w *Writer) Series(times int, step time.Duration) When {
	start := rouse.At(time.Now().Add(w.Between(100, 800)))
	return When{
		Text: fmt.Sprintf("R%d/%s/PT%gS", times, start, step.Seconds()),
		Spec: history.Spec{Every: step, Start: Moment(start), Until: Moment(start.Add(time.Duration(times-1) * step)),
			Misfire: history.MisfireAll},
	}
}

// Remove deletes a timer, and retries until the service reports it gone. It reports whether that is sure.
// After a try with an unknown outcome, the service may have seen a write that its disk never will, or an
// earlier write may still come: then the timer is deleted once more in the end, when everything works.
func (w *Writer) Remove(name string) (sure bool) {
	unsure := false
	for wait := 10; w.load.Calling.Err() == nil; w.Pause(w.load.Calling, w.Between(wait/2, wait)) {
		switch _, err := w.load.Delete(name); {
		case err == nil:
			return !unsure
		case errors.Is(err, rouse.ErrNotFound):
			if unsure {
				w.Unsure = append(w.Unsure, name)
			}
			return !unsure
		case Result(err) == history.Info:
			unsure = true
		}
		wait = min(2*wait, 500)
	}
	return false
}
