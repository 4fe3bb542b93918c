package engine

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// memory has the rows that come due soon, and what is known of each: where it waits, and whether an attempt
// of it is out. Its mutex guards the window and the lanes, and nothing else. All of its methods expect that
// the mutex is held unless they state otherwise.
type memory struct {
	*env
	sink     rouse.Sink // for the lanes of targets
	buckets  *ownership
	holds    *holds
	crowds   *crowds
	outcomes *outcomes // decisions about rows that are not sent

	expectations *attention
	jobs         *attention
	freezer      freezer
	send         func(delivery) // starts a delivery; nil until Run
	wake         chan struct{}  // the wheel has an entry earlier than the firing loop waits for
	room         chan struct{}  // the window shrank, or rows must be read again

	sync.Mutex
	window window        // rows in memory and the wheel
	lanes  lanes         // queues of due rows, and deliveries that are out
	looks  rouse.Instant // when the firing loop looks at the wheel again by itself; 0 if it is not to be woken before that

	looked   rouse.Timer // what look has decoded last
	lookedAt *entry
}

func newMemory(v *env, sink rouse.Sink, buckets *ownership, holds *holds, crowds *crowds, outcomes *outcomes) *memory {
	m := &memory{env: v, sink: sink, buckets: buckets, holds: holds, crowds: crowds, outcomes: outcomes,
		expectations: newAttention(v, outcomes, maxExpectations), jobs: newAttention(v, outcomes, 1),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	m.window.init(v.opts.MaxRows, v.opts.MaxBytes)
	m.lanes.init(v)
	return m
}

// late reports whether the firing loop has to be woken, because an entry of the wheel or a rate limit may not
// wait until it looks by itself.
func (m *memory) late() bool {
	next, ok := m.window.wheel.Next()
	return ok && next < m.looks || len(m.lanes.waiting) > 0 || len(m.lanes.limited) > 0
}

// absorb updates the window with one applied change.
func (m *memory) absorb(w *Write, r rouse.Result, now rouse.Instant) {
	c, revision := &w.Change, r.Revision
	en, known := m.absorbRow(w, revision, now)
	if !known {
		en = m.window.entries.find(&c.Key, w.hash)
	}
	if en != nil {
		if !w.held.IsZero() {
			en.hidden = w.hidden
		}
		if en.row.Revision == revision {
			en.markChecked(w.asked, w.began)
		}
	}
	for i := range c.Also {
		row := &c.Also[i]
		stamp(row, r.Also+uint64(i))
		var held time.Time
		if w.alsoHeld != nil {
			held = w.alsoHeld[i]
		}
		if en := m.window.entries.get(row.Key); en != nil {
			m.changeEntry(en, row, held, now)
		} else {
			m.take(row, held, now)
		}
	}
	if m.window.reading != 0 {
		if !c.Keep { // a kept row gives memory nothing new
			m.window.touched[c.Key] = struct{}{}
		}
		for i := range c.Also {
			m.window.touched[c.Also[i].Key] = struct{}{}
		}
	}
}

// absorbRow is absorb for the row of the change. It returns the row's entry, if it is known: a lookup costs a
// cache miss or two.
func (m *memory) absorbRow(w *Write, revision uint64, now rouse.Instant) (en *entry, known bool) {
	c := &w.Change
	if w.settles != nil {
		m.settledEntry(w, revision, now)
		return nil, c.To == nil && !c.Keep && !w.settles.orphan
	}
	if c.Keep {
		return nil, false
	}
	if c.To != nil {
		stamp(c.To, revision)
	}
	switch en = m.window.entries.find(&c.Key, w.hash); {
	case w.tooLate(&m.clock) || w.aside:
		if en != nil && !en.busy() {
			m.window.drop(en)
		}
	case en != nil:
		en.logged = en.logged || ends(c, en)
		w.InFlight = m.changeEntry(en, c.To, w.held, now)
	case c.To != nil:
		return m.takeKnown(c.To, w.hash, m.knownSoon(w, revision, now), w.held, w.how, now), true
	}
	return nil, false
}

// ends reports whether a change records the occurrence that an entry is at.
func ends(c *rouse.Change, en *entry) bool {
	for i := range c.Log {
		if r := &c.Log[i]; r.Due == en.occ.Due && r.Manual == en.occ.Manual {
			return true
		}
	}
	return false
}

// soon is how long before its fire the decoded timer of a put is kept with its row. For later ones the memory
// would cost more than decoding.
const soon = time.Second

// knownSoon returns the timer of a put with its revision and generation set if it is about to fire; nil
// otherwise.
func (m *memory) knownSoon(w *Write, revision uint64, now rouse.Instant) *rouse.Timer {
	if w.Timer == nil || w.Change.To.Visible > now.Add(soon) {
		return nil
	}
	Stamp(w.Timer, revision)
	return w.Timer
}

// changeEntry updates an entry of the map to a newer version of its row; to is nil if the row is gone. held
// is the end of this node's hold, zero if the row is not held. It reports whether an attempt of an ended
// generation is out.
func (m *memory) changeEntry(en *entry, to *rouse.Row, held time.Time, now rouse.Instant) (inFlight bool) {
	if en.busy() {
		if to != nil && to.Generation == en.row.Generation {
			was, noted := en.timer, en.noted
			m.window.update(en, to) // the settle starts from the newer row
			en.held = held
			if noted {
				m.keepWaits(en, was)
			}
			return false
		}
		inFlight = en.state == sending
		cause := rouse.CauseReplaced
		if to == nil {
			cause = rouse.CauseDeleted
		}
		m.window.orphan(en, cause)
	} else {
		m.window.drop(en)
	}
	if to != nil {
		m.take(to, held, now)
	}
	return inFlight
}

// settledEntry finishes an entry's attempt: the entry waits for its next occurrence or leaves memory.
func (m *memory) settledEntry(w *Write, revision uint64, now rouse.Instant) {
	en, c := w.settles, &w.Change
	if en.orphan {
		en.state = removed
		m.window.orphans--
		return
	}
	switch {
	case c.Keep: // the outcome came too late to matter; the row is unchanged
		en.asked = w.spared
	case c.To == nil:
		m.window.drop(en)
		return
	default:
		stamp(c.To, revision)
		m.window.update(en, c.To)
		en.held = w.held
	}
	en.logged = false
	m.relocate(en, now)
}

// relocate moves an entry of the map to where its row belongs now: a lane, the wheel, or out of memory.
func (m *memory) relocate(en *entry, now rouse.Instant) {
	en.lane = nil
	if !m.belongs(&en.row, en.held) {
		m.window.drop(en)
		return
	}
	if en.row.Visible <= now {
		m.settledLate(en, now)
	} else {
		m.window.place(en)
		m.near(&en.row)
	}
}

// near reports a row that waits in memory to Options.Near, so that its target can be prepared.
func (m *memory) near(row *rouse.Row) {
	if m.opts.Near == nil {
		return
	}
	if t, err := m.opts.Read(row); err == nil {
		m.opts.Near(row.Key.Namespace, t.Spec.Target, row.Visible)
	}
}

// belongs reports whether a row belongs in memory: this node holds it, or it is in a range of its buckets
// that was read.
func (m *memory) belongs(row *rouse.Row, held time.Time) bool {
	if row.Visible == rouse.Never {
		return false
	}
	return !held.IsZero() || m.buckets.owns(row.Bucket) && m.window.covers(row.Position())
}

// take adds a row that is in no map to memory, if it belongs there.
func (m *memory) take(row *rouse.Row, held time.Time, now rouse.Instant) {
	m.takeKnown(row, m.window.entries.hash(&row.Key), nil, held, fromStore, now)
}

// takeKnown is take with the hash of the key, and the decoded timer; nil if the row has to be decoded. It
// returns the row's entry; nil if there is none.
func (m *memory) takeKnown(row *rouse.Row, hash uint64, t *rouse.Timer, held time.Time, how origin, now rouse.Instant) *entry {
	if !m.belongs(row, held) {
		return nil
	}
	en := m.window.addHashed(row, hash, now)
	if en == nil {
		return nil
	}
	en.held, en.timer = held, t
	if row.Visible <= now {
		m.window.lift(en)
		m.arrived(en, how, now)
	} else {
		m.near(row)
	}
	return en
}

// giveUp removes a lost entry that is neither on the wheel nor in a lane from memory. An entry of a bucket
// that this node may still own stays: if the ownership is renewed before another node had the bucket, no
// rescan would find the row again.
func (m *memory) giveUp(en *entry) {
	en.lane = nil
	if m.buckets.current().owns(en.row.Bucket) {
		m.window.placeAt(en, m.Now().Add(lookAgain))
		return
	}
	m.window.drop(en)
}

// recheckLater keeps a row in memory as this node held it, to check shortly whether it is back.
func (m *memory) recheckLater(was *entry, now rouse.Instant) {
	en := m.window.add(&was.row, now)
	if en == nil {
		return
	}
	en.held, en.hidden = was.held, was.hidden
	m.window.lift(en)
	m.window.placeAt(en, now.Add(lookAgain))
}

// unqueue moves rows that are in lanes but no longer due back to the wheel.
func (m *memory) unqueue(now rouse.Instant) {
	var early []*entry
	for en := range m.window.entries.all() {
		if en.state == queued && en.row.Visible > now {
			early = append(early, en)
		}
	}
	for _, en := range early { // its slot in the lane's queue stays, so a new entry replaces it
		m.window.drop(en)
		if again := m.window.add(&en.row, now); again != nil {
			again.held = en.held
		}
	}
}

// holding reports whether this node has a row in memory under a hold. It takes the mutex itself.
func (m *memory) holding(key rouse.Key) bool {
	m.Lock()
	defer m.Unlock()
	en := m.window.entries.get(key)
	return en != nil && !en.held.IsZero()
}
