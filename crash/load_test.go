package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
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
	stop    context.CancelFunc
	writers sync.WaitGroup
	calls   atomic.Int64 // that were acknowledged
}

// begin starts so many writers.
func (w *witness) begin(s *server, writers int, dice uint64) *load {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	calling, abandon := context.WithCancel(context.Background())
	l := &load{witness: w, c: s.dial(0), url: w.listen().URL() + "/", calling: calling, stop: stop}
	w.t.Cleanup(func() {
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
	l.t.Helper()
	goal := l.calls.Load() + calls
	return until(l.t, always("the server has acknowledged fewer than %d calls", calls), func() bool { return l.calls.Load() >= goal })
}

// when is a schedule in the forms of both sides.
type when struct {
	text    string
	spec    history.Spec
	misfire rouse.Misfire
}

// put creates or replaces a timer.
func (l *load) put(name, target string, at when, replace bool) history.Res {
	gen := l.gens.Add(1)
	spec := rouse.Spec{Schedule: at.text, Target: target, Payload: stamp{name, gen}.payload(), ContentType: "application/json",
		Misfire: at.misfire,
		Retry:   rouse.Retry{Attempts: attempts, Interval: retryInterval, Max: 4 * retryInterval, Jitter: -1, Timeout: attemptTimeout}}
	at.spec.MaxAttempts, at.spec.Serial = attempts, true
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Put{Replace: replace, Timer: name, Gen: gen, Spec: at.spec, T0: now()}
	var made rouse.Timer
	var err error
	if replace {
		made, err = l.c.CreateOrReplace(ctx, "", name, spec)
	} else {
		made, err = l.c.Create(ctx, "", name, spec)
	}
	e.T1, e.Res, e.Due = now(), result(err), moment(made.Due)
	// The answer to a replace does not say whether an attempt of the old generation is under way.
	e.InFlight = replace
	l.write(e)
	l.count(fmt.Sprintf("put %s %q", name, at.text), err)
	return e.Res
}

func (l *load) delete(name string) error {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Delete{Timer: name, T0: now()}
	d, err := l.c.Delete(ctx, "", name)
	e.T1, e.Res, e.InFlight = now(), result(err), d.InFlight
	l.write(e)
	l.count("delete "+name, err)
	return err
}

func (l *load) get(name string) {
	ctx, cancel := context.WithTimeout(l.calling, callTimeout)
	defer cancel()
	e := history.Get{Timer: name, T0: now()}
	timer, err := l.c.Get(ctx, "", name)
	e.T1, e.Res = now(), result(err)
	switch e.Res {
	case history.OK:
		e.Gen = l.stampOf(&timer).Gen
	case history.Fail:
		e.Res = history.NotFound
	}
	l.write(e)
	l.count("get "+name, err)
}

// count counts a call that was acknowledged. A refusal, where none is expected, is an error of the test or of the server.
func (l *load) count(what string, err error) {
	switch {
	case err == nil:
		l.calls.Add(1)
	case result(err) == history.Fail && !expected(err):
		l.t.Errorf("%s: %v", what, err)
	}
}
