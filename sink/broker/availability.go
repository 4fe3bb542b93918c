package broker

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Availability tracks whether a broker is available, and since when it has been unavailable: it cannot be
// reached, or it accepts nothing. A broker that was not tried yet is unavailable. Availability is safe for
// concurrent use.
type Availability struct {
	// Broker describes the broker for people: "RabbitMQ at rabbit:5672". Patience is how long fires wait
	// for it without spending attempts. Changed is called with the reason when it becomes unavailable, and
	// with nil when it is back. All three are set before use.
	Broker   string
	Patience time.Duration
	Changed  func(err error)

	mu      sync.Mutex
	up      bool
	since   time.Time // when it became unavailable; zero: it is available, or was not tried yet
	why     error
	changed chan struct{} // closed at the next change; nil if no goroutine waits
}

// connecting is how long a fire waits for a connection attempt in progress.
const connecting = 500 * time.Millisecond

// Await reports whether the broker is available. It waits for up to connecting if the broker was not tried
// yet, or has just become unavailable.
func (a *Availability) Await(ctx context.Context) bool {
	limit := time.NewTimer(connecting)
	defer limit.Stop()
	for {
		a.mu.Lock()
		up, gone := a.up, !a.since.IsZero() && time.Since(a.since) > connecting
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		if up || gone {
			return up
		}
		select {
		case <-changed:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// setAvailable requires a.mu.
func (a *Availability) setAvailable(up bool) {
	a.up = up
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// Lost marks the broker as unavailable, with the reason.
func (a *Availability) Lost(why error) {
	a.mu.Lock()
	news := a.since.IsZero()
	if news {
		a.since = time.Now()
	}
	a.why = why
	a.setAvailable(false)
	a.mu.Unlock()
	if news && a.Changed != nil {
		a.Changed(fmt.Errorf("%s: %w", a.Broker, why))
	}
}

// Back marks the broker as available.
func (a *Availability) Back() {
	a.mu.Lock()
	news := !a.since.IsZero()
	a.since, a.why = time.Time{}, nil
	a.setAvailable(true)
	a.mu.Unlock()
	if news && a.Changed != nil {
		a.Changed(nil)
	}
}

// Outcome is the outcome of a fire that cannot be sent because the broker is unavailable. It is deferred,
// for longer the longer the outage lasts, and fails after Patience, so that fires for a broker that never
// comes back end as dead letters.
func (a *Availability) Outcome(f *rouse.Fire) rouse.Outcome {
	a.mu.Lock()
	why, since := a.why, a.since
	a.mu.Unlock()
	var outage time.Duration
	text := a.notYet()
	if !since.IsZero() {
		outage = time.Since(since)
		text = fmt.Sprintf("%s is unavailable: %v", a.Broker, why)
	}
	if outage > a.Patience {
		return Failed(0, fmt.Sprintf("not sent after %v of waiting: %s", outage.Round(time.Second), text))
	}
	wait := min(max(outage/2, 250*time.Millisecond), 30*time.Second)
	h := fnv.New32a()
	h.Write([]byte(f.ID))
	return Unsent(wait+time.Duration(h.Sum32())%wait, text) // jitter, so that fires do not return together
}

func (a *Availability) notYet() string { return "no connection to " + a.Broker + " yet" }

// Obstacle describes since when the broker has been unavailable, or that it was not reached yet; empty if
// it is available.
func (a *Availability) Obstacle() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.up:
		return ""
	case a.since.IsZero():
		return a.notYet()
	}
	return printableDetail(fmt.Sprintf("%s has been unavailable for %v: %v", a.Broker,
		time.Since(a.since).Round(time.Second), a.why))
}
