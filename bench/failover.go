package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Failover is how long the timers of a node that was killed were silent, in seconds: from the kill to the
// next fire of each.
type Failover struct {
	Lease  float64 `json:"lease_seconds"`
	Timers int64   `json:"timers"` // that the node had fired last
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
	Max    float64 `json:"max_seconds"`
	Others float64 `json:"longest_silence_of_others_seconds"` // of a timer of the other nodes; they are due once a second
}

// measureFailover has timers fire every second, kills the node that fires most of them, and waits until
// others have fired all of its timers. Then it stops another one, which only its leases show, if that leaves
// one.
func measureFailover(ctx context.Context, o Options) (*Result, error) {
	t, err := openTarget(ctx, o, 1)
	if err != nil {
		return nil, err
	}
	defer t.closeTarget()
	w, sub, err := everySecond(ctx, o, t)
	if err != nil {
		return nil, err
	}
	defer sub.closeStreams() //nolint:errcheck // where it matters, it was looked at
	r := &Result{RSS: t.serversUsage().peak, Timers: int64(len(w.timers)), Early: &w.early, Doubled: &w.doubled,
		Lost: new(int64)}
	if r.Failover, err = w.loseBusiestNode(ctx, o, t, sub, r, syscall.SIGKILL); err != nil {
		return nil, err
	}
	r.addGoal(r.Failover.P99 <= certain.Seconds(), "p99 of the silence at most 1.5 s after a kill")
	if o.Nodes > 2 && sigStop != 0 {
		if err := sleepContext(ctx, 2*time.Second); err != nil {
			return nil, err
		}
		if r.Hung, err = w.loseBusiestNode(ctx, o, t, sub, r, sigStop); err != nil {
			return nil, err
		}
		r.addGoal(r.Hung.P99 <= r.Hung.Lease+1, "p99 of the silence at most the lease and a second after a node hung")
	}
	r.addGoal(*r.Lost == 0 && *r.Early == 0, "none lost or early")
	_ = sub.closeStreams()
	return r, errors.Join(sub.errs...)
}

// certain is how long timers may be silent when it is certain that their node is dead.
const certain = 1500 * time.Millisecond

// loseBusiestNode takes away the node that fires most timers, and waits until others have fired all of them.
func (w *fireObserver) loseBusiestNode(ctx context.Context, o Options, t *target, sub *subscriber, r *Result,
	by syscall.Signal) (*Failover, error) {
	victim := w.busiestNode(len(t.addrs))
	p := t.processes[victim]
	sub.lost[victim].Store(true)
	at := time.Now()
	if by == syscall.SIGKILL {
		if err := p.stopProcess(by); err != nil {
			return nil, err
		}
	} else {
		if err := p.child.Process.Signal(by); err != nil {
			return nil, err
		}
		defer p.stopProcess(syscall.SIGKILL) //nolint:errcheck // it cannot end otherwise
	}
	w.markNodeLost(victim)
	err := waitFor(ctx, o.Lease+patience, func() bool {
		return w.allTimersMatch(func(s *observedTimer) bool { return !s.orphan || !s.back.IsZero() })
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f, lost := w.measureSilence(o, at)
	if *r.Lost += lost; err != nil {
		r.addResultNote("gave up waiting for %d timers of the node that was lost", lost)
	}
	return f, nil
}

// everySecond starts timers that are due every second, over the second, and waits until all of them fire.
func everySecond(ctx context.Context, o Options, t *target) (_ *fireObserver, _ *subscriber, err error) {
	n := int64(o.Count)
	if n == 0 {
		n = int64(o.Rate)
	}
	n = cmp.Or(n, sharedRate)
	w := &fireObserver{timers: make([]observedTimer, n), fires: map[string]bool{}}
	sub, err := subscribeStreams(ctx, t, len(t.addrs), "bench", w.recordFires)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = sub.closeStreams()
		}
	}()
	body := newPayloads(o.Size)
	// Over a second, so that they are due over each second.
	const parts = 20
	for i := range int64(parts) {
		first, end := n*i/parts, n*(i+1)/parts
		if _, err := createMany(ctx, t, t.roundToServers(1), first, end-first, func(i int64) *rousev1.Spec {
			return &rousev1.Spec{Schedule: "@every 1s", Target: "stream:bench", Payload: body(i)}
		}); err != nil {
			return nil, nil, err
		}
		if err := sleepContext(ctx, time.Second/parts); err != nil {
			return nil, nil, err
		}
	}
	if err := waitFor(ctx, patience,
		func() bool { return w.allTimersMatch(func(s *observedTimer) bool { return s.fires > 0 }) }); err != nil {
		return nil, nil, fmt.Errorf("not all of %d timers fire: %w", n, err)
	}
	if err := sleepContext(ctx, o.Duration); err != nil {
		return nil, nil, err
	}
	return w, sub, nil
}

