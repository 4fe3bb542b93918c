package harness

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
)

// Defaults of all timers of a load, unless their kind needs something else.
const (
	AttemptTimeout = 10 * time.Second
	Attempts       = 3
	RetryInterval  = 100 * time.Millisecond
)

// Load is writers that give a service timers of all kinds. Each timer has one writer, which makes one call at
// a time.
type Load struct {
	T       testing.TB
	Client  *client.Client
	URL     string          // of the HTTP receiver
	Channel string          // of the subscriber
	Calling context.Context // ends when calls are to be given up
	Abandon context.CancelFunc
	Stop    context.CancelFunc // lets the writers finish their current timers
	Calls   atomic.Int64       // that were acknowledged
	LoadOptions

	record  *Recorder
	writers sync.WaitGroup
}

// LoadOptions are the differences between loads.
type LoadOptions struct {
	Timeout  time.Duration                            // after which a call is given up
	Expected func(err error, took time.Duration) bool // whether a refusal is part of the load
	Written  func(e *history.Put, made *rouse.Timer)  // writes down a write
	Deleted  func(e *history.Delete)                  // is called before a delete is written down; nil: not needed
}

// NewLoad returns a load without writers. Its calls are given up when the test ends.
func (r *Recorder) NewLoad(c *client.Client, url, channel string, o LoadOptions) *Load {
	l := &Load{T: r.T, Client: c, URL: url, Channel: channel, LoadOptions: o, Stop: func() {}, record: r}
	l.Calling, l.Abandon = context.WithCancel(context.Background())
	r.T.Cleanup(func() {
		l.Abandon()
		l.End()
	})
	return l
}

// Begin starts so many writers; run is called for each, until its context ends.
func (l *Load) Begin(writers int, dice uint64, run func(ctx context.Context, w *Writer)) {
	ctx, stop := context.WithCancel(context.Background())
	l.Stop = stop
	for i := range writers {
		l.writers.Go(func() { run(ctx, &Writer{load: l, id: i, R: rand.New(rand.NewPCG(dice, uint64(i)))}) })
	}
}

// End lets the writers finish their current timers, and waits for them. The service must be there.
func (l *Load) End() {
	l.Stop()
	l.writers.Wait()
}

// Progress waits until some more calls were acknowledged, so that whatever happens next happens under load.
func (l *Load) Progress(calls int64) bool {
	l.T.Helper()
	goal := l.Calls.Load() + calls
	return Until(l.T, Always("the service has acknowledged fewer than %d calls", calls),
		func() bool { return l.Calls.Load() >= goal })
}

// When is a timer in the judge's terms: all that the service gets, except for the text of the schedule.
type When struct {
	Text  string
	Spec  history.Spec
	Retry rouse.Retry // zero: as usual
}

// Of returns the spec for the service, and completes the one for the judge.
func (at *When) Of(name, target string, gen uint64) (rouse.Spec, error) {
	s := rouse.Spec{Schedule: at.Text, Target: target, Payload: Stamp{Timer: name, Gen: gen}.Payload(),
		ContentType: "application/json",
		Criticality: Criticality(name), Retry: at.Retry, Deadline: at.Spec.Deadline}
	if s.Retry == (rouse.Retry{}) {
		s.Retry = rouse.Retry{Attempts: Attempts, Interval: RetryInterval, Max: 4 * RetryInterval}
	}
	s.Retry.Jitter, s.Retry.Timeout = -1, AttemptTimeout
	at.Spec.MaxAttempts = int(s.Retry.Attempts)
	if at.Spec.Every != 0 && at.Spec.Overlap == "" {
		at.Spec.Overlap = history.OverlapWait
	}
	var err, wrong error
	s.Overlap, err = rouse.ParseOverlap(string(at.Spec.Overlap))
	s.Misfire, s.Within, wrong = rouse.ParseMisfire(string(at.Spec.Misfire))
	return s, errors.Join(err, wrong)
}

// Criticality is that of a timer.
func Criticality(name string) uint8 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return uint8(h.Sum32() % (rouse.MaxCriticality + 1))
}

// Put creates or replaces a timer.
func (l *Load) Put(name, target string, at When, replace bool) (rouse.Timer, history.Res) {
	made, e := l.PutBy("put", name, target, at, func(ctx context.Context, spec rouse.Spec) (made client.Replaced,
		err error) {
		if replace {
			return l.Client.Replace(ctx, "", name, spec)
		}
		made.Timer, err = l.Client.Create(ctx, "", name, spec)
		return made, err
	}, replace)
	return made.Timer, e.Res
}

// PutBy writes a timer by a call of the client.
func (l *Load) PutBy(what, name, target string, at When, put func(context.Context, rouse.Spec) (client.Replaced, error),
	replace bool) (client.Replaced, history.Put) {
	gen := l.record.NextGen()
	spec, err := at.Of(name, target, gen)
	if err != nil {
		l.T.Error(err)
	}
	var made client.Replaced
	e := history.Put{Replace: replace, Timer: name, Gen: gen, Spec: at.Spec}
	e.T0, e.T1, e.Res = l.Call(fmt.Sprintf("%s %s %q", what, name, at.Text), func(ctx context.Context) error {
		made, err = put(ctx, spec)
		return err
	})
	e.Due, e.InFlight = Moment(made.Due), made.InFlight
	l.Written(&e, &made.Timer)
	return made, e
}

// Delete deletes a timer.
func (l *Load) Delete(name string) (res history.Res, err error) {
	e := history.Delete{Timer: name}
	e.T0, e.T1, e.Res = l.Call("delete "+name, func(ctx context.Context) error {
		var d client.Deleted
		d, err = l.Client.Delete(ctx, "", name)
		e.InFlight = d.InFlight
		return err
	})
	if l.Deleted != nil {
		l.Deleted(&e)
	}
	l.record.Write(e)
	return e.Res, err
}

// Get looks at a timer.
func (l *Load) Get(name string) {
	e := history.Get{Timer: name}
	var timer rouse.Timer
	var err error
	e.T0, e.T1, e.Res = l.Call("get "+name, func(ctx context.Context) error {
		timer, err = l.Client.Get(ctx, "", name)
		return err
	})
	switch {
	case e.Res == history.OK:
		e.Gen = l.record.StampOf(&timer).Gen
		l.record.Knows(name, timer.Generation, e.Gen, timer.Due)
	case errors.Is(err, rouse.ErrNotFound):
		e.Res = history.NotFound
	}
	l.record.Write(e)
}

// Call makes a call, and returns when it began and ended, and its known outcome. A refusal, where none is
// expected, is an error of the test or of the service.
func (l *Load) Call(what string, do func(ctx context.Context) error) (t0, t1 history.Time, res history.Res) {
	ctx, cancel := context.WithTimeout(l.Calling, l.Timeout)
	defer cancel()
	t0 = Now()
	err := do(ctx)
	t1, res = Now(), Result(err)
	switch {
	case err == nil:
		l.Calls.Add(1)
	case res == history.Fail && !l.Expected(err, t1.Sub(t0)):
		l.T.Errorf("%s: %v", what, err)
	}
	return t0, t1, res
}
