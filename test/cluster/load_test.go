package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// callTimeout is how long a call may take before it is given up: one that a node took that does not go on
// never ends.
const callTimeout = 10 * time.Second

// load is writers that give a fleet timers of several kinds, each call to another node.
type load struct {
	*witness
	*harness.Load
}

// newLoad returns a load without writers.
func (w *witness) newLoad(f *fleet) *load {
	w.T.Helper()
	return &load{w, w.NewLoad(f.dial(0, 0), w.Listen(answer).URL()+"/", channel, harness.LoadOptions{Timeout: callTimeout, Expected: expected,
		Written: w.written, Deleted: func(e *history.Delete) { w.cut(e.Timer, e.InFlight || e.Res == history.Info) }})}
}

// begin starts so many writers.
func (w *witness) begin(f *fleet, writers int, dice uint64) *load {
	w.T.Helper()
	l := w.newLoad(f)
	l.Begin(writers, dice, func(ctx context.Context, each *harness.Writer) {
		each.Run(ctx, (&writer{l, each}).lives(), 100*time.Millisecond)
	})
	return l
}

// clockLag is how far a node may take the store's clock to be ahead, and how much later than asked a delay
// may end: it knows that clock as well as the answers that it got were quick, and grants all of what it does
// not know.
const clockLag = time.Second

// fix makes a delay that was acknowledged the instant that the service answered, if it is one that was asked
// for. So the judge can be strict with everything else: it has one measure of how well all clocks are known.
func (w *witness) fix(e *history.Put) {
	d := e.Spec.Delay + e.Spec.Every
	switch {
	case e.Spec.At != 0 || e.Spec.Start != 0 || e.Res != history.OK:
		return
	case e.Due < e.T0.Add(d-promised.ClockErr), e.Due > e.T1.Add(d+clockLag):
		w.T.Errorf("%s, asked for in %v between %v and %v, is due at %v", e.Timer, d, e.T0, e.T1, e.Due)
	}
	fixTo(e, e.Due)
}

// fixTo makes a delay the instant at which it is due first.
func fixTo(e *history.Put, due history.Time) {
	if e.Spec.Every != 0 {
		e.Spec.Start = due
	} else {
		e.Spec.Delay, e.Spec.At = 0, due
	}
}

// expected reports whether a refusal is part of the load: timers end while their writer deletes them, a node
// whose store is away or full sheds what it is asked, and a time that a call names comes while it waits.
func expected(err error, took time.Duration) bool {
	return errors.Is(err, rouse.ErrNotFound) || errors.Is(err, rouse.ErrOverloaded) || errors.Is(err, rouse.ErrFull) ||
		errors.As(err, new(*rouse.Invalid)) && took >= time.Second
}
