package engine

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
)

// memory has the rows that come due soon, and the state of each: where it waits, and whether an attempt
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
	gates  gates         // due rows that wait for their named limits
	lanes  lanes         // queues of due rows, and deliveries that are out
	looks  rouse.Instant // when the firing loop looks at the wheel again by itself; 0 if it is not to be woken before that

	looked   rouse.Timer // the timer that peekTimer decoded last
	lookedAt *entry
}

func newMemory(v *env, sink rouse.Sink, buckets *ownership, holds *holds, crowds *crowds, outcomes *outcomes) *memory {
	m := &memory{env: v, sink: sink, buckets: buckets, holds: holds, crowds: crowds, outcomes: outcomes,
		expectations: newAttention(v, outcomes, maxExpectations), jobs: newAttention(v, outcomes, 1),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	m.window.init(v.opts.MaxRows, v.opts.MaxBytes)
	m.lanes.init(v)
	m.gates.init(v)
	m.gates.place, m.gates.lost = m.enqueuePlaced, m.giveUpEntry
	m.gates.isLost = func(en *entry) bool { return holds.isLost(en, boottime.Now()) }
	return m
}

// mustWakeFiring reports whether the firing loop has to be woken, because an entry of the wheel or a rate
// limit may not wait until it looks by itself.
func (m *memory) mustWakeFiring() bool {
	next, ok := m.window.wheel.Next()
	return ok && next < m.looks || len(m.lanes.waiting) > 0 || len(m.lanes.limited) > 0 ||
		len(m.gates.ready) > 0
}

// absorbWrite updates the window with one applied change.
func (m *memory) absorbWrite(w *Write, r rouse.Result, now rouse.Instant) {
	c, revision := &w.Change, r.Revision
	en, known := m.absorbRow(w, revision, now)
	if !known {
		en = m.window.entries.findHashed(&c.Key, w.hash)
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
		stampRow(row, r.Also+uint64(i))
		var held time.Time
		if w.alsoHeld != nil {
			held = w.alsoHeld[i]
		}
		if en := m.window.entries.entryByKey(row.Key); en != nil {
			m.changeEntry(en, row, held, now)
		} else {
			m.takeRow(row, held, now)
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

// absorbRow takes the row of the change into memory. It returns the row's entry, if it is known: a lookup
// costs a cache miss or two.
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
		stampRow(c.To, revision)
	}
	w.InFlight = w.Was != nil && m.holds.mayBeOut(w.Was)
	switch en = m.window.entries.findHashed(&c.Key, w.hash); {
	case w.tooLate(&m.clock) || w.aside:
		if en != nil && !en.isBusy() {
			m.window.dropEntry(en)
		}
	case en != nil:
		en.logged = en.logged || recordsOccurrence(c, en)
		w.InFlight = m.changeEntry(en, c.To, w.held, now) || w.InFlight
	case c.To != nil:
		return m.takeKnown(c.To, w.hash, m.knownSoon(w, revision, now), w.held, w.how, now), true
	}
	return nil, false
}

// recordsOccurrence reports whether a change records the occurrence that an entry is at.
func recordsOccurrence(c *rouse.Change, en *entry) bool {
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
// is the end of this node's hold, zero if the row is not held. It reports whether an attempt of the older
// version is out.
func (m *memory) changeEntry(en *entry, to *rouse.Row, held time.Time, now rouse.Instant) (inFlight bool) {
	inFlight = en.state == sending
	if en.isBusy() {
		if to != nil && to.Generation == en.row.Generation {
			was, noted := en.timer, en.noted
			m.window.updateRow(en, to) // the settle starts from the newer row
			en.held = held
			if noted {
				m.keepWaits(en, was)
			}
			return inFlight
		}
		cause := rouse.CauseReplaced
		if to == nil {
			cause = rouse.CauseDeleted
		}
		m.window.orphanEntry(en, cause)
	} else {
		m.window.dropEntry(en)
	}
	if to != nil {
		m.takeRow(to, held, now)
	}
	return inFlight
}

// settledEntry finishes an entry's attempt: the entry waits for its next occurrence or leaves memory.
func (m *memory) settledEntry(w *Write, revision uint64, now rouse.Instant) {
	en, c := w.settles, &w.Change
	if en.orphan {
		en.leaveGate()
		en.state = removed
		m.window.orphans--
		return
	}
	switch {
	case c.Keep: // the outcome came too late to matter; the row is unchanged
		en.asked = w.spared
	case c.To == nil:
		m.window.dropEntry(en)
		return
	default:
		stampRow(c.To, revision)
		m.window.updateRow(en, c.To)
		en.held = w.held
		if en.leaveTarget(); !en.keepsPlace() {
			en.leaveGate()
		}
	}
	en.logged = false
	m.relocateEntry(en, now)
}

// relocateEntry moves an entry of the map to where its row belongs now: a lane, the wheel, or out of memory.
func (m *memory) relocateEntry(en *entry, now rouse.Instant) {
	en.lane = nil
	if !m.belongsHere(&en.row, en.held) && !(en.keepsPlace() && m.window.hasRoomToKeep()) {
		m.window.dropEntry(en)
		return
	}
	if en.row.Visible <= now {
		m.settledLate(en, now)
	} else {
		m.window.placeOnWheel(en)
		m.reportNear(&en.row)
	}
}

// reportNear reports a row that waits in memory to Options.Near, so that its target can be prepared.
func (m *memory) reportNear(row *rouse.Row) {
	if m.opts.Near == nil {
		return
	}
	if t, err := m.opts.Read(row); err == nil {
		m.opts.Near(row.Key.Namespace, t.Spec.Target, row.Visible)
	}
}

// belongsHere reports whether a row belongs in memory: this node holds it, or it is in a range of its buckets
// that was read.
func (m *memory) belongsHere(row *rouse.Row, held time.Time) bool {
	if row.Visible == rouse.Never {
		return false
	}
	return !held.IsZero() || m.buckets.ownsBucket(row.Bucket) && m.window.coversPosition(row.Position())
}

// takeRow adds a row that is in no map to memory, if it belongs there.
func (m *memory) takeRow(row *rouse.Row, held time.Time, now rouse.Instant) {
	m.takeKnown(row, m.window.entries.hashKey(&row.Key), nil, held, fromStore, now)
}

// takeKnown is takeRow with the hash of the key, and the decoded timer; nil if the row has to be decoded. It
// returns the row's entry; nil if there is none.
func (m *memory) takeKnown(row *rouse.Row, hash uint64, t *rouse.Timer, held time.Time, how origin,
	now rouse.Instant) *entry {
	if !m.belongsHere(row, held) {
		return nil
	}
	en := m.window.addHashed(row, hash, now)
	if en == nil {
		return nil
	}
	en.held, en.timer = held, t
	if row.Visible <= now {
		m.window.takeOffWheel(en)
		m.enqueueArrived(en, how, now)
	} else {
		m.reportNear(row)
	}
	return en
}

// giveUpEntry removes a lost entry that is neither on the wheel nor in a lane from memory. An entry of a
// bucket that this node may still own stays: if the ownership is renewed before another node had the bucket,
// no rescan would find the row again.
func (m *memory) giveUpEntry(en *entry) {
	en.leaveGate()
	en.lane = nil
	if m.buckets.currentGrant().ownsBucket(en.row.Bucket) {
		m.window.placeAt(en, m.Now().Add(lookAgain))
		return
	}
	m.window.dropEntry(en)
}

// recheckLater keeps a row in memory as this node held it, to check shortly whether it is back.
func (m *memory) recheckLater(was *entry, now rouse.Instant) {
	en := m.window.insertRow(&was.row, now)
	if en == nil {
		return
	}
	en.held, en.hidden = was.held, was.hidden
	m.window.takeOffWheel(en)
	m.window.placeAt(en, now.Add(lookAgain))
}

// unqueueEarly moves rows that are in lanes but no longer due back to the wheel.
func (m *memory) unqueueEarly(now rouse.Instant) {
	var early []*entry
	for en := range m.window.entries.allEntries() {
		if (en.state == queued || en.state == atGate) && en.row.Visible > now {
			early = append(early, en)
		}
	}
	for _, en := range early { // its slot in the lane's queue stays, so a new entry replaces it
		m.window.dropEntry(en)
		if again := m.window.insertRow(&en.row, now); again != nil {
			again.held = en.held
		}
	}
}

// holdsRow reports whether this node has a row in memory under a hold. It takes the mutex itself.
func (m *memory) holdsRow(key rouse.Key) bool {
	m.Lock()
	defer m.Unlock()
	en := m.window.entries.entryByKey(key)
	return en != nil && !en.held.IsZero()
}
