package engine

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/schedulecache"
	"github.com/rousehq/rouse/internal/scratch"
)

// reported is an outcome that is to be written to the store.
type reported struct {
	en    *entry
	o     rouse.Outcome
	step  step          // not nil: advances the timer without an outcome
	of    uint64        // if no fire was out: the revision of the row that was evaluated
	ready *rouse.Change // not nil: the resulting write, valid for the revision in it
	since rouse.Instant // when it was queued to be settled
	away  rouse.Instant // since when the store has not accepted it; 0 if not tried
	alone *alone        // not nil: the fire was delivered alone

	accepted *rouse.Timer // not nil: the fire was accepted, and no report came in time

	namespace string // for an evaluation: the row may change in the meantime

	fire    bool // a sink reported it: the fire was out
	asks    bool // step applies the misfire policy
	kept    bool // and that policy gives up nothing
	unsure  bool // step records an occurrence unless there is a record of it
	counted bool // it is reported to Events, and its place in the lane is free
	doubt   bool // an earlier write of it failed but may have been made
}

// outcomes are reported by sinks and not settled yet. Their number is bounded by the rows in memory.
type outcomes struct {
	mu     sync.Mutex
	list   []reported
	signal chan struct{}
}

func (o *outcomes) addOutcome(r reported) {
	o.mu.Lock()
	o.list = append(o.list, r)
	first := len(o.list) == 1
	o.mu.Unlock()
	if first {
		notify.Send(o.signal)
	}
}

// countWaiting returns how many outcomes are not settled yet.
func (o *outcomes) countWaiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.list)
}

// takeReported returns the outcomes reported since the last call; spare becomes the new list.
func (o *outcomes) takeReported(spare []reported) []reported {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = spare[:0]
	return list
}

// settler writes the outcomes of attempts to the store.
type settler struct {
	*env
	memory      *memory
	commits     *commits
	outcomes    *outcomes
	evaluations *evaluations
	crowds      *crowds
	retention   *retention
	handover    *handover
	health      *health

	backing scratch.Slices[Write]       // of the writes that are being made
	decoded scratch.Slices[rouse.Timer] // of the entries that are being settled
}

// gathered are outcomes that are settled together.
type gathered struct {
	list  []reported
	since time.Time // when the first of them was reported
}

// queuedOutcomes are those that wait to be settled, in their order.
type queuedOutcomes struct {
	most  int // outcomes that are settled together: the writes of all that wait would take twice the memory of their rows
	parts []gathered
	spare []reported
}

func (q *queuedOutcomes) queueReported(list []reported) {
	for len(list) > 0 {
		if n := len(q.parts); n == 0 || len(q.parts[n-1].list) == q.most {
			if n > 0 && q.spare == nil { // this part will be filled as well
				q.spare = make([]reported, 0, q.most)
			}
			q.parts = append(q.parts, gathered{list: q.spare[:0], since: time.Now()})
			q.spare = nil
		}
		last := &q.parts[len(q.parts)-1]
		n := min(q.most-len(last.list), len(list))
		last.list = append(last.list, list[:n]...)
		list = list[n:]
	}
}

// takePart returns the first ones.
func (q *queuedOutcomes) takePart() gathered {
	g := q.parts[0]
	q.parts = slices.Delete(q.parts, 0, 1)
	return g
}

// settlingLoop settles the outcomes that sinks report: all that arrive during a commit go into the next one.
// When ctx ends it settles the rest and returns.
//
// A commit costs a sync, however few changes it has. So settles that come soon after others wait for company,
// a client's change or more outcomes, for up to Options.SettleWait; those that come alone, and those that
// waited for the last commit as long, do not. No caller waits for a settle; places in lanes become free
// before it.
func (s *settler) settlingLoop(ctx context.Context) {
	queue := queuedOutcomes{most: 2 * s.opts.MaxCommit}
	var taken []reported
	work, done := make(chan gathered), make(chan []reported, 1)
	var worker sync.WaitGroup
	worker.Go(func() {
		var last time.Time // end of the last commit
		for g := range work {
			since := g.since
			if last.Before(since) {
				since = last
			}
			s.settleOutcomes(ctx, g.list, since.Add(s.opts.SettleWait))
			last = time.Now()
			clear(g.list)
			done <- g.list
		}
	})
	busy := false
	for ctx.Err() == nil {
		select {
		case <-s.outcomes.signal:
			taken = s.outcomes.takeReported(taken)
			s.countReported(taken, len(queue.parts) > 1 || len(taken) > queue.most)
			queue.queueReported(taken)
			if clear(taken); cap(taken) > 4*queue.most {
				taken = nil
			}
		case queue.spare = <-done:
			busy = false
		case <-ctx.Done():
		}
		if !busy && len(queue.parts) > 0 {
			work <- queue.takePart()
			busy = true
		}
	}
	s.commits.commitWaiting()
	close(work)
	worker.Wait()
	for list := s.outcomes.takeReported(nil); len(list) > 0 || len(queue.parts) > 0; list = s.outcomes.takeReported(nil) {
		s.countReported(list, false)
		queue.queueReported(list)
		for len(queue.parts) > 0 {
			s.settleOutcomes(ctx, queue.takePart().list, time.Time{})
		}
	}
}

