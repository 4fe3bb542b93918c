package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// ticking returns a running node with a timer that fires each hour, and what it fired, by the node's clock.
func ticking(t *testing.T, clock *Clock) (n *Node, fired func() []time.Time) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	n = open(t, "mem:", WithClock(clock))
	err := n.Handle("f", func(context.Context, rouse.Fire) error {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, clock.Now())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	create(t, n, "hourly", "0 * * * *", "func:f")
	run(t, n)
	waitUntilItRuns(t, n)
	return n, func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return times
	}
}

func TestAdvanceGoesFromFireToFire(t *testing.T) {
	n, fired := ticking(t, NewStillClock(begin))
	if got := advance(t, n, begin.Add(3*time.Hour)); got != 3 {
		t.Errorf("the clock reads %d", got)
	}
	for i, at := range fired() {
		if want := begin.Add(time.Duration(i+1) * time.Hour); !at.Equal(want) {
			t.Errorf("fire %d at %v, want %v", i, at, want)
		}
	}
	if len(fired()) != 3 || !n.cfg.Clock.Now().Equal(begin.Add(3*time.Hour)) {
		t.Errorf("%d fires, the clock shows %v", len(fired()), n.cfg.Clock.Now())
	}
	if got := advance(t, n, begin.Add(3*time.Hour+59*time.Minute)); got != 0 {
		t.Errorf("nothing was due, and it reports %d", got)
	}
}

func TestAJumpIsAnOutage(t *testing.T) {
	n, fired := ticking(t, NewStillClock(begin))
	got, err := n.Advance(t.Context(), rouse.At(begin.Add(3*time.Hour+time.Minute)), true)
	if err != nil || got != 1 || len(fired()) != 1 || !fired()[0].Equal(begin.Add(3*time.Hour+time.Minute)) {
		t.Errorf("%d, %v, fired at %v", got, err, fired())
	}
	missed := 0
	for r, err := range n.Records(t.Context(), "hourly") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Ending == rouse.EndMissed {
			missed += int(max(1, r.Count))
		}
	}
	if missed != 2 {
		t.Errorf("%d missed", missed)
	}
}

// A clock that goes stands still while it is moved, so that each fire is at its own time, and then goes on
// from there.
func TestAClockThatGoes(t *testing.T) {
	clock := NewClock()
	if d := clock.Ahead(); d < -time.Second || d > time.Second {
		t.Errorf("a new clock is %v ahead", d)
	}
	n, fired := ticking(t, clock)
	to := clock.Now().Add(24 * time.Hour).Truncate(time.Hour)
	if got := advance(t, n, to); got != 24 && got != 23 {
		t.Errorf("%d fired", got)
	}
	for _, at := range fired() {
		if !at.Equal(at.Truncate(time.Hour)) {
			t.Errorf("fired at %v", at)
		}
	}
	after := clock.Now()
	if after.Before(to) || clock.Ahead() < 22*time.Hour {
		t.Errorf("the clock shows %v, %v ahead", after, clock.Ahead())
	}
	for !clock.Now().After(after) { // hangs if it stands still
	}
}

func TestMovesThatAreRefused(t *testing.T) {
	ctx := t.Context()
	n, _ := ticking(t, NewStillClock(begin))
	var inv *rouse.Invalid
	for _, to := range []rouse.Instant{rouse.At(begin) - 1, 0, rouse.MaxInstant + 1, rouse.Never} {
		if _, err := n.Advance(ctx, to, false); !errors.As(err, &inv) || inv.Problems[0].Field != "to" {
			t.Errorf("to %v: %v", to, err)
		}
	}
	real := open(t, "mem:")
	if _, err := real.Advance(ctx, rouse.At(time.Now().Add(time.Hour)), false); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("the machine's clock: %v", err)
	}
}

// A move that is given up leaves the clock where it is, and the next one goes on from there.
func TestAMoveThatIsGivenUp(t *testing.T) {
	clock := NewStillClock(begin)
	n := open(t, "mem:", WithClock(clock))
	called, release := make(chan struct{}), make(chan struct{})
	err := n.Handle("f", func(ctx context.Context, _ rouse.Fire) error {
		close(called)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	create(t, n, "a", "@after 1h", "func:f")
	run(t, n)
	waitUntilItRuns(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-called
		cancel()
	}()
	if _, err := n.Advance(ctx, rouse.At(begin.Add(3*time.Hour)), false); !errors.Is(err, context.Canceled) || !clock.Now().Equal(begin.Add(time.Hour)) {
		t.Errorf("%v, and the clock shows %v", err, clock.Now())
	}
	close(release)
	if advance(t, n, begin.Add(3*time.Hour)); !clock.Now().Equal(begin.Add(3 * time.Hour)) {
		t.Errorf("the clock shows %v", clock.Now())
	}
}

// The clock of a store was ahead, and the next process has the machine's: it is noticed, and reported.
func TestAClockThatWasAheadIsNoticedAfterARestart(t *testing.T) {
	dir := t.TempDir()
	clock := NewClock()
	clock.setClock(time.Now().Add(8 * time.Hour))
	n := open(t, "pebble:"+dir, WithClock(clock))
	stop := run(t, n)
	waitUntilItRuns(t, n)
	stop()
	n = open(t, "pebble:"+dir)
	run(t, n)
	waitUntilItRuns(t, n)
	poll.Until(t, "the clock is noticed", func() bool { return n.timers.Clock.WasAhead() != nil })
	poll.Until(t, "the node fires", func() bool { return n.Healthy() == nil })
	found := slices.ContainsFunc(ownStatus{n}.Doctor(t.Context(), true), func(f rouse.Finding) bool {
		return f.Check == "clock" && f.Severity == rouse.SeverityWarning && strings.Contains(f.Cure, "clock repair")
	})
	if !found {
		t.Error("the doctor does not name it")
	}
}
