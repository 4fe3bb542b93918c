package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestGroupsKeepToTheirLimits drives a tracker with random calls, and checks after each: no limit is
// exceeded, a key waits only because of a limit, and keys that keep asking have their turn in order of
// arrival.
func TestGroupsKeepToTheirLimits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := time.Unix(0, 0)
		tracker := NewTracker(Delays{3 * time.Second, 2 * time.Second}, now, nil)
		tracker.limits = Limits{Groups: rapid.IntRange(1, 5).Draw(r, "groups"), NamespaceOwned: rapid.IntRange(1, 3).Draw(r, "owned")}
		owners := map[string]string{}
		r.Repeat(map[string]func(*rapid.T){
			"ask": func(r *rapid.T) {
				n := rapid.IntRange(0, 11).Draw(r, "n")
				key, owner := fmt.Sprint(n), []string{"a", "b", ""}[n%3]
				owners[key] = owner
				before := tracker.groups[key] != nil
				_, ok := tracker.Ask(now, key, owner, 0)
				if ok != (tracker.groups[key] != nil) || before && !ok {
					r.Fatalf("Ask of %s gives %v", key, ok)
				}
				if !ok && tracker.exceededLimit(owner) == "" {
					r.Fatalf("%s waits, and there is room", key)
				}
			},
			"stop": func(r *rapid.T) { tracker.Stop(now, fmt.Sprint(rapid.IntRange(0, 11).Draw(r, "n"))) },
			"time": func(r *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(r, "ms")) * time.Millisecond)
				tracker.Advance(now)
			},
			"": func(r *rapid.T) {
				of := map[string]int{}
				for key := range tracker.groups {
					of[owners[key]]++
				}
				if len(tracker.groups) > tracker.limits.Groups || of["a"] > tracker.limits.NamespaceOwned || of["b"] > tracker.limits.NamespaceOwned {
					r.Fatalf("%d groups, %v; the limits are %+v", len(tracker.groups), of, tracker.limits)
				}
				for _, w := range tracker.Waiting() {
					if tracker.groups[w.key] != nil {
						r.Fatalf("%s waits, and has a group", w.key)
					}
				}
			},
		})
	})
}

// TestTurns checks that keys over a limit have their turn in order of arrival, unless they stop asking.
func TestTurns(t *testing.T) {
	now := time.Unix(0, 0)
	tracker := NewTracker(Delays{100 * time.Second, time.Second}, now, nil)
	tracker.limits.Groups = 1
	ask := func(key string) bool { _, ok := tracker.Ask(now, key, "", 0); return ok }
	if !ask("a") || ask("b") || ask("c") || ask("d") {
		t.Fatal("there is more than one group")
	}
	now = now.Add(waitingLifetime - time.Second)
	ask("c")
	ask("d")
	now = now.Add(2 * time.Second)
	tracker.Stop(now, "a")
	if ask("new") || tracker.groups["c"] == nil {
		t.Errorf("the groups are %v; it is the turn of c", tracker.Target().Groups)
	}
	var left []string
	for _, w := range tracker.Waiting() {
		left = append(left, w.key)
	}
	if !slices.Equal(left, []string{"d", "new"}) {
		t.Errorf("%q wait", left)
	}
}

// TestPins checks that a pinned group stays until it is unpinned or stopped.
func TestPins(t *testing.T) {
	bubble(t, Timing{Settle: time.Second}, nil, func(t *testing.T, w *simulation) {
		m := w.term.manager
		if err := m.Pin("k", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if v := m.View(); len(v.Groups) != 1 || !v.Groups[0].Pinned || v.Groups[0].Status != "active" || w.called("ensure k") != 1 {
			t.Errorf("the groups are %+v, %s", v.Groups, w.log())
		}
		served := []Served{{m, &stock{}}}
		if s := summarizePools(served)[0]; s.Groups != 1 || s.Workers != 1 || s.Waiting != 0 || s.Since.IsZero() {
			t.Errorf("the pool has %+v", s)
		}
		if s := Statuses(served)[0]; s.GroupCount != 1 || s.Workers != 1 || s.Waiting != 0 || s.Since == 0 || len(s.Groups) != 1 {
			t.Errorf("the status is %+v", s)
		}
		w.publish("k", 1)
		time.Sleep(time.Minute)
		if err := m.Restart("k"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if w.called("drain k") != 1 || w.called("ensure k") != 2 || len(w.list()) != 1 {
			t.Errorf("after a restart: %s", w.log())
		}
		if err := m.Pin("k", false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q are left of a group that is not pinned any more", left)
		}
		w.publish("k", 2)
		time.Sleep(time.Second)
		w.mu.Lock()
		w.stops = true
		w.mu.Unlock()
		if err := m.Stop("k"); err != nil {
			t.Error(err)
		}
		time.Sleep(8 * time.Second) // less than the lifetime of a group that is not stopped
		if left := w.left(); len(left) > 0 || w.answers(2) != 1 {
			t.Errorf("%q are left of a group that was stopped", left)
		}
		for _, err := range []error{m.Stop("k"), m.Restart("k")} {
			if err == nil {
				t.Error("what is not there is stopped")
			}
		}
	})
}

// countingDriver starts workers at once, and counts them.
type countingDriver struct {
	mu      sync.Mutex
	workers map[string]bool
	starts  []time.Time
	most    int
	changed chan struct{}
}

func (d *countingDriver) Ensure(_ context.Context, g driver.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.workers[g.Key] {
		d.workers[g.Key] = true
		d.starts = append(d.starts, time.Now())
		d.most = max(d.most, len(d.workers))
		d.tell()
	}
	return nil
}

func (d *countingDriver) tell() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *countingDriver) Drain(_ context.Context, key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.workers, key)
	d.tell()
	return nil
}

