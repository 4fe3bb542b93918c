package node

import (
	"context"
	"errors"
	"iter"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
)

// The methods of this file are about the timers of one namespace, by their names. Their errors are those of
// package rouse: a *rouse.Invalid for wrong arguments, rouse.ErrNotFound, ErrExists, ErrConflict and
// their like. They may be called as soon as the node is open; those that write return when it is durable.

func (n *Node) keyInNamespace(name string) rouse.Key {
	return rouse.Key{Namespace: n.cfg.Namespace, Name: name}
}

// Create makes a timer, and refuses a name that is taken with rouse.ErrExists: a program that makes its
// timers each time that it starts takes that for success.
func (n *Node) Create(ctx context.Context, name string, spec rouse.Spec) (rouse.Timer, error) {
	return n.putSingleTimer(ctx, timers.Put{Key: n.keyInNamespace(name), Spec: spec})
}

// Replace creates a timer, or starts a new generation of the existing one of that name: its intervals start
// again, and the old generation no longer fires.
func (n *Node) Replace(ctx context.Context, name string, spec rouse.Spec) (rouse.Timer, error) {
	return n.putSingleTimer(ctx, timers.Put{Key: n.keyInNamespace(name), Spec: spec, Mode: timers.CreateOrReplace})
}

func (n *Node) putSingleTimer(ctx context.Context, p timers.Put) (rouse.Timer, error) {
	results, err := n.timers.Put(ctx, []timers.Put{p})
	if err != nil {
		return rouse.Timer{}, err
	}
	return results[0].Timer, results[0].Err
}

// Get returns a timer.
func (n *Node) Get(ctx context.Context, name string) (rouse.Timer, error) {
	return n.timers.Get(ctx, n.keyInNamespace(name))
}

// pageSize is how many timers or records are read at a time.
const pageSize = 500

// List returns the timers of the namespace that a query matches, in the order of the query, as they are read
// page by page. The query's Namespace and After are not used, and a Limit that is not 0 ends the list
// there. An error ends it as well.
func (n *Node) List(ctx context.Context, q rouse.Query) iter.Seq2[rouse.Timer, error] {
	return func(yield func(rouse.Timer, error) bool) {
		q := q
		q.Namespace, q.After, q.AfterAt = n.cfg.Namespace, rouse.Key{}, 0
		for left := q.Limit; ; {
			if q.Limit = pageSize; left > 0 {
				q.Limit = min(left, pageSize)
			}
			page, err := n.timers.Search(ctx, q)
			if err != nil {
				yield(rouse.Timer{}, err)
				return
			}
			for _, t := range page.Timers {
				if !yield(t, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if page.Next == nil {
				return
			}
			q.After, q.AfterAt = page.Next.Key, page.Next.At
		}
	}
}

// Delete deletes a timer. An attempt that has started may still arrive, which the result reports; none starts
// afterwards.
func (n *Node) Delete(ctx context.Context, name string) (timers.Deleted, error) {
	return n.timers.Delete(ctx, n.keyInNamespace(name), 0)
}

// Pause stops a timer's scheduled occurrences until Resume, or until a time if that is not 0.
func (n *Node) Pause(ctx context.Context, name, reason string, until rouse.Instant) (rouse.Timer, error) {
	return n.timers.Pause(ctx, n.keyInNamespace(name), reason, until)
}

// Resume ends a pause.
func (n *Node) Resume(ctx context.Context, name string) (rouse.Timer, error) {
	return n.timers.Resume(ctx, n.keyInNamespace(name))
}

// RunNow requests a fire now, in addition to the schedule, and returns its id and due time.
func (n *Node) RunNow(ctx context.Context, name string) (fireID string, due rouse.Instant, err error) {
	return n.timers.RunNow(ctx, n.keyInNamespace(name))
}

// Skip gives up the next count occurrences of a timer.
func (n *Node) Skip(ctx context.Context, name string, count uint32, reason string) (rouse.Timer, error) {
	return n.timers.Skip(ctx, n.keyInNamespace(name), count, reason)
}

// Reschedule replaces the parts of a timer's spec that decide when it fires by those of when, and keeps the
// rest. A new generation starts.
func (n *Node) Reschedule(ctx context.Context, name string, when rouse.Spec) (rouse.Timer, error) {
	r, err := n.timers.Reschedule(ctx, n.keyInNamespace(name), when, 0, false)
	return r.Timer, errors.Join(err, r.Err)
}

// Explain reports why a timer did or did not fire, and what comes next; with at, it explains the occurrence
// of that time.
func (n *Node) Explain(ctx context.Context, name string, at rouse.Instant) (timers.Explanation, error) {
	return n.timers.Explain(ctx, n.keyInNamespace(name), at)
}

// Simulate returns the fires, in a range of time, of the timers of the namespace that a query matches, at
// most limit fires. Nothing is changed.
func (n *Node) Simulate(ctx context.Context, q rouse.Query, from, until rouse.Instant,
	limit int) (timers.Simulated, error) {
	q.Namespace = n.cfg.Namespace
	return n.timers.Simulate(ctx, q, from, until, limit)
}

// DeadLetters returns the fires of a timer that ran out of attempts, each as a row next to it whose Key.Fire
// is the fire's id; an empty name selects those of all timers.
func (n *Node) DeadLetters(ctx context.Context, name string) iter.Seq2[rouse.Timer, error] {
	return n.List(ctx, rouse.Query{Name: name, States: []rouse.State{rouse.StateDead}})
}

// Redrive gives a dead letter a new set of attempts, with the same fire id, and returns the target that it
// goes to. With currentSpec, it takes the target, payload, headers and policies that its timer has now.
func (n *Node) Redrive(ctx context.Context, name, fireID string, currentSpec bool) (target string, err error) {
	key := n.keyInNamespace(name)
	key.Fire = fireID
	return n.timers.Redrive(ctx, key, currentSpec)
}

// Records returns how the occurrences of a timer ended, newest first, as they are read page by page; an empty
// name asks for those of all timers. An error ends the list.
func (n *Node) Records(ctx context.Context, name string) iter.Seq2[rouse.Record, error] {
	return func(yield func(rouse.Record, error) bool) {
		q := rouse.RecordQuery{Namespace: n.cfg.Namespace, Name: name, Limit: pageSize}
		for {
			page, err := n.timers.Records(ctx, q)
			if err != nil {
				yield(rouse.Record{}, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			q.Until = *page.Next
		}
	}
}

// Follow calls do with records of the namespace as occurrences end, best effort: dropped is how many
// were missed since the last call because do was slow. It returns the error of do or of ctx, or
// rouse.ErrClosed when the node ends.
func (n *Node) Follow(ctx context.Context, do func(records []rouse.Record, dropped uint64) error) error {
	ours := func(r *rouse.Record) bool { return r.Namespace == n.cfg.Namespace }
	return n.timers.Follow(ctx, ours, nil, do)
}
