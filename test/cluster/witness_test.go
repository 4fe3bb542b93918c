package cluster

import (
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// promised is what the service promises while it is treated badly on a machine that others use too.
// Occurrences may be late here, by more than a fault explains: how late is measured by rouse bench. They may
// not be lost, early, doubled without a fault, or phantoms.
var promised = history.Config{Handovers: true,
	MaxLate: 20 * time.Second, Recovery: lease + 10*time.Second, Excuse: echo, Lease: hold + 10*time.Second,
	ClockErr:   25 * time.Millisecond,
	MinBackoff: harness.RetryInterval - 25*time.Millisecond, MaxBackoff: 20 * time.Second, AttemptTimeout: harness.AttemptTimeout,
	StrictDup: true, Records: true,
}

// echo is how long after a fault an occurrence may be delivered again: by then its node has sent it, or
// learned that another node has it.
const echo = 3 * time.Second

// witness records a test on several nodes.
type witness struct {
	*harness.Recorder
	figures figures

	mu   sync.Mutex
	open map[string]bool // timers that were deleted or replaced while they were being tried: each node that tried records the outcome
}

// newWitness returns a witness of what the service promises, changed by change where a test's fault asks for
// it.
func newWitness(t testing.TB, change ...func(*history.Config)) *witness {
	t.Helper()
	return &witness{Recorder: harness.NewRecorder(t, promised, change...), open: map[string]bool{}}
}

// cut notes that a timer was deleted or replaced while it was being tried, perhaps.
func (w *witness) cut(timer string, inFlight bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[timer] = w.open[timer] || inFlight
}

// written writes down a write. A delay of unknown end waits until it is known when it was due.
func (w *witness) written(e *history.Put, made *rouse.Timer) {
	w.cut(e.Timer, e.InFlight || e.Res == history.Info)
	w.fix(e)
	w.Wrote(e, made, e.Res == history.Info && e.Spec.At == 0 && e.Spec.Start == 0)
}

// close writes what the service tells in the end, stops the nodes, and judges. At least floor occurrences
// must have been due to arrive: fewer prove nothing. All nodes are healthy by now.
func (w *witness) close(f *fleet, floor int) {
	w.T.Helper()
	c := f.dial(0, harness.Patience)
	w.Quiet(c)
	w.Final(c)
	w.Account(c, func(e *history.Put, due history.Time) {
		if due != 0 {
			fixTo(e, due)
		}
	}, func(r *rouse.Record) bool { return w.open[r.Name] }) // if there was a fault, several nodes may have tried it, and each has a record
	for _, n := range f.nodes {
		if n.Runs() {
			n.Stop()
		}
	}
	// A node that deletes what another one is trying records that it was cut off. The attempt may end well
	// all the same.
	h, report, lost := w.Judge(floor, func(v *history.Violation) bool { return v.Rule == "R2-ending" && w.open[v.Timer] })
	w.T.Logf("echoes=%d", echoes(h))
	w.figures.log(w.T, &report.Stats, lost)
}

// hostOf is the host and port of a URL.
func hostOf(t testing.TB, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// title is what a figure is of.
func title(t testing.TB) string { return strings.TrimPrefix(t.Name(), "Test") }
