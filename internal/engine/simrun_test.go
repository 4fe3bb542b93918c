package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/schedule"
)

// simulation is one run.
type simulation struct {
	t        *testing.T
	log      *history.Writer
	store    rouse.Shared
	scenario scenario

	mu    sync.Mutex
	rnd   *rand.Rand
	nodes []*simNode // nil while the node does not run
	last  uint64
	gens  map[uint64]uint64 // the clients' numbers of the service's generations

	edits     times // when timers were paused, resumed, skipped or run,
	writes    times // created, replaced or deleted,
	pauseEnds times // and when their pauses were to end

	ran    map[occurrence]bool // manual runs that arrived
	cutOff map[occurrence]bool // occurrences that ended with their timer during an attempt

	called map[string]string // fire ids of callbacks that arrived, by their event and the fire id that they are about
}

// callsBack reports whether the timer of a name has callbacks.
func callsBack(name string) bool { return name[len(name)-1]%2 == 0 }

// wasCalled reports whether a callback arrived.
func (w *simulation) wasCalled(about string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.called[about] != ""
}

// noteCallback notes that a callback arrived; those of one occurrence have one fire id.
func (w *simulation) noteCallback(f *rouse.Fire) {
	var body struct {
		Event  string
		FireID string `json:"fire_id"`
	}
	if err := json.Unmarshal(f.Spec.Payload, &body); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	about := body.Event + " " + body.FireID
	if was := w.called[about]; was != "" && was != f.ID {
		w.t.Errorf("the callback %s of %s came with the fire ids %s and %s", about, f.Name, was, f.ID)
	}
	w.called[about] = f.ID
}

// times are events of timers, by name.
type times map[string][]history.Time

// occurrence is an occurrence of a timer, or a manual run.
type occurrence struct {
	timer string
	due   history.Time
}

func (w *simulation) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *simulation) now() history.Time { return history.At(time.Now()) }

// current returns one of the running engines; nil if the chosen one does not run.
func (w *simulation) current() *timers.Timers {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.nodes[w.rnd.IntN(len(w.nodes))]; s != nil {
		return s.Timers
	}
	return nil
}

func (w *simulation) write(e history.Event) {
	if err := w.log.Write(e); err != nil {
		w.t.Error(err)
	}
}

// number returns and records the clients' number of a generation.
func (w *simulation) number(service uint64, payload []byte) uint64 {
	gen, _ := strconv.ParseUint(string(payload), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gens[service] = gen
	return gen
}

// excused reports whether a violation is expected in this scenario.
func (w *simulation) excused(v history.Violation) bool {
	is := occurrence{v.Timer, v.Due}
	switch v.Rule {
	case "R7-pause": // what was out when the pause began may stay out while the store stalls
		return w.scenario.faulty || w.scenario.freezes
	case "R6-run": // if responses are lost, a run may be of a generation before the last requested one
		return w.scenario.faulty && w.ran[is]
	case "R2-ending": // a delete or replace between attempts cannot know whether another node has just sent it
		return w.scenario.nodes > 1 && w.cutOff[is] && strings.Contains(v.Detail, "no record shows that it fired")
	case "R8-cause": // an edit that cannot know whether another node has just sent it leaves it to the end of a hold, as if that node had died
		return w.scenario.nodes > 1 && strings.Contains(v.Detail, "cause server_down") && w.editedWhileHeld(v)
	case "R1-record": // a timer takes what its pause kept back with it, even if a run in progress delays the end of the pause
		return strings.HasPrefix(v.Detail, "no record") && near(w.pauseEnds[v.Timer], w.writes[v.Timer], 0, 5*time.Second)
	}
	return false
}

// near reports whether one of times is between least and most after one of others.
func near(others, times []history.Time, least, most time.Duration) bool {
	return slices.ContainsFunc(others, func(o history.Time) bool {
		return slices.ContainsFunc(times, func(t history.Time) bool { return o.Add(least) <= t && t <= o.Add(most) })
	})
}

// putOff reports whether a late or missing occurrence had to wait for the end of a hold: it was edited while
// it may have been out with another node.
func (w *simulation) putOff(v history.Violation, later []history.Violation) bool {
	for _, l := range later {
		if l.Rule == v.Rule && l.Timer == v.Timer && l.Due == v.Due {
			return false
		}
	}
	return w.scenario.nodes > 1 && w.editedWhileHeld(v)
}

// editedWhileHeld reports whether the timer of a violation was edited when a node may have had the
// occurrence.
func (w *simulation) editedWhileHeld(v history.Violation) bool {
	from, until := v.Due.Add(-simHold-time.Second), v.Due.Add(w.scenario.late)
	return slices.ContainsFunc(w.edits[v.Timer], func(at history.Time) bool { return from <= at && at <= until })
}

// seen records a time of a timer.
func (w *simulation) seen(of times, timer string, at history.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of[timer] = append(of[timer], at)
}

// event is a fault or restart of a node.
type event int

const (
	crash   event = iota
	freeze        // it is suspended for longer than leases and holds last
	restart       // it stops and starts again in an orderly way
)

// simNode is one process of a node, and the receiver of its fires.
type simNode struct {
	*timers.Timers
	sim   *simulation
	conn  *faultyConn
	name  string
	grain int
}

func (s *simNode) Check(*rouse.Spec) error { return nil }

func (s *simNode) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: spec.Target, Limit: 50, Batch: 1}
}

