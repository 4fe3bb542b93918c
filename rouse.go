// Package rouse defines the types of rouse, durable timers that wake your code, and the few interfaces
// between its parts. It does no I/O and imports no other package of the module; every other package imports
// it.
//
// Programs use Spec, which defines a timer, and Timer, Record and Fire, which they get back. They usually
// call a server with package client, or run a node with package node:
//
//	n, err := node.Open(ctx, "pebble:./timers")
//	t, err := n.Create(ctx, "report", rouse.Spec{Schedule: "0 9 * * *", Target: "https://example.com/report"})
//
// Implement Store to add a store, and Sink to add a kind of target. The path of a timer:
//
//	client ─► server ─► timers.Put ──┐                        ┌─► events ─► log, metrics, history
//	                                 ▼ group commit           │
//	   strategy ─► store.Claim ─► wheel ─► fair queue ─► sink.Deliver ─► outcome
//	                                 ▲                                      │
//	                            store.Apply ◄── group commit ◄── Timer.After(outcome, now)
//
// One idea carries it: a row needs attention from time X, its visible time. A claim moves X forward (a
// hold), and so does a retry (backoff) and a recurrence (the next due time). A crash does not change X: the
// row is due again. Locks are hints, holds are promises, revisions are truth: every write names the
// revision that it read, and a write that names an old one has no effect.
package rouse

import (
	"context"
	"slices"
	"time"
)

// Key names a row. A timer has an empty Fire; a dead letter is a row next to its timer whose Fire is the id
// of the fire that ran out of attempts. Keys are ordered by namespace, name and fire, bytewise.
type Key struct {
	Namespace string
	Name      string
	Fire      string
}

