// Package timers has the operations on timers, with all their checks: create, replace, delete, pause, skip,
// import, bulk changes, backfill, preview, explain. All servers call these, so that the same input has the
// same verdict through every API. The engine fires the timers that they write.
package timers

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/schedulecache"
	"github.com/rousehq/rouse/internal/scratch"
)

// Options are those of the operations, and of the engine that fires the timers. Schedules, Read and Delete of
// the engine are set by New.
type Options struct {
	Engine engine.Options

	// Compile turns the schedule of a spec into due times. It is pure. Required.
	Compile schedulecache.Compile
	// Zones are the rules that Compile uses. Without them their changes are not noticed.
	Zones Zones
	// Spec reads the JSON of a draft's spec (rouse.DraftRow). Nil refuses drafts.
	Spec func(json []byte) (rouse.Spec, error)
	// MinInterval refuses timers that come due more often. Default: the minimum of schedules, a millisecond.
	MinInterval time.Duration
	// MaxTimeout refuses timers whose attempts may take longer, in namespaces without a quota of it. Default:
	// the limit of specs, an hour.
	MaxTimeout time.Duration
	// Check refuses specs that need something that a namespace lacks, such as a secret; nil refuses none.
	Check func(ctx context.Context, namespace string, spec *rouse.Spec) error
	// AnyInterval are the beginnings of targets whose timers MinInterval does not bind.
	AnyInterval []string
	// Quotas of namespaces; nil: there are none.
	Quotas Quotas
	// Audit gets an event for each page of a job that changes something; nil: there is no log.
	Audit *audit.Log
	// Access has the rights of callers; nil: they may do everything.
	Access *access.Control
}

// Timers is an engine with the operations of clients. It is safe for concurrent use. Its methods that write
// need Run.
type Timers struct {
	*engine.Engine
	visibility
	sink      rouse.Sink
	Clock     *HighClock
	withheld  func(*rouse.Spec) string // rouse.Withholding
	schedules *schedulecache.Cache
	opts      Options
	writings  *scratch.Slices[writing] // of creates that are being written
	lines     *callLines               // of coalesced calls that wait
	zones     *zoneState

	match func(ctx context.Context, t *rouse.Timer) bool // edits change only such rows; nil: all
}

// New returns the timers of a store. They do nothing until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Timers {
	o.Engine.Buckets = max(o.Engine.Buckets, 1)
	available := engine.Available(store)
	ts := &Timers{
		sink:      sink,
		schedules: schedulecache.New(o.Compile, available, o.Engine.Shared),
		visibility: visibility{
			store:     available,
			access:    o.Access,
			admission: admission{o.Quotas, available, o.MinInterval, o.MaxTimeout, o.hasExplicitNamespaces()},
		},
		writings: new(scratch.Slices[writing]),
		lines:    new(callLines),
		opts:     o,
		zones:    new(zoneState),
	}
	ts.read, ts.withheld = ts.Read, func(*rouse.Spec) string { return "" }
	if w, ok := store.(rouse.Withholding); ok {
		ts.withheld = w.Withheld
	}
	if o.Quotas != nil {
		o.Engine.Quotas, o.Engine.Nodes = o.Quotas.Of, o.Quotas.Nodes
	}
	o.Engine.Schedules, o.Engine.Read, o.Engine.TakeUp = ts.schedules, ts.Read, ts.TakeUp
	o.Engine.Delete = func(ctx context.Context, key rouse.Key, generation uint64) error {
		return deleteGone(ctx, ts.Unguarded(), key, generation)
	}
	o.Engine.Attend = working{ts}.attendRows
	ts.Engine = engine.New(store, strategy, sink, o.Engine)
	ts.Clock = &HighClock{store: available, latest: ts.Engine.Latest}
	return ts
}

// hasExplicitNamespaces reports whether timers are written only in namespaces that have been created.
func (o *Options) hasExplicitNamespaces() bool { return o.Access != nil && o.Quotas != nil }

// Guarded are timers whose operations check, by Options.Access, the rights of the caller in the context.
// Doors take no others; only Timers.Guarded makes them.
type Guarded struct{ *guarded }

// guarded keeps other packages from making a Guarded of timers without access control.
type guarded = Timers

// DecidesByCaller distinguishes Guarded from Timers, which may have no access control.
func (Guarded) DecidesByCaller() {}

// Guarded returns the same timers for doors that put the caller's principal into the context.
func (ts *Timers) Guarded() Guarded {
	own := *ts
	own.access, own.admission.explicit = ts.opts.Access, ts.opts.hasExplicitNamespaces()
	return Guarded{&own}
}

// Unguarded returns the same timers for parts that act for rouse itself, for services that check the rights
// of their callers by themselves, and for the program that has the node: they may do everything.
func (ts *Timers) Unguarded() *Timers {
	own := *ts
	own.access, own.admission.explicit = nil, false
	return &own
}

// withMatch returns the same timers, whose edits leave a row as it is, with errNoMatch, unless match accepts
// the version that they change.
func (ts *Timers) withMatch(match func(ctx context.Context, t *rouse.Timer) bool) *Timers {
	own := *ts
	own.match = match
	return &own
}

// errNoMatch is of a row that was selected, and has changed since so that it no longer is.
var errNoMatch = errors.New("it no longer matches")