// settleAgain is the maximum pause between writes of outcomes that failed: holds do not last longer.
const settleAgain = 500 * time.Millisecond

// settleLast is for how long a stopping node retries the write of its last outcomes. The next node sends
// fires again whose outcomes are not written.
const settleLast = 500 * time.Millisecond

// settleOutcomes writes outcomes until each is written or belongs to an ended generation. They may wait for
// others until a time; zero: they do not. The end of ctx does not cancel a write, because delivered fires
// should not be sent again after an orderly shutdown; it only stops the retries.
func (s *settler) settleOutcomes(ctx context.Context, list []reported, by time.Time) {
	defer s.health.settle.setNone()
	s.health.settle.setNow()
	writing := context.WithoutCancel(ctx)
	defer s.handover.announceYield(writing)
	var last time.Time
	for b := backoff.New(10*time.Millisecond, settleAgain); len(list) > 0; {
		var items []*Write
		s.health.settle.setNow()
		var backing []Write
		if list, items, backing = s.buildWrites(list); len(list) == 0 {
			return
		}
		failpoint("before-settle")
		asked := s.Now()
		_, err := s.commits.doBy(writing, items, by)
		failpoint("after-settle")
		s.crowds.countWritten(items)
		s.health.settle.setNow()
		s.countUnreported(list, items)
		refused, unknown := splitUnapplied(list, items, asked)
		s.backing.Give(backing)
		if list = s.resolveConflicts(writing, refused); err == nil || len(s.health.missingParts()) > 0 {
			s.settleLater(unknown)
			continue
		}
		// The fires were delivered and only their outcomes are not written: retry as long as the engine runs.
		// Timers whose outcome stays unwritten fire again after a restart, with the same ids.
		s.opts.Events.emitFailed("settle", err)
		if errors.Is(err, rouse.ErrClosed) {
			return
		}
		wait := b.Next()
		if !backoff.Sleep(ctx, wait) { // the node is stopping
			if last.IsZero() {
				last = time.Now().Add(settleLast)
			}
			if backoff.Sleep(writing, wait); time.Now().After(last) {
				return
			}
		}
		list = append(list, unknown...)
	}
}

// settleLater settles outcomes again after a pause. They belong to a part of the store that does not answer,
// and must not delay the others.
func (s *settler) settleLater(list []reported) {
	for _, r := range list {
		time.AfterFunc(postponed, func() { s.outcomes.addOutcome(r) })
	}
}

// refusal is an outcome whose write the store refused.
type refusal struct {
	reported
	key rouse.Key
}

// splitUnapplied returns the outcomes whose writes were refused, and those whose writes have an unknown
// result. Not all are in one commit.
func splitUnapplied(list []reported, items []*Write, asked rouse.Instant) (refused []refusal, unknown []reported) {
	for i, w := range items {
		switch r := list[i]; {
		case w.result == nil || w.result.Err != nil:
			r.doubt = true
			if r.away == 0 {
				r.away = asked
			}
			unknown = append(unknown, r)
		case !w.result.Applied:
			refused = append(refused, refusal{r, w.Change.Key})
		}
	}
	return refused, unknown
}

// countReported frees the lane places of reported fires, so that the next fires start during settling. behind
// means that they will wait.
func (s *settler) countReported(list []reported, behind bool) {
	now, store := time.Now(), s.Now()
	s.memory.Lock()
	defer s.memory.Unlock()
	read := uint8(0)
	for i := range list { // as in buildWrites
		read ^= list[i].en.kind
	}
	runtime.KeepAlive(read)
	for i := 0; i < len(list); {
		ln, n, bytes := list[i].en.lane, 0, 0
		for ; i < len(list) && list[i].en.lane == ln; i++ {
			r := &list[i]
			r.since = cmp.Or(r.since, store)
			if r.fire && !r.counted {
				if r.alone == nil || !r.alone.freed {
					n++
					bytes += r.en.load
				}
				if r.alone != nil {
					r.alone.freed = true
				}
				r.counted = true
				if r.en.leaveTarget(); !r.en.retriesInPlace(r.o) {
					r.en.leaveGate()
				}
				s.countAttempt(ln, r, store)
				s.opts.Events.emitReported(r.en.timer, r.o, store.Sub(r.en.sent))
			}
			if behind {
				s.memory.dropDecoded(list[i].en)
			}
		}
		if ln != nil && n > 0 {
			s.memory.lanes.endFires(ln, n, bytes, now)
		}
	}
	s.memory.dispatchDeliveries()
}

// countAttempt counts an attempt in the recent statistics, and the lag of a first one.
func (s *settler) countAttempt(ln *lane, r *reported, now rouse.Instant) {
	a := rouse.Attempted{Verdict: r.o.Verdict}
	if t := r.en.timer; t != nil && r.en.occ.Attempt == 1 && r.o.Verdict != rouse.Deferred {
		at := r.en.occ.Due
		if !r.en.occ.Manual {
			at = t.SentAt(at) // a jitter is no lag
		}
		a.First, a.Lag = true, r.en.sent.Sub(at)
	}
	if ln != nil {
		ln.recent.Count(now, a)
	}
	s.opts.Events.emitAttempted(now, a)
}

