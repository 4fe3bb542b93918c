// Package limit keeps the named limits of namespaces (rouse.Limit), which the engines of all nodes obey.
//
//	operation ─► Book.Put, Pause, Reset, Delete ─► a note that the nodes share ─► Book.Limit of every node ─► engine
package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/note"
)

// Options configure a Book.
type Options struct {
	Access *access.Control                                  // nil: it is off
	Now    func(ctx context.Context) (rouse.Instant, error) // the store's clock
	// Unable is why the nodes of the store cannot count together; "" if they can.
	Unable func() string
	Alone  func() bool // no other node uses the store
	Log    *slog.Logger
	// Share returns this node's share of a limit of a target: how many may be in progress, if it has a
	// concurrency, and the part of its rate, 0 to 1. Nil is all of it.
	Share func(l *rouse.Limit) (most int, part float64)
}

// Book has the limits of a store as this node knows them. It is safe for concurrent use.
type Book struct {
	opts    Options
	kind    *access.Kind
	version atomic.Uint64
	holds   atomic.Uint64

	unknown chan string // names of notes that Run is to read

	mu     sync.RWMutex
	limits map[string]rouse.Limit // by the names of the notes
	count  map[string]int         // of each namespace
	target map[string]int         // of each namespace: those of targets
	absent map[string]time.Time   // names of notes that were read and are not there, until when that counts
}

const (
	// absentFor is how long a limit that timers name, and that does not exist, is not looked for again.
	absentFor = 5 * time.Second
	// maxAbsent bounds how many of them are remembered, and maxUnknown how many wait to be looked for.
	maxAbsent  = 10_000
	maxUnknown = 1_000
	// lookAgain is the pause before limits are looked for again after the store did not answer.
	lookAgain = time.Second
)

// New returns the limits of a store. It is empty until shared is loaded.
func New(shared *access.Shared, o Options) *Book {
	b := &Book{opts: o, limits: map[string]rouse.Limit{}, count: map[string]int{}, target: map[string]int{},
		absent:  map[string]time.Time{},
		unknown: make(chan string, maxUnknown)}
	b.kind = shared.Kind("limit", b.applyNote)
	b.kind.Quick()
	return b
}

// stored is a limit as a note.
type stored struct {
	Concurrency int             `json:"concurrency,omitzero"`
	Rate        rouse.LimitRate `json:"rate,omitzero"`
	PerKey      bool            `json:"per_key,omitzero"`
	Order       string          `json:"order,omitzero"`
	Paused      bool            `json:"paused,omitzero"`
	Updated     rouse.Instant   `json:"updated"`
	Reset       rouse.Instant   `json:"reset,omitzero"`
}

// applyTo sets the fields of a limit.
func (s *stored) applyTo(l *rouse.Limit) {
	l.Concurrency, l.Rate, l.PerKey, l.Order = s.Concurrency, s.Rate, s.PerKey, s.Order
	l.Paused, l.Updated, l.Reset = s.Paused, s.Updated, s.Reset
}

func noteName(namespace, name string) string { return namespace + "/" + name }

// applyNote takes a limit that is new, has changed, or is gone.
func (b *Book) applyNote(n note.Note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.version.Add(1)
	namespace, name, _ := strings.Cut(n.Name, "/")
	was, had := b.limits[n.Name]
	counts := []map[string]int{b.count}
	if rouse.IsTargetLimit(name) {
		counts = append(counts, b.target)
	}
	if n.Revision == 0 {
		delete(b.limits, n.Name)
		for _, count := range counts {
			if count[namespace]--; !had || count[namespace] <= 0 {
				delete(count, namespace)
			}
		}
		return
	}
	var s stored
	if err := n.Read(&s); err != nil { // of a later version: what was read before stays
		b.opts.Log.Error("a limit cannot be read", "namespace", namespace, "limit", name, "err", err)
		return
	}
	l := rouse.Limit{Namespace: namespace, Name: name, Revision: n.Revision}
	s.applyTo(&l)
	b.limits[n.Name] = l
	if !had {
		for _, count := range counts {
			count[namespace]++
		}
	}
	if rouse.IsTargetLimit(name) && (!had || l.Paused && !was.Paused) {
		b.holds.Add(1)
	}
}

// Limit returns a limit as this node knows it; the zero Limit, which bounds nothing, if it does not exist.
// known is false if another node may just have made it: it is looked for, and Version tells when it is known.
func (b *Book) Limit(namespace, name string) (l rouse.Limit, known bool) {
	place := noteName(namespace, name)
	b.mu.RLock()
	l, known = b.limits[place]
	until := b.absent[place]
	b.mu.RUnlock()
	if known || rouse.IsTargetLimit(name) || b.opts.Alone() || time.Now().Before(until) {
		return l, true
	}
	select {
	case b.unknown <- place:
	default: // the next row that names it asks again
	}
	return l, false
}

// HasTargets reports whether a namespace has limits of targets, which apply to timers that do not name them.
func (b *Book) HasTargets(namespace string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.target[namespace] > 0
}