// Compare orders keys by namespace, name and fire, bytewise.
func (k Key) Compare(o Key) int {
	switch {
	case k.Namespace != o.Namespace:
		return cmpString(k.Namespace, o.Namespace)
	case k.Name != o.Name:
		return cmpString(k.Name, o.Name)
	default:
		return cmpString(k.Fire, o.Fire)
	}
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Row is the stored form of a timer: its visible time, its version, the few columns that List filters on, and
// a body that only this package can read (Timer.Row, DecodeTimer). A store may keep the slices and maps of a
// Row that it receives; the caller must not change them afterwards. The same holds for rows that a store
// returns.
type Row struct {
	Key    Key
	Bucket uint32 // the share of the timers it belongs to: a function of namespace and name
	State  State

	// Criticality decides which rows come first where not all can be served, 0 to MaxCriticality. Only a
	// store that serves rows by it keeps it; the others hand out 0, and the timer itself is in the body.
	Criticality uint8

	Visible Instant // when it next needs attention; Never when it needs none
	// of this version of the row; given by the store from FirstRevision on, grows with every write to it
	Revision   uint64
	Generation uint64 // of the timer: the revision of the write that created or replaced it
	Due        Instant
	Labels     map[string]string
	Body       []byte
}

// Position is a place in a bucket's order of attention: rows are ordered by visible time, then by key.
type Position struct {
	Visible Instant
	Key     Key
}

// Compare orders positions.
func (p Position) Compare(o Position) int {
	switch {
	case p.Visible < o.Visible:
		return -1
	case p.Visible > o.Visible:
		return 1
	}
	return p.Key.Compare(o.Key)
}

// Size returns the bytes that a row counts for in the quota of bytes: its key, its labels and its body.
func (r *Row) Size() int64 {
	n := len(r.Key.Namespace) + len(r.Key.Name) + len(r.Key.Fire) + len(r.Body)
	for k, v := range r.Labels {
		n += len(k) + len(v)
	}
	return int64(n)
}

// Position returns the position of the row in the order of its bucket.
func (r *Row) Position() Position { return Position{r.Visible, r.Key} }

// Window selects the rows of a claim.
type Window struct {
	Buckets []uint32      // rows of these buckets only, ascending
	After   Position      // rows strictly after this position only; the zero Position is before all rows
	Ahead   time.Duration // rows visible until the store's now plus Ahead, inclusive
	Hold    time.Duration // 0 reads only; otherwise the rows' visible times become now plus Hold, with new revisions,
	// or this, if more than half of Hold is left till then: a time that identifies the holder for other nodes
	Until Instant
	Limit int // at most so many rows; at least 1
	Bytes int // stop after the row that brings the sum of the bodies to so many bytes; 0 is no limit

	// Since leaves rows out that were not written after the claim which returned it as its Token; 0 leaves
	// none out. A store may hand out more than that, never less; but it may also leave out rows last written
	// by a successful Apply of the same Store value, because the caller knows them.
	Since uint64

	// Namespaces, if there are any, leaves out the rows of others.
	Namespaces []string
}

// HoldEnd returns the time until which a claim at now holds its rows.
func (w *Window) HoldEnd(now Instant) Instant {
	if w.Until > now.Add(w.Hold/2) { // a claim that was made late holds no row until before it is due
		return w.Until
	}
	return now.Add(w.Hold)
}

// Batch is the result of a claim.
type Batch struct {
	Now  Instant // the store's clock at the claim
	Rows []Row   // in the order of their positions; with Hold, Revision is the new one, and Visible is still when to fire
	More bool    // the claim ended at Limit or Bytes: rows of the window may remain after the last one

	// Token is a Window.Since for later: rows that this claim does not see, and later writes, come after it.
	// 0 if the store does not know.
	Token uint64

	// Missing are the parts of a store on several servers that did not answer. Their rows are not in Rows,
	// and Token does not cover them: once such a part answers again, its part of the window has to be read
	// completely. A part that came back without its last writes is here for a while, too, although it
	// answers.
	Missing []Missing
}

// Missing is a part of a store that does not answer.
type Missing struct {
	Part string // its name, the same in every answer
	Err  error
}

// Partial is the error of Apply and Revisions when only some parts of a store answered: the results returned
// with it count, except those at the places Unknown, whose outcome is unknown.
type Partial struct {
	Unknown []int // ascending
	Err     error
}

func (p *Partial) Error() string { return "a part of the store does not answer: " + p.Err.Error() }

// Unwrap returns why the part does not answer.
func (p *Partial) Unwrap() error { return p.Err }

// AnyRevision and NoRow are values of Change.If in addition to real revisions, which begin at FirstRevision.
const (
	NoRow       uint64 = 0         // the change applies only if there is no row
	AnyRevision uint64 = 1<<64 - 1 // the change applies whatever is there
)

// Change is one conditional write.
type Change struct {
	Key Key
	If  uint64 // the revision that the row must have, or NoRow, or AnyRevision

	// To is the new row, nil to remove it. Its Key is Change.Key; its Revision is ignored, as the store gives
	// a new one. A zero Generation begins a new generation, whose number is the new revision.
	To *Row

	// Keep leaves the row as it is (To is nil): the condition is checked, and Also and Log are written.
	Keep bool

	Also []Row    // rows written together with the change, whatever was there; the same bucket as Key's
	Log  []Record // records written together with the change
}

// Result is the result of a change.
type Result struct {
	// of the row now: the new one if Applied (0 if it was removed), else the one that was there (0: no row)
	Revision uint64
	Applied  bool
	Existed  bool   // a row was there before
	Also     uint64 // revision of the first of Change.Also; each one after it has the next number; 0 if there is none
}

// Query selects the rows that List returns: those that match every field that is set.
type Query struct {
	Namespace string            // empty: all namespaces
	Prefix    string            // of the name
	Name      string            // exactly this name, with its dead letters if States asks for them
	States    []State           // any of these; empty: ListedStates
	Labels    map[string]string // all of these
	DueFrom   Instant           // due at or after; 0: no bound
	DueUntil  Instant           // due before; 0: no bound
	After     Key               // strictly after this key; the zero Key is before all
	Limit     int               // at most so many rows; at least 1

	// The following fields are for operations on timers. A store gets queries without them.
	Sought  Sought
	Order   Order
	Reverse bool    // the latest first, or the last name
	AfterAt Instant // with After in an Order by time: the time of the last timer of the page before
}

// Wants reports whether the query asks for rows of a state.
func (q *Query) Wants(s State) bool {
	if len(q.States) == 0 {
		return !s.Detached()
	}
	return slices.Contains(q.States, s)
}

// Page is a part of a list, in the order of keys. A page may be shorter than Limit, even empty, and still
// have a Next: a store bounds the rows that it reads for one page.
type Page struct {
	Rows []Row
	Next *Key // where to go on (Query.After); nil at the end
}

// RecordQuery selects the records of one namespace, or of one timer, newest first.
type RecordQuery struct {
	Namespace string       // for operations on timers, empty: all namespaces
	Name      string       // empty: the whole namespace
	Until     RecordCursor // strictly older than this; the zero cursor is newer than all
	Limit     int          // at least 1

	// The following fields are for operations on timers. A store gets queries without them.
	From    RecordCursor      // not older than this; the zero cursor is older than all
	Prefix  string            // of the name
	Labels  map[string]string // of the timer now: a timer that has been deleted has none
	Endings []Ending          // any of these; empty: all
	Causes  []Cause           // any of these; empty: all
	Sought  Sought
	Oldest  bool // oldest first
}

// RecordCursor is the place of a record in the history of a namespace.
type RecordCursor struct {
	Ended Instant
	Seq   uint64
}

// RecordPage is a part of a history, newest first.
type RecordPage struct {
	Records []Record
	At      []RecordCursor // of the records: unique in the store
	Next    *RecordCursor  // where to go on, as RecordQuery.Until, or From if the oldest come first; nil at the end

	Searched int64 // by an operation on timers: how many records it compared, of those that the caller may see
}

// Timers is a versioned table with one index on visible time.
//
// All methods may be called concurrently. A method that returns an error that is not a contract violation has
// an unknown outcome: the caller may try the same conditional write again, and its revision keeps it from
// being applied twice. Times are the store's; a store that shares its machine with its one caller uses the
// machine's wall clock.
type Timers interface {
	// Now returns the store's clock.
	Now(ctx context.Context) (Instant, error)

	// Get returns the rows of the keys, in their order; a key without a row gets a zero Row (Revision 0).
	Get(ctx context.Context, keys []Key) ([]Row, error)

	// List returns the rows that match, in the order of keys.
	List(ctx context.Context, q Query) (Page, error)

	// Count returns how many rows match; q.After and q.Limit do not matter. A filter by namespace and states
	// alone costs no scan.
	Count(ctx context.Context, q Query) (int64, error)

	// Claim returns the rows of the window, in the order of their positions. With a Hold the rows are hidden
	// from other claims until then, atomically: no two claims get the same row for overlapping times.
	Claim(ctx context.Context, w Window) (Batch, error)

	// Apply makes the changes, each on its own condition and in their order, in one durable step: when it
	// returns without error, the applied changes survive a crash of the process and of the machine, if the
	// store's settings guarantee that. A condition that does not hold is no error. Several changes of one key
	// in one call see each other. A store on several servers may return results with a *Partial.
	Apply(ctx context.Context, changes []Change) ([]Result, error)
}

// History reads the records that Apply wrote, and deletes old ones.
type History interface {
	// Records returns records, newest first.
	Records(ctx context.Context, q RecordQuery) (RecordPage, error)

	// RecordNamespaces returns the namespaces that have records, sorted, and perhaps some whose records were
	// deleted recently.
	RecordNamespaces(ctx context.Context) ([]string, error)

	// TrimTimer deletes the records of a timer beyond its newest keep. It returns how many it deleted.
	TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error)

	// Trim deletes records that ended before the given time, at least in whole hours, and the oldest hours
	// beyond max records (0: no such bound): an hour goes when the later ones have that many, so the newest
	// max records stay, with the rest of the hour of the oldest of them. It returns how many records it
	// deleted, which may be an estimate.
	Trim(ctx context.Context, before Instant, max int64) (int64, error)
}

