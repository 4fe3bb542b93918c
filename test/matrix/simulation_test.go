package matrix

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/cutstore"
)

// receiver returns how long an attempt takes, and its verdict.
type receiver func(f *rouse.Fire) (takes time.Duration, v rouse.Verdict)

// simulation is one run, inside a synctest bubble: a store that outlives its engines, a receiver, and the
// history of both. Its clock is the bubble's, moved to the run's start time; the store's clock may be off by
// skew.
type simulation struct {
	cfg      history.Config
	receiver receiver
	store    *mem.Store
	base     time.Duration // between the bubble's clock and the simulation's
	skew     atomic.Int64  // of the store's clock, in nanoseconds
	lives    int

	engine *node
	wire   *cutstore.Store

	mu     sync.Mutex
	events []history.Event
	gens   map[generation]uint64 // the client's numbers of the service's generations
	last   uint64
	over   bool                 // the run has ended: nothing is noted any more
	specs  map[string]timerSpec // of the timers that were created last
	broken []string             // what went wrong outside of what the checker sees
}

type generation struct {
	name   string
	number uint64
}

const namespace = "n"

func key(name string) rouse.Key { return rouse.Key{Namespace: namespace, Name: name} }

// newSimulation returns a simulation that begins at a time, with a running engine.
func newSimulation(begin time.Time, r receiver) *simulation {
	w := &simulation{receiver: r, base: time.Until(begin), gens: map[generation]uint64{}, specs: map[string]timerSpec{}}
	w.store = mem.NewWithClock(func() time.Time { return w.clock().Add(time.Duration(w.skew.Load())) })
	w.cfg = history.Config{MaxLate: time.Second, ClockErr: 2 * time.Millisecond, Recovery: time.Second, Lease: 30 * time.Second,
		MinBackoff: backoff, MaxBackoff: backoff, AttemptTimeout: 30 * time.Second, StrictDup: true, Records: true, DST: history.Vixie}
	w.start()
	return w
}

func (w *simulation) clock() time.Time { return time.Now().Add(w.base) }

func (w *simulation) now() history.Time { return history.At(w.clock()) }

// tick is when a call begins: at another time than all before it, so that their order can be told.
func (w *simulation) tick() history.Time {
	time.Sleep(time.Millisecond)
	return w.now()
}

func (w *simulation) note(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *simulation) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// start begins an engine's life.
func (w *simulation) start() {
	w.wire = &cutstore.Store{Store: w.store}
	w.engine = startNode(w.wire, claim.NewSole(1), w, engine.Options{Grace: 20 * time.Second}, func(err error) { w.wrong("the engine ended: %v", err) })
	synctest.Wait()
}

// stop ends the engine's life in an orderly way, or by a crash, and returns what begins the next one.
func (w *simulation) stop(crash bool) (restart func()) {
	w.lives++
	fid := fmt.Sprint("life ", w.lives)
	w.note(history.Fault{FID: fid, Kind: "stop", T: w.now()})
	if crash {
		w.wire.Cut()
	}
	w.engine.cancel()
	if !crash {
		<-w.engine.ended
	}
	ended := w.engine.ended
	return func() {
		if crash { // what the process was sending is cut, too
			<-ended
		}
		w.start()
		w.note(history.Heal{FID: fid, T: w.now()})
	}
}

// Check, Lane and Deliver make the simulation its own sink.
func (w *simulation) Check(*rouse.Spec) error { return nil }

func (w *simulation) Lane(_ string, s *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.Target, Limit: 100, Batch: 1}
}

func (w *simulation) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	wire := w.wire
	for i := range fires {
		f := &fires[i]
		ev := history.Fire{Timer: f.Name, Gen: f.Generation, Due: moment(f.Due), T: w.now(), Key: f.ID, Attempt: int(f.Attempt), Epoch: f.Token, Manual: f.Manual}
		w.mu.Lock()
		at := len(w.events)
		w.events = append(w.events, nil)
		w.replied(at, ev, history.ReplyNone, 0) // until it is over
		w.mu.Unlock()
		takes, verdict := w.receiver(f)
		cut := false
		for end := time.Now().Add(takes); !cut && time.Now().Before(end); {
			time.Sleep(min(time.Until(end), 100*time.Millisecond))
			cut = wire.IsCut()
		}
		reply := history.ReplyRetry
		switch {
		case cut:
			reply, verdict = history.ReplyNone, rouse.Failed
		case verdict == rouse.Done:
			reply = history.ReplyOK
		case verdict == rouse.Rejected:
			reply = history.ReplyFatal
		}
		w.mu.Lock()
		w.replied(at, ev, reply, w.now())
		w.mu.Unlock()
		settle(i, rouse.Outcome{Verdict: verdict})
	}
}