// Targets returns the limits of targets of all namespaces.
func (b *Book) Targets() (list []rouse.Limit) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.target) == 0 {
		return nil
	}
	for _, l := range b.limits {
		if rouse.IsTargetLimit(l.Name) {
			list = append(list, l)
		}
	}
	return list
}

// Share returns this node's share of a limit of a target. See Options.Share.
func (b *Book) Share(namespace, name string) (most int, part float64) {
	l := b.findLimit(namespace, name)
	if b.opts.Share == nil {
		return l.Concurrency, 1
	}
	return b.opts.Share(&l)
}

// Divided notes that Share may return another share.
func (b *Book) Divided() { b.version.Add(1) }

// Holds changes when a limit of a target is made, or paused.
func (b *Book) Holds() uint64 { return b.holds.Load() }

// Run looks for limits that timers name, and that this node does not know, until ctx ends.
func (b *Book) Run(ctx context.Context) {
	for {
		var names []string
		select {
		case <-ctx.Done():
			return
		case name := <-b.unknown:
			names = append(names, name)
		}
		for len(b.unknown) > 0 {
			names = append(names, <-b.unknown)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for b.kind.Refresh(ctx, names...) != nil {
			if !backoff.Sleep(ctx, lookAgain) {
				return
			}
		}
		b.noteAbsent(names)
	}
}

// noteAbsent notes which limits do not exist, of those that were read just now.
func (b *Book) noteAbsent(names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.absent)+len(names) > maxAbsent {
		clear(b.absent)
	}
	for _, name := range names {
		if _, ok := b.limits[name]; !ok {
			b.absent[name] = time.Now().Add(absentFor)
		}
	}
	b.version.Add(1)
}

// Version changes with every change of a limit that this node sees.
func (b *Book) Version() uint64 { return b.version.Load() }

// Count returns how many limits a namespace has.
func (b *Book) Count(namespace string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.count[namespace]
}

// Put creates or replaces a limit; revision is the one that it must have, rouse.NoRow or rouse.AnyRevision.
// One that exists keeps its PerKey, as timers are placed by it, and stays paused until Pause resumes it.
// Nodes obey a change within a second.
func (b *Book) Put(ctx context.Context, l rouse.Limit, revision uint64) (rouse.Limit, error) {
	if err := l.Check(); err != nil {
		return rouse.Limit{}, err
	}
	if err := b.opts.Access.Require(ctx, access.LimitsWrite, l.Namespace, "", nil); err != nil {
		return rouse.Limit{}, err
	}
	if why := b.opts.Unable(); why != "" && !rouse.IsTargetLimit(l.Name) {
		return rouse.Limit{}, rouse.Refuse("limit", l.Name, "cannot be counted: "+why,
			"use strategy bucket, by which one node has all timers that count together")
	}
	return b.changeLimit(ctx, l.Namespace, l.Name, revision, func(is *rouse.Limit) (err error) {
		if is.Revision != 0 {
			*is, err = l.Replacing(*is)
			return err
		}
		*is = l
		return b.refuseIfFull(l.Namespace)
	})
}

func (b *Book) refuseIfFull(namespace string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case b.count[namespace] >= rouse.MaxLimits:
		return fmt.Errorf("namespace %q has %d limits, which is all that it may have: %w", namespace, rouse.MaxLimits,
			rouse.ErrFull)
	case len(b.limits) >= rouse.MaxLimitsOfStore:
		return fmt.Errorf("there are %d limits, which is all that there may be: %w", rouse.MaxLimitsOfStore, rouse.ErrFull)
	}
	return nil
}

// Pause pauses a limit, so that no occurrence of its timers begins, or resumes it.
func (b *Book) Pause(ctx context.Context, namespace, name string, paused bool) (rouse.Limit, error) {
	if err := b.requireLimit(ctx, access.LimitsWrite, namespace, name); err != nil {
		return rouse.Limit{}, err
	}
	return b.changeLimit(ctx, namespace, name, rouse.AnyRevision, func(is *rouse.Limit) error {
		if is.Revision == 0 {
			return errNoLimit(namespace, name)
		}
		is.Paused = paused
		return nil
	})
}

// Reset gives the rate of a limit its whole burst again, for each of its keys. Occurrences in progress still
// count. Nodes obey it within a second.
func (b *Book) Reset(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	if err := b.requireLimit(ctx, access.LimitsWrite, namespace, name); err != nil {
		return rouse.Limit{}, err
	}
	now, err := b.opts.Now(ctx)
	if err != nil {
		return rouse.Limit{}, rouse.Unavailable(err)
	}
	return b.changeLimit(ctx, namespace, name, rouse.AnyRevision, func(is *rouse.Limit) error {
		switch {
		case is.Revision == 0:
			return errNoLimit(namespace, name)
		case is.Rate.Count == 0:
			return rouse.Refuse("rate", "", "is missing: limit "+name+" has none to reset", "set a rate: rouse limit set --rate")
		}
		is.Reset = max(now, is.Reset+1) // a clock that stands still has no other time
		return nil
	})
}

