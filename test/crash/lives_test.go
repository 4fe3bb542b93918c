package crash

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// each is an interval of so many milliseconds, all of whose occurrences fire.
func (w *writer) each(from, to int) when {
	d := w.between(from, to)
	return when{text: "@every " + d.String(), spec: history.Spec{Every: d, Misfire: history.MisfireAll}}
}

// overlapping is a timer whose occurrences overlap, because their receiver takes longer than its interval:
// each is a row next to the timer.
func (w *writer) overlapping(ctx context.Context, name string) {
	at := w.each(150, 300)
	at.spec.Overlap = history.OverlapAllow
	w.put(name, w.target(), at, false)
	w.pause(ctx, w.between(300, 1500))
	w.remove(name)
}

// deadline gives occurrences little time, so that an outage ends them; where they overlap, on rows of their own.
func (w *writer) deadline(ctx context.Context, name string) {
	if w.orderly {
		w.once(ctx, name)
		return
	}
	if w.r.IntN(2) == 0 {
		at := w.in(w.between(50, 1500))
		at.spec.Deadline = w.between(300, 1500)
		w.put(name, w.target(), at, false)
		return
	}
	at := w.each(200, 500)
	at.spec.Deadline = w.between(300, 1000)
	if w.r.IntN(3) == 0 {
		at.spec.Overlap = history.OverlapAllow
	}
	w.put(name, w.target(), at, false)
	w.pause(ctx, w.between(300, 2000))
	w.remove(name)
}

// patient is a timer whose receiver refuses it twice, with waits between its attempts that are longer than an outage.
func (w *writer) patient(_ context.Context, name string) {
	at := w.in(w.between(50, 1000))
	at.retry = rouse.Retry{Attempts: 4, Interval: time.Second, Factor: 1}
	w.put(name, w.target(), at, false)
}

// calm is many calls that become one fire, when there were none for a while.
func (w *writer) calm(ctx context.Context, name string) {
	how := rouse.Coalesce{Quiet: w.between(200, 500)}
	if w.r.IntN(2) == 0 {
		how.MaxWait = 2 * how.Quiet
	}
	w.calls(ctx, name, how)
}

// rare is many calls that become few fires, which keep their distance.
func (w *writer) rare(ctx context.Context, name string) {
	how := rouse.Coalesce{Every: w.between(200, 700)}
	w.keepsDistance(name, how.Every)
	w.calls(ctx, name, how)
}

// calls calls with one name until there were some calls and the last one was acknowledged.
func (w *writer) calls(ctx context.Context, name string, how rouse.Coalesce) {
	target := w.target()
	res := history.Info
	for n := 2 + w.r.IntN(5); (n > 0 || res == history.Info) && w.calling.Err() == nil; n-- {
		res = w.coalesce(name, target, how)
		w.pause(ctx, w.between(20, 300))
	}
	w.get(name)
}

// paused is a timer that is paused until a time, which may come while nothing runs.
func (w *writer) paused(ctx context.Context, name string) {
	w.put(name, w.target(), w.each(200, 400), false)
	w.pause(ctx, w.between(100, 600))
	w.pauseUntil(name, w.between(500, 1500))
	w.pause(ctx, w.between(0, 2500))
	w.remove(name)
}

// again is a timer whose occurrences are asked for once more.
func (w *writer) again(ctx context.Context, name string) {
	made, res := w.put(name, w.target(), w.each(200, 400), false)
	w.pause(ctx, w.between(500, 1500))
	if until := rouse.At(time.Now().Add(-100 * time.Millisecond)); res == history.OK && made.Created < until {
		w.backfill(name, made.Created, until)
		w.pause(ctx, w.between(300, 1000))
	}
	w.remove(name)
}

// skipped is a timer of which some occurrences are given up.
func (w *writer) skipped(ctx context.Context, name string) {
	w.put(name, w.target(), w.each(200, 400), false)
	w.pause(ctx, w.between(100, 600))
	w.skip(name, uint32(1+w.r.IntN(3)))
	w.pause(ctx, w.between(300, 2000))
	w.remove(name)
}

// asked is a timer that is run in addition to its schedule.
func (w *writer) asked(ctx context.Context, name string) {
	w.put(name, w.target(), w.each(200, 400), false)
	for range 3 {
		w.pause(ctx, w.between(100, 400))
		w.runNow(name)
	}
	w.pause(ctx, w.between(0, 1000))
	w.remove(name)
}