// replied notes what was replied to an attempt, unless the run is over. The mutex is held.
func (w *simulation) replied(at int, ev history.Fire, reply history.Reply, t1 history.Time) {
	if w.over {
		return
	}
	ev.Reply, ev.T1 = reply, t1
	w.events[at] = ev
}

// moment is an instant as histories write it.
func moment(i rouse.Instant) history.Time {
	if i == 0 || i == rouse.Never {
		return 0
	}
	return history.At(i.Time())
}

// result is what a client knows of a call that answered err.
func result(err error) history.Res {
	if err == nil {
		return history.OK
	}
	return history.Fail // nothing between client and engine loses answers here
}

// number returns the client's number of a new generation.
func (w *simulation) number(name string, service uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	if service != 0 {
		w.gens[generation{name, service}] = w.last
	}
	return w.last
}

// create creates or replaces a timer.
func (w *simulation) create(name string, t timerSpec) bool {
	ev := history.Put{Timer: name, Spec: t.seen, T0: w.tick()}
	res, err := w.engine.Put(context.Background(), []timers.Put{{Key: key(name), Spec: t.spec, Mode: timers.CreateOrReplace}})
	if err == nil {
		err = res[0].Err
	}
	ev.T1, ev.Res = w.now(), result(err)
	if err != nil {
		w.wrong("create %s: %v", name, err)
		ev.Gen = w.number(name, 0)
	} else {
		ev.Gen, ev.Due = w.number(name, res[0].Timer.Generation), moment(res[0].Timer.Due)
		ev.Replace, ev.InFlight = res[0].Replaced, res[0].InFlight
		w.specs[name] = t
	}
	w.note(ev)
	return err == nil
}

func (w *simulation) reschedule(name string, t timerSpec) bool {
	ev := history.Put{Reschedule: true, Timer: name, Spec: t.seen, T0: w.tick()}
	res, err := w.engine.Reschedule(context.Background(), key(name), t.spec, 0, false)
	ev.T1, ev.Res = w.now(), result(err)
	if err != nil {
		ev.Gen = w.number(name, 0)
	} else {
		ev.Gen, ev.Due, ev.InFlight = w.number(name, res.Timer.Generation), moment(res.Timer.Due), res.InFlight
		w.specs[name] = t
	}
	w.note(ev)
	return err == nil
}

func (w *simulation) delete(name string) {
	ev := history.Delete{Timer: name, T0: w.tick()}
	d, err := w.engine.Delete(context.Background(), key(name), 0)
	ev.T1, ev.Res, ev.InFlight = w.now(), result(err), d.InFlight
	w.note(ev)
}

// pause pauses a timer, for so long if that is not 0.
func (w *simulation) pause(name string, d time.Duration) {
	ev := history.Pause{Timer: name, T0: w.tick()}
	var until rouse.Instant
	if d != 0 {
		until = rouse.At(w.clock().Add(d))
		ev.Until = moment(until)
	}
	_, err := w.engine.Pause(context.Background(), key(name), "", until)
	ev.T1, ev.Res = w.now(), result(err)
	w.note(ev)
}

func (w *simulation) resume(name string) {
	ev := history.Resume{Timer: name, T0: w.tick()}
	_, err := w.engine.Resume(context.Background(), key(name))
	ev.T1, ev.Res = w.now(), result(err)
	w.note(ev)
}

func (w *simulation) skip(name string, n int) {
	ev := history.Skip{Timer: name, Count: n, T0: w.tick()}
	_, err := w.engine.Skip(context.Background(), key(name), uint32(n), "")
	ev.T1, ev.Res = w.now(), result(err)
	w.note(ev)
}

func (w *simulation) run(name string) {
	ev := history.Run{Timer: name, T0: w.tick()}
	id, due, err := w.engine.RunNow(context.Background(), key(name))
	ev.T1, ev.Res = w.now(), result(err)
	if err == nil {
		ev.Key, ev.Due = id, moment(due)
	}
	w.note(ev)
}

