package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// What all timers of the load have. A call ends when the server dies, so a long time for it is not waited for.
const (
	callTimeout    = 30 * time.Second
	attemptTimeout = 10 * time.Second
	attempts       = 3
	retryInterval  = 100 * time.Millisecond
)

// load is writers that give a server timers of all kinds. Each timer has one writer, which makes one call at a time.
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

// begin starts so many writers.
func (w *witness) begin(s *server, writers int, dice uint64) *load {
	w.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	calling, abandon := context.WithCancel(context.Background())
	l := &load{witness: w, c: s.Dial(0), url: w.Listen(moods.Answer).URL() + "/", calling: calling, abandon: abandon, stop: stop}
	w.T.Cleanup(func() {
		abandon()
		l.end()
	})
	for i := range writers {
		l.writers.Go(func() {
			(&writer{load: l, id: i, r: rand.New(rand.NewPCG(dice, uint64(i)))}).run(ctx)
		})
	}
	return l
}

// end lets the writers finish what they have begun, and waits for them. The server must be there.
func (l *load) end() {
	l.stop()
	l.writers.Wait()
}

// progress waits until some more calls were acknowledged, so that whatever happens next happens under load.
func (l *load) progress(calls int64) bool {
	l.T.Helper()
	goal := l.calls.Load() + calls
	return harness.Until(l.T, harness.Always("the server has acknowledged fewer than %d calls", calls), func() bool { return l.calls.Load() >= goal })
}

// when is a timer in the judge's terms: all that the service gets, except for the text of the schedule.
type when struct {
	text  string
	spec  history.Spec
	retry rouse.Retry // zero: as usual
}

// of returns what the service is told, and completes what the judge is.
func (at *when) of(name, target string, gen uint64) (rouse.Spec, error) {
	s := rouse.Spec{Schedule: at.text, Target: target, Payload: harness.Stamp{Timer: name, Gen: gen}.Payload(), ContentType: "application/json",
		Retry: at.retry, Deadline: at.spec.Deadline}
	if s.Retry == (rouse.Retry{}) {
		s.Retry = rouse.Retry{Attempts: attempts, Interval: retryInterval, Max: 4 * retryInterval}
	}
	s.Retry.Jitter, s.Retry.Timeout = -1, attemptTimeout
	at.spec.MaxAttempts = int(s.Retry.Attempts)
	if at.spec.Every != 0 && at.spec.Overlap == "" {
		at.spec.Overlap = history.OverlapWait
	}
	var err, wrong error
	s.Overlap, err = rouse.ParseOverlap(string(at.spec.Overlap))
	s.Misfire, s.Within, wrong = rouse.ParseMisfire(string(at.spec.Misfire))
	return s, errors.Join(err, wrong)
}

// put creates or replaces a timer.
func (l *load) put(name, target string, at when, replace bool) (rouse.Timer, history.Res) {
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
		made, err = l.c.Replace(ctx, "", name, spec)
	} else {
		made.Timer, err = l.c.Create(ctx, "", name, spec)
	}
	e.T1, e.Res, e.Due, e.InFlight = harness.Now(), harness.Result(err), harness.Moment(made.Due), made.InFlight
	l.written(&e, &made.Timer)
	l.count(fmt.Sprintf("put %s %q", name, at.text), err)
	return made.Timer, e.Res
}

func (l *load) delete(name string) error {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Delete{Timer: name, T0: harness.Now()}
	d, err := l.c.Delete(ctx, "", name)
	e.T1, e.Res, e.InFlight = harness.Now(), harness.Result(err), d.InFlight
	l.Write(e)
	l.count("delete "+name, err)
	return err
}

func (l *load) get(name string) {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Get{Timer: name, T0: harness.Now()}
	timer, err := l.c.Get(ctx, "", name)
	e.T1, e.Res = harness.Now(), harness.Result(err)
	switch e.Res {
	case history.OK:
		e.Gen = l.StampOf(&timer).Gen
		l.Knows(name, timer.Generation, e.Gen, timer.Due)
	case history.Fail:
		e.Res = history.NotFound
	}
	l.Write(e)
	l.count("get "+name, err)
}

// count counts a call that was acknowledged. A refusal, where none is expected, is an error of the test or of the server.
func (l *load) count(what string, err error) {
	switch {
	case err == nil:
		l.calls.Add(1)
	case harness.Result(err) == history.Fail && !expected(err):
		l.T.Errorf("%s: %v", what, err)
	}
}
