package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// lazyDriver does what it is asked for after a delay, or never. It counts the calls.
type lazyDriver struct {
	t     *testing.T
	takes time.Duration // until a worker is there or drains; never if zero

	mu      sync.Mutex
	calls   map[string][]time.Time // when each call was made
	workers map[string]driver.State
}

// most is how many calls the driver answers: a loop that calls without backoff would stop virtual time.
const most = 200

func (d *lazyDriver) asked(ctx context.Context, call, key string, then func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	call += " " + key
	if d.calls[call] = append(d.calls[call], time.Now()); len(d.calls[call]) >= most {
		if len(d.calls[call]) == most {
			d.t.Errorf("%s was called %d times within %v", call, most, time.Since(d.calls[call][0]))
		}
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
	}
	if d.takes > 0 {
		time.AfterFunc(d.takes, func() { d.mu.Lock(); defer d.mu.Unlock(); then() })
	}
	return nil
}

func (d *lazyDriver) Ensure(ctx context.Context, g driver.Group) error {
	return d.asked(ctx, "ensure", g.Key, func() { d.workers[g.Key] = driver.Running })
}

func (d *lazyDriver) Drain(ctx context.Context, key string) error {
	return d.asked(ctx, "drain", key, func() { delete(d.workers, key) })
}

func (d *lazyDriver) List(context.Context) ([]driver.Worker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []driver.Worker
	for key, state := range d.workers {
		list = append(list, driver.Worker{ID: "of " + key, Key: key, State: state})
	}
	return list, nil
}