// countUnreported counts the accepted attempts that are settled as failed because no report came in time.
func (s *settler) countUnreported(list []reported, items []*Write) {
	for i, w := range items {
		if r := &list[i]; r.accepted != nil && w.result != nil && w.result.Applied {
			s.memory.countConclusion(r.accepted, r.o)
		}
	}
}

// countConclusion counts the outcome of an accepted attempt for its target. A deferred fire has no outcome.
func (m *memory) countConclusion(t *rouse.Timer, o rouse.Outcome) {
	if o.Verdict == rouse.Deferred {
		return
	}
	key := laneKey{t.Key.Namespace, m.sink.Lane(t.Key.Namespace, &t.Spec).Name}
	store, a := m.Now(), rouse.Attempted{Verdict: o.Verdict}
	m.Lock()
	now := time.Now()
	ln := m.lanes.ensureLane(key, now)
	ln.recent.Count(store, a)
	m.lanes.dropIdle(ln, now)
	m.Unlock()
	m.opts.Events.emitAttempted(store, a)
	m.opts.Events.emitConcluded(t, o)
}

// postponed is the delay of an outcome whose step needs data that cannot be read now, such as a calendar.
const postponed = time.Second

// buildWrites turns outcomes into writes based on the latest versions of their rows, and returns both, and
// the memory of the writes. Outcomes that cannot be turned into writes now are queued again after a pause.
func (s *settler) buildWrites(list []reported) ([]reported, []*Write, []Write) {
	now := s.clock.latestNow() // a delay counted from an earlier time would end too early
	items := make([]*Write, 0, len(list))
	backing := s.backing.Take(len(list))
	type base struct {
		t              *rouse.Timer
		revision       uint64
		orphan, logged bool
		namespace      string
	}
	bases := make([]base, len(list))
	without := 0 // entries without their timers
	s.memory.Lock()
	for i := range list {
		if list[i].en.timer == nil {
			without++
		}
	}
	var decoded []rouse.Timer
	if without > 0 {
		decoded = s.decoded.Take(without)[:0]
	}
	for i := range list {
		en := list[i].en
		bases[i] = base{s.timerToSettle(en, &decoded), en.row.Revision, en.orphan, en.logged, en.row.Key.Namespace}
	}
	s.memory.Unlock()
	read := byte(0)
	// the data that the steps read first is in no cache of the CPU: here, it waits for many of them at the
	// same time
	for i := range bases {
		if t := bases[i].t; t != nil && t.Spec.Schedule != "" {
			read ^= t.Spec.Schedule[0]
		}
	}
	runtime.KeepAlive(read)
	left := list[:0]
	var m schedulecache.Meter
	for i := range list {
		r, b := list[i], &bases[i]
		ready := r.ready
		r.ready = nil
		of := b.revision
		if b.orphan { // the row is of no matter
			of = rouse.AnyRevision
		}
		if ready != nil && !b.logged && ready.If == of {
			backing[i].Change = *ready
		} else {
			m = schedulecache.Meter{Limit: quickSteps}
			r.namespace = b.namespace
			c, err := s.quickChange(&r, b.t, b.orphan, b.logged, now, &m)
			switch {
			case errors.Is(err, errLater):
				continue
			case err != nil:
				s.opts.Events.emitFailed("settle", err)
				s.settleLater([]reported{r})
				continue
			}
			backing[i].Change = c
		}
		backing[i].settles, backing[i].spared = r.en, r.kept
		left, items = append(left, r), append(items, &backing[i])
	}
	s.decoded.Give(decoded)
	return left, items, backing
}

// resolveConflicts returns the outcomes whose writes had an old revision, after updating their entries.
func (s *settler) resolveConflicts(ctx context.Context, list []refusal) []reported {
	if len(list) == 0 {
		return nil
	}
	again, keys := make([]reported, len(list)), make([]rouse.Key, len(list))
	for i := range list {
		again[i], keys[i] = list[i].reported, list[i].key
		again[i].doubt = again[i].doubt || s.others != nil // another node may have recorded the same occurrence
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	rows, err := s.store.Get(ctx, keys)
	if err != nil {
		s.opts.Events.emitFailed("get", err)
		return again
	}
	s.memory.Lock()
	defer s.memory.Unlock()
	now := s.Now()
	for i := range again {
		switch en, row := again[i].en, &rows[i]; {
		case en.orphan || row.Revision == en.row.Revision:
		case row.Revision == 0:
			s.memory.changeEntry(en, nil, time.Time{}, now)
		default:
			s.memory.changeEntry(en, row, time.Time{}, now)
		}
	}
	s.opts.Events.emitConflict(len(again))
	return slices.DeleteFunc(again, func(r reported) bool {
		if r.fire || r.en.orphan || r.en.row.Revision == r.of {
			return false
		}
		s.memory.relocateEntry(r.en, now) // the decision was about another version: evaluate the current one
		return true
	})
}
