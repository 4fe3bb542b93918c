package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
)

// Watched is added to the end of a history once the service has ended with nothing left to fire: nothing can
// come any more, so watching for longer would show the same. It is longer than every deadline.
const Watched = time.Minute

// Recorder writes down the calls and observations of clients, receivers and the injector of faults.
type Recorder struct {
	T      testing.TB
	Config history.Config

	// Seen is called with each due time that an answer or a fire of a timer shows; nil: not needed.
	Seen func(timer string, due rouse.Instant)

	path   string
	w      *history.Writer
	gens   atomic.Uint64
	faults atomic.Uint64
	fires  atomic.Int64

	mu     sync.Mutex
	known  map[generation]uint64    // the clients' number of a generation
	due    map[uint64]rouse.Instant // by that number: the earliest due time that was seen
	vague  map[string]bool          // timers with a write of unknown end, whose generation may never be learned
	unsure []history.Put            // writes whose due time is learned later, if at all
}

// generation is the service's name for a generation, which one write began.
type generation struct {
	timer  string
	number uint64
}

// NewRecorder returns a recorder for the promises of the service, changed by change where a test asks for it.
func NewRecorder(t testing.TB, promised history.Config, change ...func(*history.Config)) *Recorder {
	t.Helper()
	path := filepath.Join(t.ArtifactDir(), "history.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r := &Recorder{T: t, Config: promised, path: path, w: history.NewWriter(f),
		known: map[generation]uint64{}, due: map[uint64]rouse.Instant{}, vague: map[string]bool{}}
	for _, c := range change {
		c(&r.Config)
	}
	r.Write(r.Config)
	return r
}

// Write writes an event.
func (r *Recorder) Write(e history.Event) {
	if err := r.w.Write(e); err != nil {
		r.T.Errorf("history: %v", err)
	}
}

// NextGen returns a number that no write has had.
func (r *Recorder) NextGen() uint64 { return r.gens.Add(1) }

// Fires is how many fires have arrived.
func (r *Recorder) Fires() int64 { return r.fires.Load() }

// Fault writes that something breaks now; the function it returns, that it is whole again. The fault is felt
// for so long at most, if that is not 0: others take over.
func (r *Recorder) Fault(kind, node string, felt time.Duration) (heal func()) {
	fid := strconv.FormatUint(r.faults.Add(1), 10)
	r.Write(history.Fault{FID: fid, Kind: kind, Node: node, T: Now(), Excuse: felt})
	return func() { r.Write(history.Heal{FID: fid, Kind: kind, Node: node, T: Now()}) }
}

// StampOf returns the stamp that a timer has.
func (r *Recorder) StampOf(t *rouse.Timer) Stamp {
	s, err := ReadStamp(t.Spec.Payload)
	if err != nil || s.Timer != t.Key.Name {
		r.T.Errorf("timer %q has the payload %q: %v", t.Key.Name, t.Spec.Payload, err)
	}
	return s
}

// Knows notes which of a timer's writes a generation is, and when it is due. A write of the due time that the
// timer has keeps its generation, which is that of both writes then; the history checker knows that.
func (r *Recorder) Knows(timer string, number, gen uint64, due rouse.Instant) {
	r.mu.Lock()
	r.noteDue(gen, due)
	had, ok := r.known[generation{timer, number}]
	moved := ok && r.due[had] != r.due[gen]
	r.known[generation{timer, number}] = gen
	r.mu.Unlock()
	if moved {
		r.T.Errorf("generation %d of %s is that of two writes, %d and %d", number, timer, had, gen)
	}
	if r.Seen != nil {
		r.Seen(timer, due)
	}
}

// noteDue notes when a write was due. The mutex is held.
func (r *Recorder) noteDue(gen uint64, due rouse.Instant) {
	if had, ok := r.due[gen]; due != rouse.Never && (!ok || due < had) {
		r.due[gen] = due
	}
}

// Wrote writes down a write. One of which only the service knows when it is due waits until that is learned:
// see Account.
func (r *Recorder) Wrote(e *history.Put, made *rouse.Timer, wait bool) {
	if e.Res == history.OK {
		r.Knows(e.Timer, made.Generation, e.Gen, made.Due)
	}
	r.mu.Lock()
	if e.Res == history.Info {
		r.vague[e.Timer] = true
	}
	if wait {
		r.unsure = append(r.unsure, *e)
	}
	r.mu.Unlock()
	if !wait {
		r.Write(*e)
	}
}

// Quiet waits until nothing is left that is due while the test watches.
func (r *Recorder) Quiet(c *client.Client) {
	r.T.Helper()
	var left []rouse.Timer
	soon := rouse.At(time.Now().Add(2 * Watched))
	Until(r.T, func() string {
		return fmt.Sprintf("%d timers have not ended, such as %s, %s, %v, due %v", len(left), left[0].Key.Name,
			left[0].Spec.Schedule, left[0].State(), left[0].Due)
	}, func() bool {
		left = List(r.T, c, rouse.Query{DueUntil: soon})
		left = append(left, List(r.T, c, rouse.Query{States: []rouse.State{rouse.StateFiring, rouse.StateEnded}})...)
		return len(left) == 0
	})
}

// Final writes the final listing and the dead letters, when all is quiet.
func (r *Recorder) Final(c *client.Client) {
	r.T.Helper()
	final := history.Final{T0: Now(), Timers: map[string]uint64{}}
	timers := List(r.T, c, rouse.Query{})
	final.T1 = Now()
	for _, timer := range timers {
		gen := r.StampOf(&timer).Gen
		final.Timers[timer.Key.Name] = gen
		r.Knows(timer.Key.Name, timer.Generation, gen, timer.Due)
	}
	r.Write(final)
	for _, dead := range List(r.T, c, rouse.Query{States: []rouse.State{rouse.StateDead}}) {
		gen := r.StampOf(&dead).Gen
		r.Write(history.Dead{Timer: dead.Key.Name, Gen: gen, Due: Moment(dead.Due), T: Now(), Manual: dead.Manual})
		r.Knows(dead.Key.Name, dead.Generation, gen, dead.Due)
	}
}
