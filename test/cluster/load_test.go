package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// callTimeout is how long a call may take before it is given up: one that a node took that does not go on never ends.
const callTimeout = 5 * time.Second

// load is writers that give a fleet timers of several kinds. Each timer has one writer, which makes one call at a time, each of
// them to another node.
type load struct {
	*witness
	c       *client.Client
	url     string // of the HTTP receiver
	calling context.Context
	abandon context.CancelFunc // ends the calls, too
	stop    context.CancelFunc
	writers sync.WaitGroup
	calls   atomic.Int64 // that were acknowledged
}

// newLoad returns a load without writers.
func (w *witness) newLoad(f *fleet) *load {
	w.T.Helper()
	calling, abandon := context.WithCancel(context.Background())
	l := &load{witness: w, c: f.dial(0, 0), url: w.Listen(answer).URL() + "/", calling: calling, abandon: abandon, stop: func() {}}
	w.T.Cleanup(func() {
		abandon()
		l.end()
	})
	return l
}

// begin starts so many writers.
func (w *witness) begin(f *fleet, writers int, dice uint64) *load {
	w.T.Helper()
	l := w.newLoad(f)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for i := range writers {
		l.writers.Go(func() {
			(&writer{load: l, id: i, r: rand.New(rand.NewPCG(dice, uint64(i)))}).run(ctx)
		})
	}
	return l
}

// end lets the writers finish what they have begun, and waits for them. The nodes must be there.
func (l *load) end() {
	l.stop()
	l.writers.Wait()
}

// progress waits until some more calls were acknowledged, so that whatever happens next happens under load.
func (l *load) progress(calls int64) bool {
	l.T.Helper()
	goal := l.calls.Load() + calls
	return harness.Until(l.T, harness.Always("the nodes have acknowledged fewer than %d calls", calls), func() bool { return l.calls.Load() >= goal })
}

// when is a timer in the judge's terms: all that the service gets, except for the text of the schedule.
type when struct {
	text string
	spec history.Spec
}

// of returns what the service is told, and completes what the judge is.
func (at *when) of(name, target string, gen uint64) (rouse.Spec, error) {
	s := rouse.Spec{Schedule: at.text, Target: target, Payload: harness.Stamp{Timer: name, Gen: gen}.Payload(), ContentType: "application/json", Criticality: criticality(name),
		Retry: rouse.Retry{Attempts: attempts, Interval: retryInterval, Max: 4 * retryInterval, Jitter: -1, Timeout: attemptTimeout}}
	at.spec.MaxAttempts = attempts
	if at.spec.Every != 0 {
		at.spec.Overlap = history.OverlapWait
	}
	var err, wrong error
	s.Overlap, err = rouse.ParseOverlap(string(at.spec.Overlap))
	s.Misfire, s.Within, wrong = rouse.ParseMisfire(string(at.spec.Misfire))
	return s, errors.Join(err, wrong)
}

// criticality is that of a timer.
func criticality(name string) uint8 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return uint8(h.Sum32() % (rouse.MaxCriticality + 1))
}

// put creates or replaces a timer.
func (l *load) put(c *client.Client, name, target string, at when, replace bool) (client.Replaced, history.Put) {
	gen := l.NextGen()
	spec, err := at.of(name, target, gen)
	if err != nil {
		l.T.Error(err)
	}
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Put{Replace: replace, Timer: name, Gen: gen, Spec: at.spec, T0: harness.Now()}
	var made client.Replaced
	if replace {
		made, err = c.Replace(ctx, "", name, spec)
	} else {
		made.Timer, err = c.Create(ctx, "", name, spec)
	}
	e.T1, e.Res, e.Due, e.InFlight = harness.Now(), harness.Result(err), harness.Moment(made.Due), made.InFlight
	l.cut(name, e.InFlight || e.Res == history.Info)
	l.fix(&e)
	l.written(&e, &made.Timer)
	var inv *rouse.Invalid
	if !errors.As(err, &inv) || e.T1.Sub(e.T0) < time.Second { // else its time passed while it waited
		l.count(fmt.Sprintf("put %s %q", name, at.text), err)
	}
	return made, e
}

// clockLag is how far a node may take the store's clock to be ahead, and how much later than asked a delay may end: it knows that clock
// as well as the answers that it got were quick, and grants all of what it does not know.
const clockLag = time.Second

// fix makes a delay that was acknowledged the instant that the service answered, if it is one that was asked for. So the judge can be
// strict with everything else: it has one measure of how well all clocks are known.
func (l *load) fix(e *history.Put) {
	d := e.Spec.Delay + e.Spec.Every
	switch {
	case e.Spec.At != 0 || e.Spec.Start != 0 || e.Res != history.OK:
		return
	case e.Due < e.T0.Add(d-promised.ClockErr), e.Due > e.T1.Add(d+clockLag):
		l.T.Errorf("%s, asked for in %v between %v and %v, is due at %v", e.Timer, d, e.T0, e.T1, e.Due)
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

func (l *load) delete(c *client.Client, name string) (history.Delete, error) {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Delete{Timer: name, T0: harness.Now()}
	d, err := c.Delete(ctx, "", name)
	e.T1, e.Res, e.InFlight = harness.Now(), harness.Result(err), d.InFlight
	l.cut(name, e.InFlight || e.Res == history.Info)
	l.Write(e)
	l.count("delete "+name, err)
	return e, err
}

func (l *load) get(c *client.Client, name string) (rouse.Timer, history.Get) {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Get{Timer: name, T0: harness.Now()}
	timer, err := c.Get(ctx, "", name)
	e.T1, e.Res = harness.Now(), harness.Result(err)
	switch e.Res {
	case history.OK:
		e.Gen = l.StampOf(&timer).Gen
		l.Knows(name, timer.Generation, e.Gen, timer.Due)
	case history.Fail:
		e.Res = history.NotFound
		if !errors.Is(err, rouse.ErrNotFound) {
			e.Res = history.Fail
		}
	}
	l.Write(e)
	l.count("get "+name, err)
	return timer, e
}

// count counts a call that was acknowledged. A refusal, where none is expected, is an error of the test or of the service.
func (l *load) count(what string, err error) {
	switch {
	case err == nil:
		l.calls.Add(1)
	case harness.Result(err) == history.Fail && !expected(err):
		l.T.Errorf("%s: %v", what, err)
	}
}

// expected reports whether a refusal is part of the load: timers end while their writer deletes them, and a
// node whose store is away or full sheds what it is asked.
func expected(err error) bool {
	return errors.Is(err, rouse.ErrNotFound) || errors.Is(err, rouse.ErrOverloaded) || errors.Is(err, rouse.ErrFull)
}
