package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// Options configure an engine. Zero fields have the defaults in their comments.
type Options struct {
	Schedules *schedulecache.Cache // compiled schedules; required

	// Read decodes a row. Default is rouse.DecodeTimer, which refuses drafts (rouse.DraftRow).
	Read func(row *rouse.Row) (rouse.Timer, error)
	// TakeUp is Read for a draft that is about to be written as a timer. After an error it is called again.
	// Default is Read.
	TakeUp func(row *rouse.Row) (rouse.Timer, error)
	// Delete deletes a timer whose target answered Gone to an occurrence of a generation, if the timer still
	// has that generation. Required.
	Delete func(ctx context.Context, key rouse.Key, generation uint64) error
	// Attend decides about expectations (rouse.Timer.Expectation), or about jobs (rouse.Job), that need
	// attention: it returns the step for the row of each. It may change other rows. Required if there are
	// any.
	Attend func(ctx context.Context, rows []rouse.Row) ([]rouse.Step, error)

	// the number of buckets that namespaces and names are hashed to; the same on all nodes of a store;
	// default 1
	Buckets       uint32
	Ahead         time.Duration // how far ahead of now rows are read; default 10 s
	Poll          time.Duration // how often rows are claimed on a shared store, or where rows are held; default 1 s
	MaxRows       int           // in memory; default 250,000
	MaxBytes      int           // of rows in memory; default 256 MiB
	MaxDeliveries int           // running calls of Sink.Deliver; default 4,096
	MaxCommit     int           // changes in one commit; default 4,096
	Queue         int           // changes that wait for a commit; default 16,384
	// how long outcomes may wait for others, to share a commit, and fires, if they are many or the store is
	// shared, to share messages; default 0, not at all
	SettleWait time.Duration
	Grace      time.Duration // how long deliveries may take to end when the engine stops; default 10 s
	RecordAge  time.Duration // how long records are kept; default 72 h
	MaxRecords int64         // how many records are kept; default 10 million
	Events     Events

	// RecordsPerTimer is how many records of one name are kept; up to twice as many may exist for a while.
	// Default 200; negative means no bound.
	RecordsPerTimer int
	// DeadPerTimer is how many dead letters of one timer are kept, the newest ones; ten percent more may
	// exist for a while. Default 1,000; negative means no bound.
	DeadPerTimer int
	// NoticesPerTimer is how many notices and callbacks of a recurring timer may wait for their targets, of
	// which a tenth is for notices; further ones are skipped. Default 1,000; negative means no bound.
	NoticesPerTimer int
	// NoticesPerNamespace is the same of a namespace, which counts other occurrences next to its timers, too.
	// Default 1,000,000.
	NoticesPerNamespace int
	// MaxOverlap is how many occurrences of one timer may be in progress under overlap "allow"; further ones
	// are skipped. Default 1,000; negative means no bound.
	MaxOverlap int
	// DeadAge is how long dead letters are kept; default 30 days; negative means for ever.
	DeadAge time.Duration

	// Limit may change the lane that a sink returns, and merge lanes by giving them one name. It must be
	// cheap and pure. Nil leaves lanes unchanged.
	Limit func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane
	// Limits are the named limits of timers. Nil means that there are none.
	Limits Limits
	// Weight is the share of a namespace relative to others with queued fires: deliveries per turn. Nil means
	// 1 for all.
	Weight func(namespace string) int

	// Reserve is the part of MaxDeliveries, in percent, that one namespace leaves free for others, however
	// many fires it has: see throttle.Share. Default 20; negative means none.
	Reserve int

	// Quotas returns the quotas of a namespace that the engine enforces: Fires and Deliveries, which are this
	// node's shares, Overlaps and DeadLetters. It is called often and must not block. Nil means none.
	Quotas func(namespace string) rouse.Quotas
	// NotifyRules returns the rules of a namespace for notices, as this node knows them. It is called in each
	// settle and must not block. Nil means that there are none.
	NotifyRules func(namespace string) []rouse.NotifyRule
	// Nodes returns how many nodes share the quotas. Nil means one.
	Nodes func() int

	// Direct reads the store's clock each time instead of estimating it between reads. It is for clocks that
	// cost nothing to read, and that stand still or are moved.
	Direct bool

	// Shared means that other nodes may write to the store, which must be a rouse.Shared: revisions are
	// checked once more before fires are sent, and rows that others wrote are read.
	Shared bool
	// Hold is for how long this node hides a row that it keeps without owning its bucket: rows that it wrote
	// for a client and that come due soon, and retries. Default 10 s.
	Hold time.Duration
	// Grain is the position within each 256 ms at which this node ends its holds, 1 to Grains. It differs
	// between the nodes of a store, so that other nodes can find the holds of a dead node (Inherit). 0 picks
	// one at random.
	Grain int
	// Scatter writes client changes without holding them, so that claims spread the rows evenly over the
	// nodes; they are found up to one Poll later.
	Scatter bool
	// ClaimBatch is the maximum number of rows of one claim; default 4,096.
	ClaimBatch int
	// Namespaces are those whose timers this node claims where rows are held; empty means all.
	Namespaces []string
	// Claims are the namespaces that live nodes claim. Nil means all.
	Claims Claims
	// Alone reports whether no other node uses the store now, nor can begin to without this one being told:
	// then this node claims less often than each Poll. Nil means no.
	Alone func() bool
	// Leader reports whether this node does the work that only one node does, such as deleting old records.
	// Nil means yes.
	Leader func() bool

	// Created begins the span of a call that creates or replaces timers, the first of them with this key. Its
	// timers keep the span; end is called when they are durable, or with why they are not. Nil means that
	// there is no tracing.
	Created func(ctx context.Context, key rouse.Key, timers int) (span *rouse.TraceContext, end func(error))

	// Route returns a name for targets whose timers must be fired by one node: their timers are in the bucket
	// of that name instead of their own, and a node that neither owns nor claims that bucket leaves timers
	// that it writes to the node that does. It must be pure, and the same on all nodes of a store. Nil, or
	// false, leaves timers in the buckets of their names.
	Route func(target string) (name string, ok bool)

	// Near is called for each row that begins to wait in memory, with its target and the time at which it
	// needs attention. The engine is locked during the call, so it must be quick and must not call the
	// engine. May be nil.
	Near func(namespace, target string, visible rouse.Instant)

	// Look is the interval of the invariant checks; default 1 min; negative disables them.
	Look time.Duration
}

