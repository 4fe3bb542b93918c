// Package timers has the operations on timers, with all their checks: create, replace, delete, pause, skip,
// import, bulk changes, backfill, preview, explain. All servers call these, so that the same input has the
// same verdict through every API. The engine fires what they write.
package timers

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// Options are those of the operations, and of the engine that fires the timers. Schedules, Read and Delete of the engine are set by New.
type Options struct {
	Engine engine.Options

	// Compile turns what a spec contains about when into due times. It is pure. Required.
	Compile schedulecache.Compile
	// Spec reads the JSON of a draft's spec (rouse.DraftRow). Nil refuses drafts.
	Spec func(json []byte) (rouse.Spec, error)
	// MinInterval refuses timers that come due more often. Default: the minimum of schedules, a millisecond.
	MinInterval time.Duration
	// AnyInterval are the beginnings of targets whose timers MinInterval does not bind.
	AnyInterval []string
}

// Timers is an engine with the operations of clients. It is safe for concurrent use. Its methods that write
// need Run.
type Timers struct {
	*engine.Engine
	store     rouse.Store
	sink      rouse.Sink
	schedules *schedulecache.Cache
	opts      Options
}

// New returns the timers of a store. They do nothing until Run.
func New(store rouse.Store, strategy rouse.Strategy, sink rouse.Sink, o Options) *Timers {
	o.Engine.Buckets = max(o.Engine.Buckets, 1)
	available := engine.Available(store)
	ts := &Timers{store: available, sink: sink, schedules: schedulecache.New(o.Compile, available, o.Engine.Shared), opts: o}
	o.Engine.Schedules, o.Engine.Read = ts.schedules, ts.Read
	o.Engine.Delete = func(ctx context.Context, key rouse.Key) error {
		_, err := ts.Delete(ctx, key, 0)
		return err
	}
	ts.Engine = engine.New(store, strategy, sink, o.Engine)
	return ts
}