// Delete deletes a limit. Its timers have none then: those that wait begin.
func (b *Book) Delete(ctx context.Context, namespace, name string) error {
	if err := b.requireLimit(ctx, access.LimitsWrite, namespace, name); err != nil {
		return err
	}
	is, err := b.readLimit(ctx, namespace, name)
	switch {
	case err != nil:
		return err
	case is.Revision == 0:
		return errNoLimit(namespace, name)
	}
	return b.kind.Write(ctx, access.Change{Name: noteName(namespace, name), If: is.Revision})
}

// Get returns a limit.
func (b *Book) Get(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	if err := b.requireLimit(ctx, access.LimitsRead, namespace, name); err != nil {
		return rouse.Limit{}, err
	}
	is, err := b.readLimit(ctx, namespace, name)
	if err == nil && is.Revision == 0 {
		err = errNoLimit(namespace, name)
	}
	return is, err
}

// List returns the limits of a namespace whose names come after one, in their order, at most so many.
func (b *Book) List(ctx context.Context, namespace, after string, most int) (list []rouse.Limit, err error) {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	if err := b.opts.Access.Require(ctx, access.LimitsRead, namespace, "", nil); err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, place := range slices.Sorted(maps.Keys(b.limits)) {
		if l := b.limits[place]; l.Namespace == namespace && l.Name > after && len(list) < most {
			list = append(list, l)
		}
	}
	return list, nil
}

// CheckUse refuses a spec whose limit its namespace does not have, or that does not go with it.
func (b *Book) CheckUse(ctx context.Context, namespace string, s *rouse.Spec) error {
	if s.Limit == "" {
		return nil
	}
	l := b.findLimit(namespace, s.Limit)
	if l.Revision == 0 { // another node may just have made it
		if err := b.kind.Refresh(ctx, noteName(namespace, s.Limit)); err != nil {
			return err
		}
		l = b.findLimit(namespace, s.Limit)
	}
	if l.Revision == 0 {
		return rouse.Refuse("limit", s.Limit, "does not exist in namespace "+namespace, "make it with rouse limit set")
	}
	return l.CheckUse(s)
}

func (b *Book) findLimit(namespace, name string) rouse.Limit {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.limits[noteName(namespace, name)]
}

// requireLimit checks the name of a limit, and the right of the caller.
func (b *Book) requireLimit(ctx context.Context, verb access.Verb, namespace, name string) error {
	return cmp.Or(rouse.CheckNamespace(namespace), rouse.CheckLimitName("name", name),
		b.opts.Access.Require(ctx, verb, namespace, "", nil))
}

func errNoLimit(namespace, name string) error {
	return fmt.Errorf("limit %q does not exist in namespace %q; rouse limit lists those that do, and rouse limit set makes one: %w",
		name, namespace, rouse.ErrNotFound)
}

// readLimit reads a limit from the store; its Revision is 0 if there is none.
func (b *Book) readLimit(ctx context.Context, namespace, name string) (rouse.Limit, error) {
	notes, err := b.kind.Get(ctx, noteName(namespace, name))
	if err != nil {
		return rouse.Limit{}, rouse.Unavailable(err)
	}
	l := rouse.Limit{Namespace: namespace, Name: name, Revision: notes[0].Revision}
	var s stored
	if err := notes[0].Read(&s); err != nil {
		return rouse.Limit{}, err
	}
	s.applyTo(&l)
	return l, nil
}

// changeAgain is how often a change that met another one is made again.
const changeAgain = 5

// changeLimit writes a limit as change makes it of what is stored. What stays as it is is not written.
func (b *Book) changeLimit(ctx context.Context, namespace, name string, revision uint64,
	change func(is *rouse.Limit) error) (rouse.Limit, error) {
	for try := 0; ; try++ {
		is, err := b.readLimit(ctx, namespace, name)
		if err != nil {
			return is, err
		}
		was := is
		if err := change(&is); err != nil {
			return is, err
		}
		is.Revision, is.Updated = was.Revision, was.Updated
		matches := revision == rouse.AnyRevision || revision == was.Revision
		if matches && was.Revision != 0 && is == was {
			return is, nil
		}
		if !matches {
			return is, errConflict(namespace, name)
		}
		if is.Updated, err = b.opts.Now(ctx); err != nil {
			return is, rouse.Unavailable(err)
		}
		err = b.kind.Write(ctx, access.Change{Name: noteName(namespace, name), If: was.Revision,
			Value: stored{is.Concurrency, is.Rate, is.PerKey, is.Order, is.Paused, is.Updated,
				is.Reset}})
		switch {
		case errors.Is(err, rouse.ErrConflict) && revision == rouse.AnyRevision && try < changeAgain:
			continue
		case errors.Is(err, rouse.ErrConflict):
			return is, errConflict(namespace, name)
		case err != nil:
			return is, err
		}
		return b.readLimit(ctx, namespace, name)
	}
}

func errConflict(namespace, name string) error {
	return fmt.Errorf("limit %q of namespace %q: it was changed, or exists: %w", name, namespace, rouse.ErrConflict)
}