// Claims are the namespaces that live nodes claim, as far as this node knows.
type Claims interface {
	All() bool                 // every namespace is claimed
	Has(namespace string) bool // this one is
}

func (o Options) withDefaults() Options {
	or := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	span := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	if o.Read == nil {
		o.Read = rouse.DecodeTimer
	}
	if o.Buckets == 0 {
		o.Buckets = 1
	}
	span(&o.Ahead, 10*time.Second)
	span(&o.Poll, time.Second)
	or(&o.MaxRows, 250_000)
	or(&o.MaxBytes, 256<<20)
	or(&o.MaxDeliveries, 4096)
	or(&o.Reserve, 20)
	o.Reserve = max(o.Reserve, 0)
	or(&o.MaxCommit, 4096)
	or(&o.Queue, 16384)
	span(&o.Grace, 10*time.Second)
	span(&o.RecordAge, 72*time.Hour)
	span(&o.DeadAge, 30*24*time.Hour)
	span(&o.Look, time.Minute)
	or(&o.RecordsPerTimer, 200)
	or(&o.DeadPerTimer, 1000)
	or(&o.NoticesPerTimer, 1000)
	or(&o.NoticesPerNamespace, maxNamespaceNotices)
	or(&o.MaxOverlap, 1000)
	span(&o.Hold, 10*time.Second)
	or(&o.ClaimBatch, pageRows)
	if o.MaxRecords == 0 {
		o.MaxRecords = 10_000_000
	}
	return o
}
