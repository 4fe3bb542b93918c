package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// Replaced is a store whose server can lose the store's data while it is open.
type Replaced struct {
	Store rouse.Shared
	Lose  func() // removes the data, as if the server had come back empty
	Back  func() // brings it back
	Other func() // makes another store in its place; nil if the server cannot have one

	Again func() rouse.Shared // opens the store as another node
	Save  func()              // makes a copy of the data
	Older func()              // replaces the data by the copy
}

// RunReplaced tests that a store whose data is gone is not served, as the contract of rouse.Shared demands of
// one that is a rouse.Checked. open returns an empty store; RunReplaced closes it.
func RunReplaced(t *testing.T, open func(t *testing.T) Replaced) {
	for name, other := range map[string]bool{"that comes back empty": false, "that comes back as another one": true} {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			closeLater(t, r.Store)
			b := &bench{T: t, Store: r.Store}
			old := b.mustCreate(dueRow("a", 0), dueRow("b", 1))
			token := b.mustClaim(rouse.Window{}).Token
			if other && r.Other == nil {
				t.Skip("the server has no place for another one")
			}
			r.Lose()
			if other {
				r.Other()
			}
			b.refusesAll(r.Store, old[0], token)
			checked, ok := r.Store.(rouse.Checked)
			if !ok || !errors.Is(checked.Corrupted(), rouse.ErrCorrupt) {
				t.Error("the store does not report that its data is gone")
			}
			if other {
				return
			}
			r.Back()
			b.checkSameRows("the rows that are back", b.mustList(rouse.Query{}), old)
			b.mustCreate(dueRow("c", 2))
			if ok && checked.Corrupted() != nil {
				t.Errorf("its data is back: %v", checked.Corrupted())
			}
		})
	}
}

// RunOlder tests that a row that is there again in a store that went back to an older state, after a failover
// or from a copy, is found by nodes that had read it before: a claim since a token has it, or returns it as
// missing, so that it is read again. Revisions do not go back.
func RunOlder(t *testing.T, open func(t *testing.T) Replaced) {
	for name, other := range map[string]bool{"and is read": false, "and another node writes first": true} {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			closeLater(t, r.Store)
			second := r.Again()
			closeLater(t, second)
			b := &bench{T: t, Store: r.Store}
			old := b.mustCreate(dueRow("a", 0), dueRow("b", 1))
			r.Save()
			b.mustApply(rouse.Change{Key: old[0].Key, If: old[0].Revision})
			last := b.mustCreate(dueRow("c", 2))[0]
			token := b.mustClaim(rouse.Window{}).Token
			if _, err := second.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1}); err != nil {
				t.Fatal(err)
			}
			r.Older()
			if other {
				if rows := (&bench{T: t, Store: second}).mustCreate(dueRow("d", 3)); rows[0].Revision <= last.Revision {
					t.Errorf("revision %d after %d", rows[0].Revision, last.Revision)
				}
			}
			again := func(rows []rouse.Row) bool {
				return slices.ContainsFunc(rows, func(r rouse.Row) bool { return r.Key == old[0].Key })
			}
			if batch := b.mustClaim(rouse.Window{Since: token}); !again(batch.Rows) && len(batch.Missing) == 0 {
				t.Error("a row that is there again is neither found nor reported as missing")
			}
			if batch := b.mustClaim(rouse.Window{}); !again(batch.Rows) {
				t.Error("a row that is there again is not found")
			}
			if !poll.Holds(poll.Patience, func() bool { return len(b.mustClaim(rouse.Window{}).Missing) == 0 }) {
				t.Error("it is missing for ever")
			}
			if rows := b.mustCreate(dueRow("e", 4)); rows[0].Revision <= last.Revision {
				t.Errorf("revision %d after %d", rows[0].Revision, last.Revision)
			}
		})
	}
}

// refusesAll calls all operations.
func (b *bench) refusesAll(s rouse.Shared, known rouse.Row, token uint64) {
	b.Helper()
	fresh := dueRow("new", 0)
	fresh.Due = rouse.Reached(time.Now().Add(time.Hour))
	apply := func(ctx context.Context, c rouse.Change) error {
		_, err := s.Apply(ctx, []rouse.Change{c})
		return err
	}
	claim := func(ctx context.Context, w rouse.Window) error {
		w.Buckets, w.Limit = []uint32{0}, 10
		_, err := s.Claim(ctx, w)
		return err
	}
	ns, name := known.Key.Namespace, known.Key.Name
	for what, call := range map[string]func(ctx context.Context) error{
		"a create": func(ctx context.Context) error { return apply(ctx, rouse.Change{Key: fresh.Key, To: &fresh}) },
		"a write": func(ctx context.Context) error {
			return apply(ctx, rouse.Change{Key: known.Key, If: rouse.AnyRevision, To: &fresh})
		},
		"a removal": func(ctx context.Context) error {
			return apply(ctx,
				rouse.Change{Key: known.Key, If: known.Revision})
		},
		"a read":       func(ctx context.Context) error { return claim(ctx, rouse.Window{}) },
		"a hold":       func(ctx context.Context) error { return claim(ctx, rouse.Window{Hold: time.Second}) },
		"a read since": func(ctx context.Context) error { return claim(ctx, rouse.Window{Since: max(token, 1)}) },
		"the clock":    func(ctx context.Context) error { _, err := s.Now(ctx); return err },
		"get":          func(ctx context.Context) error { _, err := s.Get(ctx, []rouse.Key{known.Key}); return err },
		"revisions":    func(ctx context.Context) error { _, err := s.Revisions(ctx, []rouse.Key{known.Key}); return err },
		"list":         func(ctx context.Context) error { _, err := s.List(ctx, rouse.Query{Limit: 10}); return err },
		"count":        func(ctx context.Context) error { _, err := s.Count(ctx, rouse.Query{}); return err },
		"count of some": func(ctx context.Context) error {
			_, err := s.Count(ctx, rouse.Query{Namespace: ns, Prefix: "a"})
			return err
		},
		"records": func(ctx context.Context) error {
			_, err := s.Records(ctx, rouse.RecordQuery{Namespace: ns, Limit: 10})
			return err
		},
		"record namespaces": func(ctx context.Context) error { _, err := s.RecordNamespaces(ctx); return err },
		"trim": func(ctx context.Context) error {
			_,
				err := s.Trim(ctx, rouse.Reached(time.Now()), 1)
			return err
		},
		"trim of a timer": func(ctx context.Context) error { _, err := s.TrimTimer(ctx, ns, name, 1); return err },
		"lock": func(ctx context.Context) error {
			_, err := s.Lock(ctx, "me", time.Second, []rouse.Want{{Name: "l"}})
			return err
		},
		"leases": func(ctx context.Context) error { _, _, err := s.Leases(ctx, ""); return err },
	} {
		if err := call(b.Context()); !errors.Is(err, rouse.ErrCorrupt) {
			b.Errorf("%s of a store whose data is gone: %v", what, err)
		}
	}
}