// Store stores timers.
type Store interface {
	Timers
	History
	Close() error
}

// Checkpointer is a store that can write a consistent copy of itself into a new directory, while serving.
type Checkpointer interface {
	Checkpoint(ctx context.Context, dir string) error
}

// Checked is a store that detects damage to its files, or that its server came back without its data. An
// operation that meets damage fails with ErrCorrupt.
type Checked interface {
	// Corrupted returns the first damage that was met since the store was opened, or nil. For data that is
	// gone from a server, it returns that until the data is back.
	Corrupted() error
}

// Withholding is a store that at times serves only a part of the rows.
type Withholding interface {
	// Withheld returns why due rows of timers with this spec are not claimed at present, as the end of a
	// sentence for users, or "".
	Withheld(spec *Spec) string
}

// Shared is a store that several nodes can use at the same time. If the server of one that is Checked comes
// back empty, or with the data of another store, all operations fail with ErrCorrupt until the data is back:
// none writes, and none answers as if nothing had been there.
type Shared interface {
	Store
	Locks

	// Revisions returns the revisions of the rows of the keys, in their order; 0 where there is no row. It
	// sees every change that was acknowledged before the call. A store on several servers may return
	// revisions with a *Partial.
	Revisions(ctx context.Context, keys []Key) ([]uint64, error)
}

