package sinktest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// newFire returns the n-th fire of a case, with its own spec.
func (p *Peer) newFire(n int, payload []byte, contentType string) rouse.Fire {
	spec := p.Spec
	spec.Payload, spec.ContentType = payload, contentType
	spec.Schedule = cmp.Or(spec.Schedule, "@after 1s")
	spec.Retry.Timeout = cmp.Or(spec.Retry.Timeout, 2*patience)
	name := fmt.Sprintf("timer-%d", n)
	due := rouse.At(time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC)) + rouse.Instant(n)
	return rouse.Fire{ID: rouse.FireID("sinktest", name, 7, due, false), Namespace: "sinktest", Name: name, Generation: 7,
		Due: due, Attempt: 1, Token: uint64(n + 1), Spec: &spec}
}

func (p *Peer) newFires(n int) []rouse.Fire {
	fires := make([]rouse.Fire, n)
	for i := range fires {
		fires[i] = p.newFire(i, fmt.Appendf(nil, "payload %d", i), "text/plain")
	}
	return fires
}

// play is a set of fires in delivery and their reported outcomes.
type play struct {
	t       *testing.T
	fires   []rouse.Fire
	senders sync.WaitGroup
	settled chan struct{} // closed when each fire was reported

	mu       sync.Mutex
	outcomes [][]rouse.Outcome // by fire, in the order of reports
	left     int
}

// sendFires delivers the fires in deliveries of up to size fires, all concurrently.
func (p *Peer) sendFires(ctx context.Context, t *testing.T, fires []rouse.Fire, size int) *play {
	pl := &play{t: t, fires: fires, settled: make(chan struct{}), outcomes: make([][]rouse.Outcome, len(fires)),
		left: len(fires)}
	lane := p.Sink.Lane(fires[0].Namespace, fires[0].Spec)
	size = max(1, min(size, lane.Batch, lane.Limit))
	for from := 0; from < len(fires); from += size {
		part := fires[from:min(from+size, len(fires))]
		pl.senders.Go(func() {
			p.Sink.Deliver(ctx, part, func(i int, o rouse.Outcome) {
				if i < 0 || i >= len(part) {
					t.Errorf("reported fire %d of %d", i, len(part))
					return
				}
				pl.recordOutcome(from+i, o)
			})
		})
	}
	return pl
}

func (pl *play) recordOutcome(i int, o rouse.Outcome) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.outcomes[i] = append(pl.outcomes[i], o)
	if len(pl.outcomes[i]) == 1 {
		if pl.left--; pl.left == 0 {
			close(pl.settled)
		}
	}
}

// awaitOutcomes waits until all fires are reported and every Deliver has returned.
func (pl *play) awaitOutcomes() []rouse.Outcome {
	pl.t.Helper()
	returned := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		pl.senders.Wait()
		close(returned)
	})
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for _, c := range []struct {
		done <-chan struct{}
		what string
	}{{pl.settled, "fires that were never reported"}, {returned, "a Deliver that never returned"}} {
		select {
		case <-c.done:
		case <-limit.C:
			pl.t.Fatalf("waited %v for %s", patience, c.what)
		}
	}
	waiter.Wait()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	out := make([]rouse.Outcome, len(pl.outcomes))
	for i, os := range pl.outcomes {
		out[i] = os[0]
		wellFormed(pl.t, out[i])
	}
	return out
}

// checkOnce checks, when nothing runs any more, that no fire was reported twice.
func (pl *play) checkOnce() {
	pl.t.Helper()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for i, os := range pl.outcomes {
		if len(os) != 1 {
			pl.t.Errorf("fire %d was reported %d times: %v", i, len(os), os)
		}
	}
}

// wellFormed checks the rules for every outcome.
func wellFormed(t *testing.T, o rouse.Outcome) {
	t.Helper()
	if o.Verdict < rouse.Done || o.Verdict > rouse.Deferred {
		t.Errorf("verdict %d is none", o.Verdict)
	}
	if o.After < 0 {
		t.Errorf("an outcome of the past: %v", o.After)
	}
	if o.Verdict == rouse.Accepted && o.After == 0 {
		t.Error("accepted without a deadline")
	}
	if len(o.Detail) > rouse.MaxDetail {
		t.Errorf("a detail of %d bytes", len(o.Detail))
	}
	for _, r := range o.Detail {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			t.Errorf("%q in the detail %q", r, o.Detail)
		}
	}
	if o.Verdict == rouse.Deferred && !slices.Contains(rouse.Causes(rouse.EndMissed), o.Cause) {
		t.Errorf("deferred (%s) with cause %v, which is none of a deferral", o.Detail, o.Cause)
	}
	if o.Detail == "" && (o.Verdict == rouse.Failed || o.Verdict == rouse.Rejected) {
		t.Errorf("%v without a reason", o.Verdict)
	}
}

// nextArrival takes the next arrival from the peer.
func (p *Peer) nextArrival(t *testing.T) *Arrival {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := p.Next(ctx)
	if err != nil {
		t.Fatalf("waiting for a fire to arrive: %v", err)
	}
	return a
}

// checkNoArrival checks that everything that arrived was taken. Everything has been reported, so nothing is
// still on the wire.
func (p *Peer) checkNoArrival(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := p.Next(ctx); err == nil {
		t.Errorf("fire %s of %s arrived, attempt %d, and should not have", a.Fire.ID, a.Fire.Name, a.Fire.Attempt)
	}
}
