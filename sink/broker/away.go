package broker

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Away knows whether a broker can be used, and since when not: it cannot be reached, or takes nothing from anybody. A new one says that
// it was not tried yet. It is safe for concurrent use.
type Away struct {
	// Broker is what is away, for people: "RabbitMQ at rabbit:5672". Patience is how long fires wait for it without spending attempts.
	// Changed is told why it is away, and with nil that it is back. They are set before it is used.
	Broker   string
	Patience time.Duration
	Changed  func(err error)

	mu      sync.Mutex
	there   bool
	since   time.Time // zero: it is there, or was not tried
	why     error
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// moment is how long a fire waits for a connection that is just being made.
const moment = 500 * time.Millisecond

// Await says whether the broker is there. It waits a moment for one that was not tried yet, or that has only just gone.
func (a *Away) Await(ctx context.Context) bool {
	limit := time.NewTimer(moment)
	defer limit.Stop()
	for {
		a.mu.Lock()
		there, gone := a.there, !a.since.IsZero() && time.Since(a.since) > moment
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		if there || gone {
			return there
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

// set is called with a.mu locked.
func (a *Away) set(there bool) {
	a.there = there
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// Lost notes why the broker cannot be reached.
func (a *Away) Lost(why error) {
	a.mu.Lock()
	news := a.since.IsZero()
	if news {
		a.since = time.Now()
	}
	a.why = why
	a.set(false)
	a.mu.Unlock()
	if news && a.Changed != nil {
		a.Changed(fmt.Errorf("%s: %w", a.Broker, why))
	}
}

// Back notes that it can.
func (a *Away) Back() {
	a.mu.Lock()
	news := !a.since.IsZero()
	a.since, a.why = time.Time{}, nil
	a.set(true)
	a.mu.Unlock()
	if news && a.Changed != nil {
		a.Changed(nil)
	}
}

// Outcome is that of a fire that cannot be sent now, for no reason of its own: it waits, the longer the longer the broker is away, and at
// last fails, so that fires for a broker that never comes back end as dead letters.
func (a *Away) Outcome(f *rouse.Fire) rouse.Outcome {
	a.mu.Lock()
	why, since := a.why, a.since
	a.mu.Unlock()
	var away time.Duration
	text := a.notYet()
	if !since.IsZero() {
		away = time.Since(since)
		text = fmt.Sprintf("%s is away: %v", a.Broker, why)
	}
	if away > a.Patience {
		return Failed(0, fmt.Sprintf("not sent: after %v of waiting: %s", away.Round(time.Second), text))
	}
	wait := min(max(away/2, 250*time.Millisecond), 30*time.Second)
	h := fnv.New32a()
	h.Write([]byte(f.ID))
	return Unsent(wait+time.Duration(h.Sum32())%wait, text) // fires that wait for one broker come back spread
}

func (a *Away) notYet() string { return "no connection to " + a.Broker + " yet" }

// Obstacle says since when the broker has been away, or that it was not reached yet; empty if it is there.
func (a *Away) Obstacle() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.there:
		return ""
	case a.since.IsZero():
		return a.notYet()
	}
	return printable(fmt.Sprintf("%s is away, for %v: %v", a.Broker, time.Since(a.since).Round(time.Second), a.why))
}
