// Package keep reads and writes what the reminder service has in the store in addition to its timers: notes, rows that are no timers
// and are never visible.
//
//	tokenBucket||consumed           the generation of what follows: whether anything is new                    (book.go)
//	tokenBucket||apps||orderapp     how far the tokens of an app are put into buckets                          (book.go)
//	tokenBucket||buckets||B3        a token bucket: its range, vector and state                                (book.go)
//	tokenBucket||allocations||B3    the sidecar and the instance of a token bucket                             (book.go)
//	tokenBucket||B3||consumedTill   how far its tokens are given out                                           (tokens.go)
//	tokenBucket||prefixes           the prefix of each app                                                     (prefix.go)
//	instance||10.1.2.3:7411         what an instance reports: connected sidecars, rates, spent token buckets   (instance.go)
//	alias||reminder||B||7||abc…     the name of the timer of a reminder that has, or had, this id later        (alias.go)
//
// Every write names the revision that it read. So two leaders, or one that was paused, do no harm: the later write is refused.
package keep

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Store is what notes are kept in.
type Store interface {
	Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error)
	List(ctx context.Context, q rouse.Query) (rouse.Page, error)
	Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error)
}

// Notes are the notes in one namespace of a store. They are safe for concurrent use, and nothing of them is cached.
type Notes struct {
	store     Store
	namespace string
	buckets   uint32 // of the store, which are not those of tokens
}

// New returns the notes in a namespace of a store that has so many buckets.
func New(store Store, namespace string, buckets uint32) *Notes {
	return &Notes{store: store, namespace: namespace, buckets: max(1, buckets)}
}

// patience is how long one call to the store may take.
const patience = 10 * time.Second

// rowPrefix begins the names of notes: no timer's name has a control character.
const rowPrefix = "\x01reminder/"

func (k *Notes) key(name string) rouse.Key {
	return rouse.Key{Namespace: k.namespace, Name: rowPrefix + name}
}

// note is a row as it was read; Revision 0 is none.
type note struct {
	name     string
	revision uint64
	body     []byte
}

// read fills in v with the content of a note; a note that is not there leaves it alone.
func (n *note) read(v any) error {
	if n.revision == 0 {
		return nil
	}
	if err := json.Unmarshal(n.body, v); err != nil {
		return fmt.Errorf("the note %s of the reminder service cannot be read: %w", n.name, err)
	}
	return nil
}

// get reads notes, in the order of their names.
func (k *Notes) get(ctx context.Context, names ...string) ([]note, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keys := make([]rouse.Key, len(names))
	for i, name := range names {
		keys[i] = k.key(name)
	}
	rows, err := k.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	notes := make([]note, len(rows))
	for i := range rows {
		notes[i] = note{names[i], rows[i].Revision, rows[i].Body}
	}
	return notes, nil
}

// list calls do with all notes whose names begin with the prefix, in pages.
func (k *Notes) list(ctx context.Context, prefix string, do func(note) error) error {
	q := rouse.Query{Namespace: k.namespace, Prefix: rowPrefix + prefix, States: []rouse.State{rouse.StateNote}, Limit: 500}
	for {
		page, err := k.page(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			row := &page.Rows[i]
			if err := do(note{strings.TrimPrefix(row.Key.Name, rowPrefix), row.Revision, row.Body}); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

func (k *Notes) page(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return k.store.List(ctx, q)
}

// write is one conditional write of a note: v nil removes it.
type write struct {
	name string
	v    any
	when uint64 // the revision that it must have, rouse.NoRow or rouse.AnyRevision
}

// put writes notes, each on its condition.
func (k *Notes) put(ctx context.Context, writes ...write) ([]rouse.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes := make([]rouse.Change, len(writes))
	for i, w := range writes {
		key := k.key(w.name)
		changes[i] = rouse.Change{Key: key, If: w.when}
		if w.v == nil {
			continue
		}
		body, err := json.Marshal(w.v)
		if err != nil {
			return nil, err
		}
		changes[i].To = &rouse.Row{Key: key, Bucket: rouse.BucketOf(key, k.buckets), Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: body}
	}
	return k.store.Apply(ctx, changes)
}