func (d *lazyDriver) times(call string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

func (*lazyDriver) Changed() <-chan struct{}      { return nil }
func (*lazyDriver) Release(context.Context) error { return nil }
func (*lazyDriver) Close(context.Context) error   { return nil }

// lazy runs a test in virtual time, with a term whose driver takes its time.
func lazy(t *testing.T, takes time.Duration, f func(t *testing.T, d *lazyDriver, term *Term)) {
	synctest.Test(t, func(t *testing.T) {
		d := &lazyDriver{t: t, takes: takes, calls: map[string][]time.Time{}, workers: map[string]driver.State{}}
		m, err := NewManager(Config{Name: "p", Delays: Delays{30 * time.Minute, 30 * time.Minute}, Driver: d,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: NewRegistry(prometheus.NewRegistry()).Pool("p")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		term, err := m.Begin(ctx, newSimulation(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		defer term.Wait()
		defer cancel()
		f(t, d, term)
	})
}

// TestDriversThatDoNothingAreAskedSeldom checks that a driver whose calls have no effect, such as one whose
// workers are started by hand, is called again with a backoff that doubles up to a minute, for each key
// separately.
func TestDriversThatDoNothingAreAskedSeldom(t *testing.T) {
	pauses := func(t *testing.T, d *lazyDriver, call string) {
		t.Helper()
		times, want := d.times(call), 500*time.Millisecond
		if len(times) < 8 {
			t.Fatalf("%s was called %d times in ten minutes", call, len(times))
		}
		for i := range times[1:] {
			if got := times[i+1].Sub(times[i]); got < want || got > want+shortestPause { // a list may add that much
				t.Errorf("between call %d of %s and the next one there were %v, not %v", i+1, call, got, want)
			}
			want = min(2*want, time.Minute)
		}
	}
	lazy(t, 0, func(t *testing.T, d *lazyDriver, term *Term) {
		for n := range 3 {
			if err := term.Await(t.Context(), fmt.Sprint("k", n), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		for n := range 3 {
			pauses(t, d, fmt.Sprint("ensure k", n))
		}
	})
	lazy(t, 0, func(t *testing.T, d *lazyDriver, term *Term) {
		d.mu.Lock()
		d.workers["left over"] = driver.Running // of an unwanted key
		d.mu.Unlock()
		time.Sleep(10 * time.Minute)
		pauses(t, d, "drain left over")
	})
}

// TestWorkersOfAnEarlierProcessAreEnsuredOnce checks that the driver is called once for groups with existing
// workers: they may have been started with older settings.
func TestWorkersOfAnEarlierProcessAreEnsuredOnce(t *testing.T) {
	lazy(t, time.Second, func(t *testing.T, d *lazyDriver, term *Term) {
		d.mu.Lock()
		d.workers["k"] = driver.Running
		d.mu.Unlock()
		if err := term.Await(t.Context(), "k", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if n := len(d.times("ensure k")); n != 1 {
			t.Errorf("Ensure was called %d times", n)
		}
	})
}

// TestDriversThatAreSlowAreAskedAtOnceAgain checks that a group is started again without backoff after its
// worker has come and gone, however slow the driver was before, and that keys that match their target use no
// memory.
func TestDriversThatAreSlowAreAskedAtOnceAgain(t *testing.T) {
	lazy(t, 9*time.Second, func(t *testing.T, d *lazyDriver, term *Term) {
		if err := term.Await(t.Context(), "k", false); err != nil {
			t.Fatal(err)
		}
		for round := 1; round <= 3; round++ {
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			asked := d.times("ensure k")
			if n := len(asked); n != 5*round { // after 0, 0.5, 1.5, 3.5 and 7.5 s
				t.Errorf("after start %d of a worker that takes 9 s, Ensure was called %d times", round, n)
			}
			if n := len(term.groups.inProgress); n != 0 {
				t.Errorf("%d keys are remembered", n)
			}
			d.mu.Lock()
			delete(d.workers, "k")
			d.mu.Unlock()
			gone := time.Now()
			time.Sleep(6 * time.Second) // a list comes every 5 s
			synctest.Wait()
			again := d.times("ensure k")
			if len(again) == len(asked) || again[len(asked)].Sub(gone) > 5*time.Second {
				t.Errorf("a worker that has gone was asked for again at %v, not with the next list", again[len(asked):])
			}
		}
	})
}

// failingDriver fails with an error that the test changes.
type failingDriver struct {
	lazyDriver
	err   error
	lists bool // only starts fail
}

func (d *failingDriver) Ensure(ctx context.Context, g driver.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls["ensure"] = append(d.calls["ensure"], time.Now())
	if d.err == nil {
		d.workers[g.Key] = driver.Running
	}
	return d.err
}

func (d *failingDriver) List(ctx context.Context) ([]driver.Worker, error) {
	list, _ := d.lazyDriver.List(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lists {
		return list, nil
	}
	return list, d.err
}

// TestFailuresAreLogged checks that a failure of the driver is logged once, then when its error changes,
// every ten minutes, and when it ends, however many calls fail; and that the end of the term is none.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &failingDriver{lazyDriver: lazyDriver{t: t, calls: map[string][]time.Time{}, workers: map[string]driver.State{}}}
		w := newSimulation(t, 1)
		var log strings.Builder
		w.config = func(c *Config) { c.Driver, c.Log = d, slog.New(slog.NewTextHandler(&log, nil)) }
		stop := w.start(Delays{time.Hour, time.Hour}, Timing{})
		time.Sleep(time.Second)
		fails := func(err error, wait time.Duration) {
			d.mu.Lock()
			d.err = err
			d.mu.Unlock()
			time.Sleep(wait)
		}
		lines := func(part string) int { synctest.Wait(); return strings.Count(log.String(), part) }
		fails(errors.New("no image"), 0)
		go w.publish("k", 1)
		time.Sleep(9 * time.Minute)
		if n := len(d.times("ensure")); n < 20 {
			t.Errorf("a start was tried %d times", n)
		}
		if start, list := lines("cannot start the workers"), lines("cannot list"); start != 1 || list != 1 {
			t.Errorf("starts gave %d lines, lists %d; want one each", start, list)
		}
		if n := w.metric("rouse_pool_failing"); n != 1 {
			t.Errorf("%v groups fail", n)
		}
		time.Sleep(2 * time.Minute)
		if n := lines("cannot start the workers"); n != 2 {
			t.Errorf("after ten minutes there are %d lines", n)
		}
		fails(errors.New("no memory"), 2*time.Minute)
		if n := lines(`error="no memory"`); n != 2 {
			t.Errorf("another error gave %d lines", n)
		}
		fails(nil, time.Minute)
		if n := lines("succeed again"); n != 2 {
			t.Errorf("the end gave %d lines", n)
		}
		fails(context.Canceled, 0)
		before := log.Len()
		stop()
		if more := log.String()[before:]; more != "" {
			t.Errorf("the end of the term is logged: %s", more)
		}
		fails(nil, 0)
	})
}

// busyError is an error of a server that asks for some time.
type busyError struct{ after time.Duration }

func (e busyError) Error() string             { return "too many requests" }
func (e busyError) RetryAfter() time.Duration { return e.after }

// TestFailingCallsBackOff checks that the pauses between failing calls for a key grow, and are as long as the
// server asks.
func TestFailingCallsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &failingDriver{lazyDriver: lazyDriver{t: t, calls: map[string][]time.Time{}, workers: map[string]driver.State{}}}
		w := newSimulation(t, 1)
		w.config = func(c *Config) { c.Driver = d }
		stop := w.start(Delays{time.Hour, time.Hour}, Timing{})
		time.Sleep(time.Second)
		d.mu.Lock()
		d.err, d.lists = errors.New("no image"), true
		d.mu.Unlock()
		go w.publish("k", 1)
		time.Sleep(2 * time.Minute)
		if n := len(d.times("ensure")); n < 8 || n > 14 {
			t.Errorf("a start was tried %d times in two minutes", n)
		}
		d.mu.Lock()
		d.err = fmt.Errorf("create it: %w", busyError{40 * time.Second})
		d.mu.Unlock()
		time.Sleep(3 * time.Minute)
		times := d.times("ensure")
		if pause := times[len(times)-1].Sub(times[len(times)-2]); pause < 40*time.Second || pause > 41*time.Second {
			t.Errorf("the last two starts are %v apart", pause)
		}
		stop()
	})
}

// TestUnknownWorkersAreTrouble checks that groups show why their workers are not known, if the driver cannot
// list them: nothing is started before.
func TestUnknownWorkersAreTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &failingDriver{lazyDriver: lazyDriver{t: t, calls: map[string][]time.Time{}, workers: map[string]driver.State{}}, err: errors.New("pods is forbidden")}
		w := newSimulation(t, 1)
		w.config = func(c *Config) { c.Driver = d }
		stop := w.start(Delays{time.Hour, time.Hour}, Timing{})
		go w.publish("k", 1)
		time.Sleep(time.Minute)
		groups := w.term.manager.View().Groups
		if len(groups) != 1 || !strings.Contains(groups[0].Error, "cannot be listed: pods is forbidden") {
			t.Errorf("the groups are %+v", groups)
		}
		stop()
	})
}

// TestAnswersAreNoFailures checks that an error which is an answer, such as that a queue is in use, is not
// told to be over.
func TestAnswersAreNoFailures(t *testing.T) {
	var log strings.Builder
	l := failureLog{log: slog.New(slog.NewTextHandler(&log, nil))}
	if l.noteCallFailure(t.Context(), &repeatedFailure{err: ErrInUse}, nil, "a call failed") != nil || log.Len() > 0 {
		t.Errorf("it is told: %s", log.String())
	}
	now := l.noteCallFailure(t.Context(), nil, errors.New("no route"), "a call failed")
	l.noteCallFailure(t.Context(), now, nil, "a call failed")
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("a failure and its end give %d lines:\n%s", n, log.String())
	}
}
