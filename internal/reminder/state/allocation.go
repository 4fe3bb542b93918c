package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

const (
	consumedNote     = "tokenBucket||consumed"
	appPrefix        = "tokenBucket||apps||"
	bucketPrefix     = "tokenBucket||buckets||"
	allocationPrefix = "tokenBucket||allocations||"
)

// Read is a book with the notes that it was read from: a write of the next book is conditional on their
// revisions.
type Read struct {
	Book  allocation.Book
	Seats map[string]allocation.Seat

	revision uint64
	notes    map[string]note.Note // but for the first
}

// Revision identifies a version of the book; 0 means that none exists yet.
func (r *Read) Revision() uint64 { return r.revision }

// Changed reports whether the book's revision differs from the given one. It is cheaper than Book.
func (k *Notes) Changed(ctx context.Context, revision uint64) (bool, error) {
	notes, err := k.notes.Get(ctx, consumedNote)
	return err == nil && notes[0].Revision != revision, err
}

// Book reads the buckets and the instances that serve them.
func (k *Notes) Book(ctx context.Context) (*Read, error) {
	notes, err := k.notes.Get(ctx, consumedNote) // before the others, which are written before it
	if err != nil {
		return nil, err
	}
	r := &Read{Seats: map[string]allocation.Seat{}, revision: notes[0].Revision, notes: map[string]note.Note{}}
	if err := notes[0].Read(&r.Book); err != nil {
		return nil, err
	}
	whole := len(r.Book.Buckets) > 0 // one of an earlier version, which kept all in this note
	if r.Book.Apps == nil {
		r.Book.Apps = map[string]*allocation.App{}
	}
	each := func(prefix string, do func(id string, n note.Note) error) {
		if err == nil {
			err = k.notes.List(ctx, prefix, func(n note.Note) error {
				r.notes[n.Name] = n
				return do(strings.TrimPrefix(n.Name, prefix), n)
			})
		}
	}
	each(appPrefix, func(name string, n note.Note) error {
		app := &allocation.App{}
		if !whole {
			r.Book.Apps[name] = app
		}
		return n.Read(app)
	})
	each(bucketPrefix, func(id string, n note.Note) error {
		var b allocation.Bucket
		if err := n.Read(&b); err != nil || whole {
			return err
		}
		r.Book.Buckets = append(r.Book.Buckets, b)
		return nil
	})
	each(allocationPrefix, func(id string, n note.Note) error {
		var seat allocation.Seat
		err := n.Read(&seat)
		r.Seats[id] = seat
		return err
	})
	// by creation: ids are numbers after the app's prefix
	slices.SortFunc(r.Book.Buckets, func(a, b allocation.Bucket) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return r, err
}

// SaveBook writes the changes from one book and its seats to the next. saved is false if another leader has
// written since the book was read: then a part may be written, and the next leader continues from it.
//
// The notes are written in this order. First, the last allocated token of each app: if two leaders create
// buckets at the same time, the second one fails here, so no token is in two buckets. Then, the bucket that
// releases tokens, before the bucket that receives them. Last, the first note, which other instances poll for
// changes: it is written even if other writes failed.
func (k *Notes) SaveBook(ctx context.Context, was *Read, next allocation.Book,
	seats map[string]allocation.Seat) (saved bool, err error) {
	var apps, known, made, rest []note.Write
	is := map[string]bool{}
	add := func(to *[]note.Write, name string, v any) error {
		is[name] = true
		body, err := json.Marshal(v)
		if before := was.notes[name]; err == nil && !bytes.Equal(body, before.Body) {
			*to = append(*to, note.Set(name, v, before.Revision))
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(next.Apps)) {
		if err := add(&apps, appPrefix+name, next.Apps[name]); err != nil {
			return false, err
		}
	}
	for i := range next.Buckets {
		b := &next.Buckets[i]
		to := &known
		if was.notes[bucketPrefix+b.ID].Revision == 0 {
			to = &made
		}
		if err := add(to, bucketPrefix+b.ID, b); err != nil {
			return false, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seats)) {
		if err := add(&rest, allocationPrefix+id, seats[id]); err != nil {
			return false, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.notes)) {
		if !is[name] {
			rest = append(rest, note.Delete(name, was.notes[name].Revision))
		}
	}
	wrote := false
	for _, step := range [...][]note.Write{apps, known, made, rest} {
		for part := range slices.Chunk(step, 500) {
			res, err := k.notes.Put(ctx, part...)
			if err != nil {
				return false, fmt.Errorf("write the token buckets: %w", err)
			}
			all := true
			for _, r := range res {
				wrote, all = wrote || r.Applied, all && r.Applied
			}
			if !all && wrote {
				return false, k.forceReread(ctx, next.Generation)
			}
			if !all {
				return false, nil
			}
		}
	}
	res, err := k.notes.Put(ctx, note.Set(consumedNote, head{next.Generation}, was.revision))
	if err != nil {
		return false, fmt.Errorf("write the token buckets: %w", err)
	}
	if !res[0].Applied && wrote {
		return false, k.forceReread(ctx, next.Generation)
	}
	return res[0].Applied, nil
}

// head is the note that changes with each write of the book.
type head struct {
	Generation uint64 `json:"generation,string"`
}

// forceReread makes all instances read the book again, because a leader whose write failed may have written a
// part of it.
func (k *Notes) forceReread(ctx context.Context, generation uint64) error {
	for range tries {
		notes, err := k.notes.Get(ctx, consumedNote)
		if err != nil {
			return err
		}
		var now allocation.Book
		if err := notes[0].Read(&now); err != nil {
			return err
		}
		if len(now.Buckets) > 0 {
			return nil // of an earlier version: the other rows do not count yet
		}
		res, err := k.notes.Put(ctx, note.Set(consumedNote, head{max(now.Generation, generation) + 1}, notes[0].Revision))
		if err != nil || res[0].Applied {
			return err
		}
	}
	return errBusy
}
