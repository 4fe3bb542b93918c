package crash

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// each is an interval of so many milliseconds, all of whose occurrences fire.
func (w *writer) each(from, to int) harness.When { return harness.Every(w.Between(from, to)) }

// overlapping is a timer whose occurrences overlap, because their receiver takes longer than its interval:
// each is a row next to the timer.
func (w *writer) overlapping(ctx context.Context, name string) {
	at := w.each(150, 300)
	at.Spec.Overlap = history.OverlapAllow
	w.Put(name, w.Target(), at, false)
	w.Pause(ctx, w.Between(300, 1500))
	w.Remove(name)
}

// deadline gives occurrences little time, so that an outage ends them; where they overlap, on rows of their
// own.
func (w *writer) deadline(ctx context.Context, name string) {
	if w.orderly {
		w.once(ctx, name)
		return
	}
	if w.R.IntN(2) == 0 {
		at := w.In(w.Between(50, 1500))
		at.Spec.Deadline = w.Between(300, 1500)
		w.Put(name, w.Target(), at, false)
		return
	}
	at := w.each(200, 500)
	at.Spec.Deadline = w.Between(300, 1000)
	if w.R.IntN(3) == 0 {
		at.Spec.Overlap = history.OverlapAllow
	}
	w.Put(name, w.Target(), at, false)
	w.Pause(ctx, w.Between(300, 2000))
	w.Remove(name)
}

// patient is a timer whose receiver refuses it twice, with waits between its attempts that are longer than an
// outage.
func (w *writer) patient(_ context.Context, name string) {
	at := w.In(w.Between(50, 1000))
	at.Retry = rouse.Retry{Attempts: 4, Interval: time.Second, Factor: 1}
	w.Put(name, w.Target(), at, false)
}

// calm is many calls that become one fire, harness.When there were none for a while.
func (w *writer) calm(ctx context.Context, name string) {
	how := rouse.Coalesce{Quiet: w.Between(200, 500)}
	if w.R.IntN(2) == 0 {
		how.MaxWait = 2 * how.Quiet
	}
	w.calls(ctx, name, how)
}

// rare is many calls that become few fires, which keep their distance.
func (w *writer) rare(ctx context.Context, name string) {
	how := rouse.Coalesce{Every: w.Between(200, 700)}
	w.keepsDistance(name, how.Every)
	w.calls(ctx, name, how)
}

// calls calls with one name until there were some calls and the last one was acknowledged.
func (w *writer) calls(ctx context.Context, name string, how rouse.Coalesce) {
	target := w.Target()
	res := history.Info
	for n := 2 + w.R.IntN(5); (n > 0 || res == history.Info) && w.Calling.Err() == nil; n-- {
		res = w.coalesce(name, target, how)
		w.Pause(ctx, w.Between(20, 300))
	}
	w.Get(name)
}

// paused is a timer that is paused until a time, which may come while nothing runs.
func (w *writer) paused(ctx context.Context, name string) {
	w.Put(name, w.Target(), w.each(200, 400), false)
	w.Pause(ctx, w.Between(100, 600))
	w.pauseUntil(name, w.Between(500, 1500))
	w.Pause(ctx, w.Between(0, 2500))
	w.Remove(name)
}

// again is a timer whose occurrences are asked for once more.
func (w *writer) again(ctx context.Context, name string) {
	made, res := w.Put(name, w.Target(), w.each(200, 400), false)
	w.Pause(ctx, w.Between(500, 1500))
	if until := rouse.At(time.Now().Add(-100 * time.Millisecond)); res == history.OK && made.Created < until {
		w.backfill(name, made.Created, until)
		w.Pause(ctx, w.Between(300, 1000))
	}
	w.Remove(name)
}

// skipped is a timer of which some occurrences are given up.
func (w *writer) skipped(ctx context.Context, name string) {
	w.Put(name, w.Target(), w.each(200, 400), false)
	w.Pause(ctx, w.Between(100, 600))
	w.skip(name, uint32(1+w.R.IntN(3)))
	w.Pause(ctx, w.Between(300, 2000))
	w.Remove(name)
}

// asked is a timer that is run in addition to its schedule.
func (w *writer) asked(ctx context.Context, name string) {
	w.Put(name, w.Target(), w.each(200, 400), false)
	for range 3 {
		w.Pause(ctx, w.Between(100, 400))
		w.runNow(name)
	}
	w.Pause(ctx, w.Between(0, 1000))
	w.Remove(name)
}

// doomed is a timer whose receiver does not want it, neither at first nor harness.When its dead letter is
// redriven.
func (w *writer) doomed(ctx context.Context, name string) {
	made, res := w.Put(name, w.Target(), w.In(w.Between(50, 300)), false)
	if res != history.OK {
		return
	}
	w.Pause(ctx, w.Between(400, 1500))
	w.redrive(name, &made)
}

// coalesce makes a debounced or throttled call.
func (l *load) coalesce(name, target string, how rouse.Coalesce) history.Res {
	_, e := l.PutBy("coalesce", name, target, harness.When{}, func(ctx context.Context, spec rouse.Spec) (client.Replaced, error) {
		if how.Every != 0 {
			return l.Client.Throttle(ctx, "", name, spec, how.Every)
		}
		return l.Client.Debounce(ctx, "", name, spec, how.Quiet, how.MaxWait)
	}, true)
	if latest := e.T1.Add(max(how.Quiet, how.Every) + promised.ClockErr); e.Res == history.OK && e.Spec.At > latest {
		l.T.Errorf("%s, called at %v, is due at %v, later than %v", name, e.T1, e.Spec.At, latest)
	}
	return e.Res
}

func (l *load) pauseUntil(name string, d time.Duration) {
	until := rouse.At(time.Now().Add(d))
	e := history.Pause{Timer: name, Until: harness.Moment(until)}
	e.T0, e.T1, e.Res = l.Call("pause "+name, func(ctx context.Context) error {
		_, err := l.Client.PauseUntil(ctx, "", name, "for a while", until)
		return err
	})
	l.Write(e)
}

func (l *load) backfill(name string, from, until rouse.Instant) {
	l.asks(name)
	e := history.Backfill{Timer: name, From: harness.Moment(from), Until: harness.Moment(until)}
	e.T0, e.T1, e.Res = l.Call("backfill "+name, func(ctx context.Context) error {
		_, err := l.Client.Backfill(ctx, "", name, client.BackfillRequest{From: from, Until: until})
		return err
	})
	l.Write(e)
}

func (l *load) skip(name string, count uint32) {
	e := history.Skip{Timer: name, Count: int(count)}
	e.T0, e.T1, e.Res = l.Call("skip "+name, func(ctx context.Context) error {
		_, err := l.Client.Skip(ctx, "", name, count, "")
		return err
	})
	l.Write(e)
}

func (l *load) runNow(name string) {
	e := history.Run{Timer: name}
	e.T0, e.T1, e.Res = l.Call("run "+name, func(ctx context.Context) error {
		id, due, err := l.Client.Run(ctx, "", name)
		e.Key, e.Due = id, harness.Moment(due)
		return err
	})
	l.Write(e)
}

func (l *load) redrive(name string, made *rouse.Timer) {
	l.asks(name)
	e := history.Redrive{Timer: name, Gen: l.StampOf(made).Gen, Due: harness.Moment(made.Due)}
	id := rouse.FireID(made.Key.Namespace, name, made.Generation, made.Due, false)
	e.T0, e.T1, e.Res = l.Call("redrive "+name, func(ctx context.Context) error {
		_, err := l.Client.Redrive(ctx, "", name, id, false)
		return err
	})
	l.Write(e)
}
