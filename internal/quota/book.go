// Package quota enforces the quotas of namespaces on all nodes of a store together.
//
//	operation ─► Book.Writes, Room, Fit, Read ─► counts of the store, this node's share of a rate ─► *rouse.QuotaError
//	engine    ─► Book.Of                      ─► this node's share of the rate of fires; bounds of its contents
//	pools     ─► Book.GroupRoom               ─► whether this node may start another group of workers
//	limits    ─► Book.TargetShare             ─► this node's share of a limit of a target
//
// Counts, such as that of timers, are in the store. A node adds at most half of the room, divided by the
// number of nodes, before it reads the count again. A rate is divided: each node publishes its demand of each
// limited namespace, and takes a share in proportion. Bytes are measured: see sizes.
package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/note"
)

// MaxNamespaces bounds the namespaces that are created.
const MaxNamespaces = 10_000

// Store is the store from which counts and sizes are read, and the rest of a deleted namespace is removed.
type Store interface {
	Count(ctx context.Context, q rouse.Query) (int64, error)
	List(ctx context.Context, q rouse.Query) (rouse.Page, error)
	Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error)
	Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error)
	TrimTimer(ctx context.Context, namespace, name string, keep int) (int64, error)
}

// Options configure a Book.
type Options struct {
	Node    func() string                                    // unique name of this node
	Access  *access.Control                                  // nil: it is off
	Refused func(namespace, quota string)                    // is called for each refusal; may be nil
	Now     func(ctx context.Context) (rouse.Instant, error) // the store's clock
	Fires   func(namespace string) int                       // that this node has sent since the last call, or that wait
	Groups  func(namespace string) int                       // of workers that this node has started; may be nil
	// CheckNotify refuses rules for notices that cannot be delivered, or that the caller may not have
	// delivered
	CheckNotify func(ctx context.Context, namespace string, rules []rouse.NotifyRule) error
	Secrets     func(namespace string) int // that a namespace has; may be nil
	Limits      func(namespace string) int // that a namespace has; may be nil
	// Alone reports whether no other node uses the store now; may be nil
	Alone func() bool
	Log   *slog.Logger

	Targets func() []rouse.Limit                // the limits of targets; may be nil
	Uses    func() map[rouse.Key]rouse.LimitUse // of them, on this node; required with Targets
	Divided func()                              // is called when TargetShare may have changed; required with Targets
}

// Book has the namespaces of a store, and their use as this node knows it. It is safe for concurrent use.
type Book struct {
	opts   Options
	store  Store
	kind   *access.Kind // of the namespaces
	shares shares
	sizes  sizes

	targets targets

	mu     sync.RWMutex
	spaces map[string]*space
	use    map[string]rouse.Usage // as the metrics show it

	notify    sync.Map     // of namespaces with rules for notices: []rouse.NotifyRule
	notifying atomic.Int64 // how many these are
}

// New returns the book of a store. It is empty until shared is loaded.
func New(store Store, shared *access.Shared, o Options) *Book {
	if o.Refused == nil {
		o.Refused = func(string, string) {}
	}
	if o.Targets == nil {
		o.Targets, o.Divided = func() []rouse.Limit { return nil }, func() {}
	}
	b := &Book{opts: o, store: store, spaces: map[string]*space{}}
	b.targets.begins = 2 // one that begins at the same time is known then
	b.targets.byName = map[rouse.Key]*targetShare{}
	b.kind = shared.Kind("namespace", b.applyNamespaceNote)
	b.shares.init(b, shared)
	b.sizes.init(b, shared)
	return b
}

// stored is a namespace as a note.
type stored struct {
	Quotas  rouse.Quotas       `json:"quotas"`
	Updated rouse.Instant      `json:"updated"`
	Notify  []rouse.NotifyRule `json:"notify,omitempty"`
}

