package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// promised is what the service promises while it is treated badly on a machine that others use too. Occurrences may be late
// here: how late is measured by rouse bench. They may not be lost, early, doubled without a fault, or phantoms.
var promised = history.Config{
	MaxLate: 10 * time.Second, Recovery: 5 * time.Second, Lease: 3 * time.Second,
	ClockErr:   25 * time.Millisecond, // due times count from a clock in whole milliseconds that the engine reads four times a second
	MinBackoff: retryInterval - 25*time.Millisecond, MaxBackoff: 5 * time.Second, AttemptTimeout: attemptTimeout,
	StrictDup: true, Records: true,
}

// watched is added to the end of a history once the service has ended with nothing left to fire: nothing can come any more, so
// watching for longer would show the same. It is longer than every deadline.
const watched = time.Minute

// witness writes down what clients, receivers and whoever breaks things did and saw.
type witness struct {
	t      testing.TB
	path   string
	file   *os.File
	w      *history.Writer
	gens   atomic.Uint64
	faults atomic.Uint64
	fires  atomic.Int64
	facts

	orderly bool // no restart is a fault: what misses a deadline because of one would be taken for lost
}

// newWitness returns a witness of what the service promises, changed by change where a test asks for it.
func newWitness(t testing.TB, change ...func(*history.Config)) *witness {
	t.Helper()
	path := filepath.Join(t.ArtifactDir(), "history.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, path: path, file: f, w: history.NewWriter(f)}
	t.Cleanup(func() { _ = f.Close() })
	cfg := promised
	for _, do := range change {
		do(&cfg)
	}
	w.write(cfg)
	return w
}

func (w *witness) write(e history.Event) {
	if err := w.w.Write(e); err != nil {
		w.t.Errorf("history: %v", err)
	}
}

// stamp is the payload of every timer: which write it is.
type stamp struct {
	Timer string `json:"timer"`
	Gen   uint64 `json:"gen"`
}

func (s stamp) payload() []byte { return fmt.Appendf(nil, `{"timer":%q,"gen":%d}`, s.Timer, s.Gen) }

func readStamp(payload []byte) (s stamp, err error) {
	if err = json.Unmarshal(payload, &s); err == nil && (s.Timer == "" || s.Gen == 0) {
		err = fmt.Errorf("%q is no stamp", payload)
	}
	return s, err
}

func now() history.Time { return history.At(time.Now()) }

// moment is an instant of the service, 0 if it named none.
func moment(i rouse.Instant) history.Time {
	if i == 0 || i == rouse.Never {
		return 0
	}
	return history.At(i.Time())
}

// result says what a client knows after an error: a refusal changed nothing, everything else may have.
func result(err error) history.Res {
	var inv *rouse.Invalid
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &inv), errors.Is(err, rouse.ErrNotFound), errors.Is(err, rouse.ErrExists), errors.Is(err, rouse.ErrConflict),
		errors.Is(err, rouse.ErrFull), errors.Is(err, rouse.ErrOverloaded):
		return history.Fail
	}
	return history.Info
}

// fault writes that something breaks now; the function it returns, that it is whole again.
func (w *witness) fault(kind string) (heal func()) {
	fid := strconv.FormatUint(w.faults.Add(1), 10)
	w.write(history.Fault{FID: fid, Kind: kind, T: now()})
	return func() { w.write(history.Heal{FID: fid, T: now()}) }
}

// list returns the timers that match.
func list(t testing.TB, c *client.Client, q rouse.Query) (timers []rouse.Timer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	for timer, err := range c.List(ctx, q) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		timers = append(timers, timer)
	}
	return timers
}

// close writes the final listing and the dead letters, stops the server, and judges. At least floor occurrences must have been
// due to arrive: fewer prove nothing.
func (w *witness) close(s *server, floor int) {
	w.t.Helper()
	c := s.Dial(harness.Patience)
	w.quiet(c)
	final := history.Final{T0: now(), Timers: map[string]uint64{}}
	timers := list(w.t, c, rouse.Query{})
	final.T1 = now()
	for _, timer := range timers {
		gen := w.stampOf(&timer).Gen
		final.Timers[timer.Key.Name] = gen
		w.knows(timer.Key.Name, timer.Generation, gen, timer.Due)
	}
	w.write(final)
	for _, dead := range list(w.t, c, rouse.Query{States: []rouse.State{rouse.StateDead}}) {
		gen := w.stampOf(&dead).Gen
		w.write(history.Dead{Timer: dead.Key.Name, Gen: gen, Due: moment(dead.Due), T: now(), Manual: dead.Manual})
		w.knows(dead.Key.Name, dead.Generation, gen, dead.Due)
	}
	w.account(c)
	s.Stop()
	w.write(history.End{T: now().Add(watched)})
	w.judge(floor)
}

func (w *witness) stampOf(t *rouse.Timer) stamp {
	s, err := readStamp(t.Spec.Payload)
	if err != nil || s.Timer != t.Key.Name {
		w.t.Errorf("timer %q has the payload %q: %v", t.Key.Name, t.Spec.Payload, err)
	}
	return s
}

// quiet waits until nothing is left that is due while anybody watches.
func (w *witness) quiet(c *client.Client) {
	w.t.Helper()
	var left []rouse.Timer
	soon := rouse.At(time.Now().Add(2 * watched))
	harness.Until(w.t, func() string {
		return fmt.Sprintf("%d timers have not ended, such as %s, %s, %v, due %v", len(left), left[0].Key.Name, left[0].Spec.Schedule, left[0].State(), left[0].Due)
	}, func() bool {
		left = list(w.t, c, rouse.Query{DueUntil: soon})
		left = append(left, list(w.t, c, rouse.Query{States: []rouse.State{rouse.StateFiring, rouse.StateEnded}})...)
		return len(left) == 0
	})
}

// judge lets the checker judge what was written.
func (w *witness) judge(floor int) {
	w.t.Helper()
	if err := w.w.Flush(); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f)
	if err != nil {
		w.t.Fatalf("the history is unusable: %v", err)
	}
	report := history.Check(h)
	w.t.Logf("%v; faults=%d", report.Stats, len(h.Faults))
	told := map[[2]string]bool{} // one of each rule for each timer says enough
	for _, v := range report.Violations {
		if key := [2]string{v.Rule, v.Timer}; !told[key] && len(told) < 20 {
			told[key] = true
			w.t.Error(v)
		}
	}
	if n := len(report.Violations); n > len(told) {
		w.t.Errorf("%d violations in all", n)
	}
	if report.Stats.Early > 0 {
		w.t.Errorf("%d occurrences arrived early", report.Stats.Early)
	}
	if report.Stats.Musts < floor {
		w.t.Errorf("%d occurrences had to arrive; that proves nothing, it takes %d", report.Stats.Musts, floor)
	}
	if w.t.Failed() {
		w.t.Logf("with -artifacts the history is kept")
	}
}