// Watcher is a store that can report when another client has written rows that a node should claim at once.
type Watcher interface {
	// Watch calls f after such writes, soon, and at most a few times a second, until ctx ends. It is a hint:
	// a call may be lost, and may come without a reason. After an error, call Watch again.
	Watch(ctx context.Context, f func()) error

	// Watching reports whether such writes are reported now, as far as is known. While they are not, rows are
	// claimed more often.
	Watching() bool
}

// Presence is a store that notices when a node's process ends: each node keeps a connection to it for that
// alone.
type Presence interface {
	// Attend connects as a member. The store knows the member until the connection closes, such as by the end
	// of the process. The error is errors.ErrUnsupported if a proxy keeps connections open after the process
	// ends.
	Attend(ctx context.Context, member string) (Attendance, error)

	// Announce signals the Heard channel of every connected member.
	Announce(ctx context.Context) error
}

// Attendance is a member's connection. All methods may be called concurrently.
type Attendance interface {
	// Server identifies the run of the server behind the connection: a restart or a failover ends it, and all
	// its connections.
	Server() string

	// Absent returns the members that have no connection to the server now. It fails if this one is closed.
	Absent(ctx context.Context, members []string) ([]string, error)

	Heard() <-chan struct{} // a member announced that there is something to look at
	Done() <-chan struct{}  // closed when the connection is
	Close()
}

// Raiser is a store whose revisions can be raised.
type Raiser interface {
	// Raise makes every later revision greater than the given one.
	Raise(ctx context.Context, revision uint64) error
}

// Lease is a named lock with an end. It is a hint: its owner may be suspended beyond the end without
// noticing.
type Lease struct {
	Name  string
	Owner string // the node that has it, or had it last
	// its fencing number: grows each time it is taken by another owner, after its end, or by Want.If; stays
	// when it is renewed
	Epoch uint64
	Until Instant // its end, by the store's clock
	Data  []byte  // stored with it by its owner
}

// Want is one lease in a call of Lock.
type Want struct {
	Name string
	Data []byte
	// If 0 takes the lease if it is free, or renews it. Another value takes it from any owner if its epoch is
	// that value: an optimistic lock, with the data as its value.
	If uint64
}

// Locks are the leases of a store. All methods may be called concurrently. Without LeaseEnder, a lease whose
// owner is gone is free at its end by the store's clock only: when that clock is set back, it is not ended by
// those that have seen its time pass, and nothing reports that.
type Locks interface {
	// Lock takes or renews leases for an owner until the store's now plus ttl, each on its own, in one step,
	// and returns their state afterwards, in the order of wants: a lease with another Owner was not taken.
	// With Want.If, a lease that was not taken has an epoch other than If+1, or another owner.
	Lock(ctx context.Context, owner string, ttl time.Duration, wants []Want) ([]Lease, error)

	// Unlock ends leases that the owner has; their epochs stay.
	Unlock(ctx context.Context, owner string, names []string) error

	// Leases returns the leases whose names begin with the prefix, in the order of names, ended ones too, and
	// the store's clock. Those that ended long ago may be deleted, except for their epochs: a name's epoch
	// never decreases, unless DropLeases deleted it.
	Leases(ctx context.Context, prefix string) ([]Lease, Instant, error)
}

// LeaseDropper is implemented by Locks that can delete leases.
type LeaseDropper interface {
	// DropLeases deletes those of the leases that are as they are given, and have ended. Their names begin
	// with a new epoch: it is for names of which no epoch is used, such as those of nodes that are long gone.
	DropLeases(ctx context.Context, leases []Lease) error
}

// LeaseEnder is implemented by Locks that can end leases of other owners.
type LeaseEnder interface {
	// EndLeases ends those of the leases that are as they are given: one that was renewed or taken since
	// stays. Their epochs stay.
	EndLeases(ctx context.Context, leases []Lease) error
}