// applyNamespaceNote takes a namespace that is new, has changed, or is gone.
func (b *Book) applyNamespaceNote(n note.Note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s stored
	switch err := n.Read(&s); {
	case n.Revision == 0:
		delete(b.spaces, n.Name)
		b.setNotifyRules(n.Name, nil)
		return
	case err != nil: // of a later version: the earlier quotas stay
		b.opts.Log.Error("a namespace cannot be read", "namespace", n.Name, "err", err)
		return
	}
	is := rouse.Namespace{Name: n.Name, Quotas: s.Quotas, Updated: s.Updated, Notify: s.Notify, Revision: n.Revision}
	b.setNotifyRules(n.Name, s.Notify)
	if old := b.spaces[n.Name]; old != nil {
		old.applyQuotas(is)
		return
	}
	sp := &space{name: n.Name, nodes: b.shares.liveNodes()}
	sp.applyQuotas(is)
	b.spaces[n.Name] = sp
}

func (b *Book) findSpace(namespace string) *space {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.spaces[namespace]
}

// Put creates or replaces a namespace. revision is the one that it must have, rouse.NoRow or
// rouse.AnyRevision.
func (b *Book) Put(ctx context.Context, name string, q rouse.Quotas, revision uint64) (rouse.Namespace, error) {
	if err := b.opts.Access.Require(ctx, access.NamespacesWrite, "", "", nil); err != nil {
		return rouse.Namespace{}, err
	}
	var bad rouse.Invalid
	bad.Add(rouse.CheckNamespace(name))
	bad.Add(q.Check())
	if err := bad.Err(); err != nil {
		return rouse.Namespace{}, err
	}
	return b.changeNamespace(ctx, name, revision, func(s *stored) { s.Quotas = q })
}

// changeAgain is how often a change that met another one is made again.
const changeAgain = 5

// changeNamespace writes a namespace as change makes it of what is stored. What stays as it is is not
// written.
func (b *Book) changeNamespace(ctx context.Context, name string, revision uint64,
	change func(s *stored)) (rouse.Namespace, error) {
	for try := 0; ; try++ {
		notes, err := b.kind.Get(ctx, name)
		if err != nil {
			return rouse.Namespace{}, rouse.Unavailable(err)
		}
		var was stored
		if err := notes[0].Read(&was); err != nil {
			return rouse.Namespace{}, err
		}
		is, read := was, notes[0].Revision
		change(&is)
		switch matches := revision == rouse.AnyRevision || revision == read; {
		case !matches:
			return rouse.Namespace{}, errConflict(name)
		case read != 0 && reflect.DeepEqual(is, was):
			if err := b.kind.Refresh(ctx, name); err != nil {
				return rouse.Namespace{}, err
			}
			return b.findNamespace(name)
		case read == 0:
			if err := b.refuseIfFull(name); err != nil {
				return rouse.Namespace{}, err
			}
		}
		if is.Updated, err = b.opts.Now(ctx); err != nil {
			return rouse.Namespace{}, rouse.Unavailable(err)
		}
		err = b.kind.Write(ctx, access.Change{Name: name, Value: is, If: read})
		switch {
		case errors.Is(err, rouse.ErrConflict) && revision == rouse.AnyRevision && try < changeAgain:
			continue
		case errors.Is(err, rouse.ErrConflict):
			return rouse.Namespace{}, errConflict(name)
		case err != nil:
			return rouse.Namespace{}, err
		}
		return b.findNamespace(name)
	}
}

func (b *Book) refuseIfFull(name string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.spaces) >= MaxNamespaces && b.spaces[name] == nil {
		return fmt.Errorf("there are %d namespaces, which is all that there may be: %w", MaxNamespaces, rouse.ErrFull)
	}
	return nil
}

func errConflict(name string) error {
	return fmt.Errorf("namespace %q: it was changed, or exists: %w", name, rouse.ErrConflict)
}

// Get returns a namespace that has been created, with how much of its quotas it uses, as far as the caller
// may see that.
func (b *Book) Get(ctx context.Context, name string) (is rouse.Namespace, u rouse.Usage, err error) {
	if err = rouse.CheckNamespace(name); err == nil {
		err = b.opts.Access.RequireIn(ctx, access.NamespacesRead, name)
	}
	if err == nil {
		is, err = b.findNamespace(name)
	}
	switch {
	case err != nil:
	case b.opts.Access.Restricted(ctx, access.TimersRead, name):
		u.Hidden, is.Notify = true, nil
	default:
		u, err = b.readUsage(ctx, name, false)
	}
	return is, u, err
}