// observedTimer counts the fires of a timer.
type observedTimer struct {
	node    int // whose stream the last fire came by
	fires   int
	last    time.Time
	orphan  bool // the node that was killed had fired it last
	back    time.Time
	silence time.Duration // the longest after the kill
	late    time.Duration // the latest since mark
}

// fireObserver watches timers fire.
type fireObserver struct {
	mu      sync.Mutex
	timers  []observedTimer
	fires   map[string]bool // ids
	early   int64
	doubled int64
	dead    bool
	victim  int
}

func (w *fireObserver) recordFires(stream int, fires []*rousev1.Fire, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range fires {
		i, ok := parseTimerNumber(f.Name)
		if !ok || i >= int64(len(w.timers)) {
			continue
		}
		if now.UnixMilli() < f.DueMs {
			w.early++
		}
		if w.fires[f.Id] {
			w.doubled++
		}
		w.fires[f.Id] = true
		s := &w.timers[i]
		s.late = max(s.late, time.Duration(now.UnixMilli()-f.DueMs)*time.Millisecond)
		switch {
		case w.dead && stream == w.victim:
			continue // sent before the kill
		case w.dead && s.orphan && s.back.IsZero():
			s.back = now
		case w.dead && !s.orphan:
			s.silence = max(s.silence, now.Sub(s.last))
		}
		s.node, s.last = stream, now
		s.fires++
	}
}

// allTimersMatch reports whether something is true of every timer.
func (w *fireObserver) allTimersMatch(is func(*observedTimer) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.timers {
		if !is(&w.timers[i]) {
			return false
		}
	}
	return true
}

// busiestNode returns which of the nodes was the last to fire the most timers.
func (w *fireObserver) busiestNode(nodes int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := make([]int, nodes)
	for i := range w.timers {
		had[w.timers[i].node]++
	}
	return slices.Index(had, slices.Max(had))
}

// markNodeLost notes that a node is dead, and which timers it leaves.
func (w *fireObserver) markNodeLost(node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead, w.victim = true, node
	for i := range w.timers {
		s := &w.timers[i]
		s.orphan, s.back, s.silence, s.late = s.node == node, time.Time{}, 0, 0
	}
}

// measureSilence returns how long the timers of the node that was lost were silent, and how many still are.
func (w *fireObserver) measureSilence(o Options, from time.Time) (f *Failover, lost int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	f = &Failover{Lease: o.Lease.Seconds()}
	var gaps lagHistogram
	for i := range w.timers {
		s := &w.timers[i]
		switch {
		case !s.orphan:
			f.Others = max(f.Others, max(s.silence, now.Sub(s.last)).Seconds())
		case s.back.IsZero():
			f.Timers++
			lost++
		default:
			f.Timers++
			gaps.recordLag(s.back.Sub(from))
		}
	}
	f.P50, f.P99, f.Max = gaps.lagQuantile(.5).Seconds(), gaps.lagQuantile(.99).Seconds(), gaps.max.Seconds()
	return f, lost
}