func (s *simNode) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	w := s.sim
	for i, f := range fires {
		s.conn.thaw()
		s.known(&f)
		if f.Spec.Target == "sim:callbacks" {
			o := rouse.Outcome{Verdict: rouse.Done}
			if f.Attempt == 1 && w.intn(5) == 0 {
				o.Verdict = rouse.Failed
			} else {
				w.noteCallback(&f)
			}
			settle(i, o)
			continue
		}
		ev := history.Fire{Timer: f.Name, Gen: w.number(f.Generation, f.Spec.Payload), Due: history.At(f.Due.Time()), T: w.now(), Key: f.ID,
			Attempt: int(f.Attempt), Epoch: f.Token, Manual: f.Manual}
		o := rouse.Outcome{Verdict: rouse.Done}
		ev.Reply = history.ReplyOK
		switch n := w.intn(100); {
		case n < 10:
			ev.Reply, o.Verdict = history.ReplyRetry, rouse.Failed
		case n < 12:
			ev.Reply, o.Verdict = history.ReplyFatal, rouse.Rejected
		case n < 20:
			time.Sleep(time.Duration(w.intn(3000)) * time.Millisecond)
		}
		ev.T1 = w.now()
		w.write(ev)
		if f.Manual {
			w.mu.Lock()
			w.ran[occurrence{f.Name, ev.Due}] = true
			w.mu.Unlock()
		}
		s.conn.thaw()
		s.known(&f)
		settle(i, o)
	}
}

// known fails the test if another node does not know that this one may be sending a fire, where nothing is
// excused.
func (s *simNode) known(f *rouse.Fire) {
	if l := &s.sim.scenario; l.faulty || l.freezes {
		return
	}
	if asked := s.sim.current(); asked != nil {
		knownToSend(s.sim.t, asked, s.sim.store, s.name, engine.Peer{Grain: s.grain, Claims: !s.sim.scenario.shares}, f)
	}
}

// begin starts a process of a node.
func (w *simulation) begin(node int, life uint64) (s *simNode, end func()) {
	wr := &faultyConn{Shared: w.store, rnd: rand.New(rand.NewPCG(uint64(w.intn(1<<30)), life))}
	wr.faulty.Store(w.scenario.faulty)
	s = &simNode{sim: w, conn: wr, name: fmt.Sprintf("node%d-%d", node, life), grain: (node+w.scenario.nodes*int(life))%engine.Grains + 1}
	s.Timers = timers.New(wr, w.scenario.strategy(s.name, wr), s, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Buckets: 2, Grain: s.grain,
		Ahead: 3 * time.Second, MaxRows: 40, MaxDeliveries: 30, Grace: 10 * time.Second, Shared: w.scenario.nodes > 1, Hold: simHold,
		Scatter: w.scenario.scatter && node == 0}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s.Run(ctx) != nil && ctx.Err() == nil { // the store's clock may not answer at first
			time.Sleep(10 * time.Millisecond)
		}
	}()
	w.set(node, s)
	return s, func() { cancel(); <-ended }
}