// Grant holds the buckets that a strategy lets a node claim now.
type Grant struct {
	Buckets []uint32      // ascending
	Hold    time.Duration // 0: the node owns the buckets and reads; otherwise each claim holds so long
	Until   time.Time     // monotonic end of the grant; zero: it does not end
}

// Strategy decides which buckets a node may claim. It is a gate in front of the one claim; correctness never
// rests on it.
type Strategy interface {
	// Grant returns the buckets that the node may claim now. It may block until it can return something. The
	// caller reports with done that the claim is over, and whether rows of the window may remain.
	Grant(ctx context.Context) (g Grant, done func(more bool), err error)
}

// Runner is a strategy with work of its own, such as keeping leases.
type Runner interface {
	// Run works until ctx ends, and then releases the node's buckets. Errors of the store are retried, not
	// returned.
	Run(ctx context.Context)

	// Changed is signalled when Grant's answer has changed.
	Changed() <-chan struct{}

	// Left reports that this node has nothing of these buckets in progress any more, after a Grant without
	// them.
	Left(buckets []uint32)

	// Healthy returns why the last Grant may be invalid, or nil. It returns an error before the Grant's
	// Until.
	Healthy() error
}

// Fire is one occurrence in flight to its target. Its slices and maps must not be changed.
type Fire struct {
	ID         string // the same for every attempt of an occurrence, for ever: see FireID
	Namespace  string
	Name       string
	Generation uint64
	Due        Instant
	At         Instant // when it was to be sent first: Due, or later by the timer's jitter
	Attempt    uint32  // 1 is the first
	// the fencing token: grows with each attempt; a receiver may refuse a token older than one that it has
	// seen
	Token  uint64
	Manual bool   // asked for by run, not by the schedule
	Last   bool   // no attempt follows this one
	Lost   uint32 // how many receivers in a row have gone with the occurrence in hand
	Spec   *Spec
	Bucket uint32 // of the timer

	// Origin is the span that created the timer, nil if there is none, and Traceparent the header of that of
	// this attempt, which sinks pass on; empty without tracing.
	Origin      *TraceContext
	Traceparent string
}

// Lane is a queue that a fire waits in. Fires of one lane share a concurrency limit; lanes do not delay each
// other.
type Lane struct {
	Name  string
	Limit int // fires outstanding, handed to Deliver and not reported, at a time; at least 1
	Batch int // fires in one delivery, at most; at least 1

	Rate  float64 // fires a second, at most; 0 is no limit
	Burst int     // fires that may go at once under Rate; 0 is a second's worth, at least 1
	// fires a second, at most, of those that are more than CatchUpAfter late at their first attempt; 0 is no
	// limit
	CatchUp float64

	// Paced means that receivers control their rate by acknowledgements: no rate of catching up applies.
	Paced bool

	// Spend asks to store an attempt as spent before its delivery: a fire whose delivery kills the process
	// each time then runs out of attempts, and ends as a dead letter.
	Spend bool
}

// CatchUpAfter is how late a fire must be to count as catching up.
const CatchUpAfter = time.Minute

// Sink is a kind of delivery.
type Sink interface {
	// Check refuses, with an *Invalid, a spec whose target or options this sink cannot serve. It changes
	// nothing.
	Check(spec *Spec) error

	// Lane returns the lane of a timer's fires. It is cheap and pure.
	Lane(namespace string, spec *Spec) Lane

	// Deliver brings the fires, all of one lane, to their target, and reports each of them exactly once
	// through settle, by its index, from any goroutine, as soon as it is known; settle does not block. It may
	// return before all are reported (a running Deliver counts against the engine's limit of deliveries, an
	// outstanding fire against its lane's). It obeys ctx, which lives until the engine stops: when ctx ends,
	// fires without an outcome are reported as Failed or Deferred. It does not retry. The fires stay
	// unchanged until the last of them is reported.
	Deliver(ctx context.Context, fires []Fire, settle func(i int, o Outcome))
}

// Obstructed is a sink that can report why its fires are delayed, in text for users.
type Obstructed interface {
	// Obstacle returns the obstacle to the delivery of the spec's fires now, such as an open circuit, or "".
	Obstacle(namespace string, spec *Spec) string
}