func (d *countingDriver) List(context.Context) (list []driver.Worker, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.workers {
		list = append(list, driver.Worker{ID: key, Key: key, State: driver.Running})
	}
	return list, nil
}

func (d *countingDriver) Changed() <-chan struct{}      { return d.changed }
func (d *countingDriver) Release(context.Context) error { return nil }
func (d *countingDriver) Close(context.Context) error   { return nil }

// TestStartsKeepToTheirLimits requests many groups at once, and checks that the limits on groups, workers and
// the rate of starts are kept, that waiting keys are shown, and that each has its turn.
func TestStartsKeepToTheirLimits(t *testing.T) {
	d := &countingDriver{workers: map[string]bool{}}
	bubble(t, Timing{Settle: time.Second}, func(w *simulation) {
		d.changed = make(chan struct{}, 1) // of the bubble
		w.config = func(c *Config) { c.Driver, c.Limits = d, Limits{Groups: 60, Workers: 20, Starts: 5} }
	}, func(t *testing.T, w *simulation) {
		const keys = 100
		served := map[string]bool{}
		var mu sync.Mutex
		var asking sync.WaitGroup
		for i := range keys {
			key := fmt.Sprint("k", i)
			asking.Go(func() {
				for {
					err := w.term.AwaitFor(t.Context(), key, "ns", false)
					if err == nil {
						mu.Lock()
						served[key] = true
						mu.Unlock()
						return
					}
					if !errors.Is(err, ErrLimit) {
						t.Errorf("Await of %s: %v", key, err)
						return
					}
					time.Sleep(time.Second)
				}
			})
		}
		time.Sleep(2 * time.Second)
		v := w.term.manager.View()
		limited := 0
		for _, g := range v.Groups {
			if g.Limit != "" {
				limited++
			}
		}
		if len(v.Groups) != 60 || v.Waits != 40 || v.Waiting[0].Limit != LimitGroups || limited < 30 {
			t.Errorf("%d groups, of which %d wait, and %d keys wait: %+v", len(v.Groups), limited, v.Waits, v.Waiting)
		}
		if s := summarizePools([]Served{{w.term.manager, &stock{}}})[0]; s.Groups != 60 || s.Waiting < 40+30 {
			t.Errorf("the pool has %+v", s)
		}
		time.Sleep(10 * time.Minute)
		asking.Wait()
		if len(served) != keys || d.most > 20 {
			t.Errorf("%d keys were served, by up to %d workers at a time", len(served), d.most)
		}
		for i := range d.starts {
			if i >= 15 && d.starts[i].Sub(d.starts[i-15]) < 900*time.Millisecond { // ten at once, and five a second
				t.Fatalf("sixteen workers were started within %v", d.starts[i].Sub(d.starts[i-15]))
			}
		}
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// hintedDriver records what it is told about workers.
type hintedDriver struct {
	countingDriver
	proved  map[string]int
	retries int
}

func (d *hintedDriver) Proved(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proved[key]++
}

func (d *hintedDriver) Retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retries++
}

// TestDriversAreTold checks that a driver is told which workers have worked, and that each term starts with a
// retry for those that wait.
func TestDriversAreTold(t *testing.T) {
	d := &hintedDriver{countingDriver: countingDriver{workers: map[string]bool{}}, proved: map[string]int{}}
	bubble(t, Timing{}, func(w *simulation) {
		d.changed = make(chan struct{}, 1)
		w.config = func(c *Config) { c.Driver = d }
	}, func(t *testing.T, w *simulation) {
		w.term.Note("k", Started)
		if d.retries != 1 || len(d.proved) != 0 {
			t.Errorf("at first: %d tries, %v have worked", d.retries, d.proved)
		}
		w.term.Note("k", RequestReceived)
		w.term.Note("other", Ready)
		if d.proved["k"] != 1 || d.proved["other"] != 1 {
			t.Errorf("%v have worked", d.proved)
		}
	})
}

// TestGroupsOfANamespaceWaitForRoom counts the groups of two pools together, until one pool is led elsewhere.
func TestGroupsOfANamespaceWaitForRoom(t *testing.T) {
	now, owned := time.Unix(0, 0), &Owned{}
	limits := Limits{Owned: owned, Room: func(namespace string) bool { return namespace != "a" || owned.Of("a") < 3 }}
	one, two := NewTracker(Delays{time.Second, time.Second}, now, nil), NewTracker(Delays{time.Hour, time.Hour}, now, nil)
	one.limits, two.limits = limits, limits
	for i, c := range []struct {
		tracker    *Tracker
		key, owner string
		ok         bool
	}{{one, "1", "a", true}, {two, "1", "a", true}, {two, "2", "a", true}, {one, "2", "a", false}, {one, "3", "b", true}, {two, "1", "a", true}, {two, "3", "", true}} {
		if _, ok := c.tracker.Ask(now, c.key, c.owner, 0); ok != c.ok {
			t.Errorf("%d: %v", i, ok)
		}
	}
	if w := one.Waiting(); len(w) != 1 || w[0].limit != rouse.QuotaPoolGroups {
		t.Errorf("%+v wait", w)
	}
	one.Advance(now.Add(time.Minute))
	if n := owned.Of("a"); n != 2 {
		t.Errorf("%d groups after one has ended", n)
	}
	if two.releaseOwned(); owned.Of("a") != 0 {
		t.Errorf("%d groups of pools that are led elsewhere", owned.Of("a"))
	}
}