func (w *simulation) set(node int, s *simNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node] = s
}

// run keeps a node running until stop, and applies the scenario's events to it.
func (w *simulation) run(node int, stop <-chan struct{}, events <-chan event) {
	for life := uint64(0); ; life++ {
		s, end := w.begin(node, life)
		fid := fmt.Sprint("node", node, " life", life)
		if w.scenario.faulty {
			w.write(history.Fault{FID: fid, Kind: "wire", T: w.now()}) // stalls and lost responses may affect everything during the fault
		}
		heal := func() {
			s.conn.faulty.Store(false)
			if w.scenario.faulty {
				w.write(history.Heal{FID: fid, Kind: "wire", T: w.now()})
			}
		}
		for alive := true; alive; {
			select {
			case ev := <-events:
				alive = ev == freeze
				switch ev {
				case crash:
					s.conn.cut.Store(true)
					w.set(node, nil)
					end()
					heal()
					time.Sleep(time.Duration(w.intn(2000)) * time.Millisecond)
				case restart:
					w.set(node, nil)
					end()
					time.Sleep(time.Duration(w.intn(5000)) * time.Millisecond)
				case freeze:
					d := time.Duration(5+w.intn(15)) * time.Second
					fid := fmt.Sprint("freeze of node", node, " at ", w.now())
					w.write(history.Fault{FID: fid, Kind: "freeze", T: w.now()})
					s.conn.freeze(d)
					time.Sleep(d)
					w.write(history.Heal{FID: fid, Kind: "freeze", T: w.now()})
				}
			case <-stop:
				heal()
				<-stop
				end()
				return
			}
		}
	}
}

// finish records the final state of the service.
func (w *simulation) finish() {
	e := w.current()
	final := history.Final{T0: w.now(), Timers: map[string]uint64{}}
	timers, _, err := e.List(w.t.Context(), rouse.Query{Namespace: "n", Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tm := range timers {
		final.Timers[tm.Key.Name] = w.number(tm.Generation, tm.Spec.Payload)
	}
	final.T1 = w.now()
	w.write(final)
	dead, _, err := e.List(w.t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tm := range dead {
		w.write(history.Dead{Timer: tm.Key.Name, Gen: w.number(tm.Generation, tm.Spec.Payload), Due: history.At(tm.Due.Time()), Manual: tm.Manual,
			T: history.At(tm.Updated.Time())})
	}
	page, err := e.Records(w.t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 1_000_000})
	if err != nil || page.Next != nil {
		w.t.Fatalf("records: %v", err)
	}
	for _, r := range page.Records {
		gen, known := w.gens[r.Generation]
		if !known {
			continue // of a write whose response was lost, and which was not made
		}
		ev := history.Record{Timer: r.Name, Gen: gen, Due: history.At(r.Due.Time()), Count: int(r.Count), Ending: history.Ending(r.Ending.String()),
			Reason: r.Reason, Attempts: int(r.Attempts), Manual: r.Manual, Cause: r.Cause.String()}
		if r.Other != 0 {
			ev.Other = history.At(r.Other.Time())
		}
		if r.LastDue != 0 {
			ev.LastDue = history.At(r.LastDue.Time())
		}
		w.write(ev)
		event := map[rouse.Ending]string{rouse.EndFired: "succeeded", rouse.EndDead: "failed"}[r.Ending]
		if event != "" && callsBack(r.Name) && time.Since(r.Ended.Time()) > 30*time.Second && !w.wasCalled(event+" "+r.FireID()) {
			w.t.Errorf("%s of %s, due at %v, has no callback: %+v", r.FireID(), r.Name, r.Due, r)
		}
		if strings.HasSuffix(r.Reason, "while it was being tried") || strings.Contains(r.Reason, "while it was being tried:") {
			w.cutOff[occurrence{r.Name, ev.Due}] = true
		}
	}
	w.write(history.End{T: w.now()})
}