// doomed is a timer whose receiver does not want it, neither at first nor when its dead letter is redriven.
func (w *writer) doomed(ctx context.Context, name string) {
	made, res := w.put(name, w.target(), w.in(w.between(50, 300)), false)
	if res != history.OK {
		return
	}
	w.pause(ctx, w.between(400, 1500))
	w.redrive(name, &made)
}

// coalesce makes a debounced or throttled call. Its due time is the service's to say.
func (l *load) coalesce(name, target string, how rouse.Coalesce) history.Res {
	gen := l.NextGen()
	at := when{}
	spec, err := at.of(name, target, gen)
	if err != nil {
		l.T.Error(err)
	}
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Put{Replace: true, Timer: name, Gen: gen, Spec: at.spec, T0: harness.Now()}
	var made client.Replaced
	if how.Every != 0 {
		made, err = l.c.Throttle(ctx, "", name, spec, how.Every)
	} else {
		made, err = l.c.Debounce(ctx, "", name, spec, how.Quiet, how.MaxWait)
	}
	e.T1, e.Res, e.InFlight = harness.Now(), harness.Result(err), made.InFlight
	if e.Res == history.OK {
		e.Spec.At = harness.Moment(made.Due)
		if latest := e.T1.Add(max(how.Quiet, how.Every) + promised.ClockErr); e.Spec.At > latest {
			l.T.Errorf("%s, called at %v, is due at %v, later than %v", name, e.T1, e.Spec.At, latest)
		}
	}
	l.written(&e, &made.Timer)
	l.count("coalesce "+name, err)
	return e.Res
}

// called makes a call that changes a timer, and returns when it began and ended, and what is known of it.
func (l *load) called(what string, do func(ctx context.Context) error, fine func(error) bool) (t0, t1 history.Time, res history.Res) {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	t0 = harness.Now()
	err := do(ctx)
	t1, res = harness.Now(), harness.Result(err)
	if res != history.Fail || !fine(err) {
		l.count(what, err)
	}
	return t0, t1, res
}

// refusal reports whether a call was refused because of its input: the time that it names came, or passed,
// while it waited.
func refusal(err error) bool {
	var inv *rouse.Invalid
	return errors.As(err, &inv)
}

func never(error) bool { return false }

func (l *load) pauseUntil(name string, d time.Duration) {
	until := rouse.At(time.Now().Add(d))
	e := history.Pause{Timer: name, Until: harness.Moment(until)}
	e.T0, e.T1, e.Res = l.called("pause "+name, func(ctx context.Context) error {
		_, err := l.c.PauseUntil(ctx, "", name, "for a while", until)
		return err
	}, refusal)
	l.Write(e)
}

func (l *load) backfill(name string, from, until rouse.Instant) {
	l.asks(name)
	e := history.Backfill{Timer: name, From: harness.Moment(from), Until: harness.Moment(until)}
	e.T0, e.T1, e.Res = l.called("backfill "+name, func(ctx context.Context) error {
		_, err := l.c.Backfill(ctx, "", name, from, until, false)
		return err
	}, never)
	l.Write(e)
}

func (l *load) skip(name string, count uint32) {
	e := history.Skip{Timer: name, Count: int(count)}
	e.T0, e.T1, e.Res = l.called("skip "+name, func(ctx context.Context) error {
		_, err := l.c.Skip(ctx, "", name, count, "")
		return err
	}, never)
	l.Write(e)
}

func (l *load) runNow(name string) {
	e := history.Run{Timer: name}
	e.T0, e.T1, e.Res = l.called("run "+name, func(ctx context.Context) error {
		id, due, err := l.c.Run(ctx, "", name)
		e.Key, e.Due = id, harness.Moment(due)
		return err
	}, never)
	l.Write(e)
}

func (l *load) redrive(name string, made *rouse.Timer) {
	l.asks(name)
	e := history.Redrive{Timer: name, Gen: l.StampOf(made).Gen, Due: harness.Moment(made.Due)}
	id := rouse.FireID(made.Key.Namespace, name, made.Generation, made.Due, false)
	e.T0, e.T1, e.Res = l.called("redrive "+name, func(ctx context.Context) error {
		return l.c.Redrive(ctx, "", name, id)
	}, never)
	l.Write(e)
}