func (b *Book) findNamespace(name string) (rouse.Namespace, error) {
	sp := b.findSpace(name)
	if sp == nil {
		return rouse.Namespace{}, fmt.Errorf("namespace %q has not been created: %w", name, rouse.ErrNotFound)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.is, nil
}

// Delete deletes a namespace that has no timers, calendars and secrets, with its records, and with the notes
// of jobs and requests: if they are more than one call can delete, it has to be repeated. Nodes that have not
// seen that yet may still take a timer for it: then it exists again, and stays.
func (b *Book) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(b.opts.Access.Require(ctx, access.NamespacesWrite, "", "", nil),
		rouse.CheckNamespace(name)); err != nil {
		return err
	}
	is, err := b.findNamespace(name)
	if err != nil {
		return err
	}
	until := time.Now().Add(deleteFor)
	if err := b.clearNamespace(ctx, name, until); err != nil {
		return err
	}
	if err := b.kind.Write(ctx, access.Change{Name: name, If: is.Revision}); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	settle := takenAfter
	if b.shares.liveNodes() > 1 {
		settle += 2 * access.RefreshEvery
	}
	backoff.Sleep(ctx, settle)
	if err := b.clearNamespace(ctx, name, until); err != nil {
		again := b.kind.Write(ctx, access.Change{Name: name, Value: stored{is.Quotas, is.Updated, is.Notify}, If: rouse.NoRow})
		if errors.Is(again, rouse.ErrConflict) { // it was created again
			again = nil
		}
		return cmp.Or(again, err)
	}
	if is.Quotas.Bytes == 0 {
		return nil
	}
	return b.sizes.kind.Write(ctx, access.Change{Name: name, If: rouse.AnyRevision})
}

// takenAfter is how long a write that was admitted before a namespace was deleted may take.
const takenAfter = 100 * time.Millisecond

// clearNamespace refuses to delete a namespace that is not empty, and clears one that is, until a time.
// Records that it has deleted stay deleted if it fails.
func (b *Book) clearNamespace(ctx context.Context, name string, until time.Time) error {
	if err := b.requireEmpty(ctx, name); err != nil {
		return err
	}
	if err := b.deleteAllRecords(ctx, name, until); err != nil {
		return err
	}
	return b.deleteLeft(ctx, name, until)
}

// requireEmpty refuses to delete a namespace that has timers, or something that the next one of its name
// would find.
func (b *Book) requireEmpty(ctx context.Context, name string) error {
	n, err := b.store.Count(ctx, rouse.Query{Namespace: name, States: rouse.AllStates})
	switch {
	case err != nil:
		return rouse.Unavailable(err)
	case n > 0:
		return fmt.Errorf("namespace %q has %d timers, occurrences and dead letters; delete them first: %w", name, n,
			rouse.ErrConflict)
	}
	return b.requireNothingLeft(ctx, name)
}

const (
	// deleteFor is how long one call deletes records and notes of a namespace.
	deleteFor = 15 * time.Second
	// recordPage is how many records are read at a time, to find the names that have some.
	recordPage = 1000
	// leftPage is how many rows are deleted in one commit.
	leftPage = 500
)

// errMoreLeft refuses to delete a namespace that has left more than one call deletes.
func errMoreLeft(name, what string) error {
	return &rouse.RetryAfter{Err: fmt.Errorf(
		"namespace %q has more %s than are deleted in %v; delete it again to go on: %w",
		name, what, deleteFor, rouse.ErrOverloaded), After: time.Second}
}

// deleteAllRecords deletes the records of a namespace without timers, which gets no more of them.
func (b *Book) deleteAllRecords(ctx context.Context, name string, until time.Time) error {
	for {
		page, err := b.store.Records(ctx, rouse.RecordQuery{Namespace: name, Limit: recordPage})
		if err != nil {
			return rouse.Unavailable(err)
		}
		if len(page.Records) == 0 {
			return nil
		}
		deleted := map[string]bool{}
		for i := range page.Records {
			timer := page.Records[i].Name
			if deleted[timer] {
				continue
			}
			if time.Now().After(until) {
				return errMoreLeft(name, "records")
			}
			if _, err := b.store.TrimTimer(ctx, name, timer, 0); err != nil {
				return rouse.Unavailable(err)
			}
			deleted[timer] = true
		}
	}
}