// backfill asks for the occurrences between so long ago and so long ago.
func (w *simulation) backfill(name string, from, until time.Duration) {
	ev := history.Backfill{Timer: name, T0: w.tick()}
	a, b := rouse.At(w.clock().Add(-from)), rouse.At(w.clock().Add(-until))
	// What the timer is still at fires by itself, or is skipped when its pause ends: a backfill leaves it
	// alone.
	tm, err := w.engine.Get(context.Background(), key(name))
	if err != nil {
		return
	}
	if b = min(b, tm.Due); b <= a {
		return
	}
	ev.From, ev.Until = moment(a), moment(b)
	_, err = w.engine.Backfill(context.Background(), key(name), timers.BackfillRequest{From: a, Until: b})
	ev.T1, ev.Res = w.now(), result(err)
	w.note(ev)
}

// redrive redrives all dead letters.
func (w *simulation) redrive() {
	for _, dead := range w.list(rouse.StateDead) {
		ev := history.Redrive{Timer: dead.Key.Name, Gen: dead.Generation, Due: moment(dead.Due), Manual: dead.Manual, T0: w.tick()}
		_, err := w.engine.Redrive(context.Background(), dead.Key, false)
		ev.T1, ev.Res = w.now(), result(err)
		w.note(ev)
	}
}

func (w *simulation) list(states ...rouse.State) []rouse.Timer {
	timers, next, err := w.engine.List(context.Background(), rouse.Query{Namespace: namespace, States: states, Limit: 100_000})
	if err != nil || next != nil {
		w.wrong("list: %v", err)
	}
	return timers
}

// finish reads what the service has to say, ends the engine, and returns the judged history.
func (w *simulation) finish() (r history.Report, log []byte) {
	final := history.Final{T0: w.now(), Timers: map[string]uint64{}}
	for _, t := range w.list(rouse.ListedStates...) {
		final.Timers[t.Key.Name] = w.gens[generation{t.Key.Name, t.Generation}]
	}
	final.T1 = w.now()
	w.note(final)
	for _, t := range w.list(rouse.StateDead) {
		w.note(history.Dead{Timer: t.Key.Name, Gen: t.Generation, Due: moment(t.Due), Manual: t.Manual, T: moment(t.Updated)})
	}
	page, err := w.engine.Records(context.Background(), rouse.RecordQuery{Namespace: namespace, Limit: 1_000_000})
	if err != nil || page.Next != nil {
		w.wrong("records: %v", err)
	}
	for _, r := range page.Records {
		w.note(history.Record{Timer: r.Name, Gen: r.Generation, Due: moment(r.Due), LastDue: moment(r.LastDue), Count: int(r.Count),
			Ending: history.Ending(r.Ending.String()), Reason: r.Reason, Attempts: int(r.Attempts), Manual: r.Manual,
			Cause: r.Cause.String(), Other: moment(r.Other)})
	}
	w.note(history.End{T: w.now()})
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.engine.stop()
	return w.judge()
}

// judge writes the events down as any client would, and judges them.
func (w *simulation) judge() (r history.Report, log []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out bytes.Buffer
	lines := history.NewWriter(&out)
	write := func(e history.Event) {
		if err := lines.Write(e); err != nil {
			w.broken = append(w.broken, err.Error())
		}
	}
	write(w.cfg)
	for _, e := range w.events {
		switch ev := e.(type) { // what the service calls a generation is what the client has given a number
		case nil: // it arrived after the run
			continue
		case history.Fire:
			ev.Gen = w.gens[generation{ev.Timer, ev.Gen}]
			e = ev
		case history.Dead:
			ev.Gen = w.gens[generation{ev.Timer, ev.Gen}]
			e = ev
		case history.Record:
			ev.Gen = w.gens[generation{ev.Timer, ev.Gen}]
			e = ev
		case history.Redrive:
			ev.Gen = w.gens[generation{ev.Timer, ev.Gen}]
			e = ev
		}
		write(e)
	}
	if err := lines.Flush(); err != nil {
		w.broken = append(w.broken, err.Error())
	}
	h, err := history.Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		w.broken = append(w.broken, "unusable: "+err.Error())
		return r, out.Bytes()
	}
	return history.Check(h), out.Bytes()
}

// complaints are all that was wrong in a run; the history is kept if there is any.
func (w *simulation) complaints(r history.Report, log []byte, name string) []string {
	list := w.broken
	for _, v := range r.Violations {
		list = append(list, v.String())
	}
	if dir := os.Getenv("ROUSE_HISTORIES"); dir != "" && len(list) > 0 {
		file := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(name, "/", "-"), " ", "_")+".jsonl")
		if err := os.WriteFile(file, log, 0o644); err != nil {
			list = append(list, err.Error())
		}
	}
	return list
}