// deleteLeft deletes the notes in a namespace without timers: jobs, which have nothing to do, and notes of
// requests with an Idempotency-Key that were carried out. The next namespace with the name would answer such
// a request as this one did. A note that becomes the record of an attempt under way stays.
func (b *Book) deleteLeft(ctx context.Context, name string, until time.Time) error {
	q := rouse.Query{Namespace: name, States: []rouse.State{rouse.StateNote}, Limit: leftPage}
	for {
		page, err := b.store.List(ctx, q)
		if err != nil {
			return rouse.Unavailable(err)
		}
		var changes []rouse.Change
		for i := range page.Rows {
			if key := page.Rows[i].Key; isLeft(key) {
				changes = append(changes, rouse.Change{Key: key, If: page.Rows[i].Revision})
			}
		}
		if len(changes) > 0 && time.Now().After(until) {
			return errMoreLeft(name, "jobs and Idempotency-Keys")
		}
		if len(changes) > 0 {
			if _, err := b.store.Apply(ctx, changes); err != nil {
				return rouse.Unavailable(err)
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

// isLeft reports whether a key is of a row that a request has left.
func isLeft(key rouse.Key) bool {
	return rouse.IsJob(key) || strings.HasPrefix(key.Name, access.NoteName) || strings.HasSuffix(key.Fire, access.MarkFire)
}

// requireNothingLeft refuses to delete a namespace that has something which the next one of its name would
// find.
func (b *Book) requireNothingLeft(ctx context.Context, name string) error {
	page, err := b.store.List(ctx, rouse.CalendarQuery(name, 1))
	switch {
	case err != nil:
		return rouse.Unavailable(err)
	case len(page.Rows) > 0:
		return fmt.Errorf("namespace %q has calendars; delete them first: %w", name, rouse.ErrConflict)
	case b.opts.Secrets != nil && b.opts.Secrets(name) > 0:
		return fmt.Errorf("namespace %q has secrets; delete them first: %w", name, rouse.ErrConflict)
	case b.opts.Limits != nil && b.opts.Limits(name) > 0:
		return fmt.Errorf("namespace %q has limits; delete them first: %w", name, rouse.ErrConflict)
	}
	return nil
}

// readUsage reads how much of its quotas a namespace uses. limited: only quotas with a limit are counted.
func (b *Book) readUsage(ctx context.Context, name string, limited bool) (u rouse.Usage, err error) {
	sp := b.findSpace(name)
	if sp == nil {
		return u, nil // it was deleted
	}
	sp.mu.Lock()
	q := sp.is.Quotas
	sp.mu.Unlock()
	for _, c := range []struct {
		to     *int64
		most   int64
		states []rouse.State
	}{{&u.Timers, q.Timers, rouse.ListedStates}, {&u.DeadLetters, q.DeadLetters, []rouse.State{rouse.StateDead}},
		{&u.Overlaps, q.Overlaps, []rouse.State{rouse.StateFiring}}} {
		if limited && c.most == 0 {
			continue
		}
		if *c.to, err = b.store.Count(ctx, rouse.Query{Namespace: name, States: c.states}); err != nil {
			return u, rouse.Unavailable(err)
		}
	}
	if q.PoolGroups > 0 {
		u.PoolGroups = b.shares.totalGroups(name)
	}
	u.Bytes = sp.usedBytes()
	asked := b.shares.totalDemand(name)
	u.Creates, u.Fires, u.Reads = asked[creates], asked[fires], asked[reads]
	return u, nil
}

// Exists reports whether a namespace has been created.
func (b *Book) Exists(namespace string) bool { return b.findSpace(namespace) != nil }

// Writes returns how many of n writes of timers a namespace allows now, and why no more.
func (b *Book) Writes(namespace string, n int) (int, error) {
	sp := b.findSpace(namespace)
	if sp == nil {
		return n, nil
	}
	got, err := sp.takeFromRate(creates, n, time.Now())
	return got, b.countRefusal(err)
}

// Room returns how many more timers, of n, there is room for, and why for no more.
func (b *Book) Room(ctx context.Context, namespace string, n int) (int, error) {
	return b.reserveRoom(ctx, namespace, &timerCount, n)
}

// OverlapRoom returns how many more occurrences next to their timers, of n, there is room for, and why for no
// more.
func (b *Book) OverlapRoom(ctx context.Context, namespace string, n int) (int, error) {
	return b.reserveRoom(ctx, namespace, &overlapCount, n)
}

// TakeUp admits a timer that was written as a draft so long ago.
func (b *Book) TakeUp(ctx context.Context, namespace string, age time.Duration) error {
	sp := b.findSpace(namespace)
	if sp == nil {
		return nil
	}
	return b.countRefusal(sp.takeUp(ctx, b, age))
}

func (b *Book) reserveRoom(ctx context.Context, namespace string, q *countedQuota, n int) (int, error) {
	sp := b.findSpace(namespace)
	if sp == nil || n == 0 {
		return n, nil
	}
	got, err := sp.reserveRows(ctx, b, q, n)
	return got, b.countRefusal(err)
}

// Read admits a request that reads.
func (b *Book) Read(namespace string) error {
	sp := b.findSpace(namespace)
	if sp == nil {
		return nil
	}
	_, err := sp.takeFromRate(reads, 1, time.Now())
	return b.countRefusal(err)
}

// ReadSpans admits a request that reads parts of the namespaces: it is charged to each of them. One whose
// rate of reads is used up refuses it.
func (b *Book) ReadSpans(spans []access.Span) error {
	var refused error
	for _, sp := range b.spacesIn(spans) {
		if _, err := sp.takeFromRate(reads, 1, time.Now()); err != nil && refused == nil {
			refused = b.countRefusal(err)
		}
	}
	return refused
}

// spacesIn returns the namespaces in spans that have been created.
func (b *Book) spacesIn(spans []access.Span) (list []*space) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range spans {
		if !s.Prefix {
			if sp := b.spaces[s.Fixed]; sp != nil {
				list = append(list, sp)
			}
			continue
		}
		for name, sp := range b.spaces {
			if s.Has(name) {
				list = append(list, sp)
			}
		}
	}
	return list
}

// Fit returns how many writes of timers, by how many bytes each adds, there is room for, and why for no more.
func (b *Book) Fit(namespace string, sizes []int64) (int, error) {
	sp := b.findSpace(namespace)
	if sp == nil {
		return len(sizes), nil
	}
	n, err := sp.reserveSizes(sizes)
	return n, b.countRefusal(err)
}

// Refuse returns the error of a request beyond a quota of single timers.
func (b *Book) Refuse(namespace, quota string, limit int64) error {
	return b.countRefusal(quotaExceeded(namespace, quota, strconv.FormatInt(limit, 10), countAgain))
}

// GroupRoom reports whether a namespace may start another group of workers on this node. The groups of the
// others are known within three rounds of shares, so that a node takes a third of its part of the room in
// each, and at least one.
func (b *Book) GroupRoom(namespace string) bool {
	sp := b.findSpace(namespace)
	if sp == nil {
		return true
	}
	sp.mu.Lock()
	most, nodes, began := sp.is.Quotas.PoolGroups, int64(max(1, sp.nodes)), sp.groups
	sp.mu.Unlock()
	if most == 0 {
		return true
	}
	mine, others := b.shares.groupsOf(namespace)
	part := most
	if nodes > 1 {
		part = max(1, (most-others-began)/(3*nodes))
	}
	return mine+others < most && mine-began < part
}

// Of returns the quotas of a namespace as this node enforces them: rates and deliveries are its shares.
func (b *Book) Of(namespace string) rouse.Quotas {
	sp := b.findSpace(namespace)
	if sp == nil {
		return rouse.Quotas{}
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	q := sp.is.Quotas
	q.Creates, q.Fires, q.Reads, q.Deliveries = sp.rate[creates], sp.rate[fires], sp.rate[reads], sp.deliveryShare()
	return q
}

// Nodes returns how many nodes share the quotas, as far as this one knows.
func (b *Book) Nodes() int { return b.shares.liveNodes() }

// countRefusal counts a refusal.
func (b *Book) countRefusal(err error) error {
	if q, ok := errors.AsType[*rouse.QuotaError](err); ok {
		b.opts.Refused(q.Namespace, q.Quota)
	}
	return err
}
