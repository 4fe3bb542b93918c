// Package note keeps the persistent state of parts as notes: rows of the store next to its timers that have a
// name and a JSON body, and are never due. Every write names the revision that it read, so that of two nodes
// that write a note at a time one is refused.
package note

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Store keeps the notes.
type Store interface {
	Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error)
	List(ctx context.Context, q rouse.Query) (rouse.Page, error)
	Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error)
}

// Notes reads and writes the notes of a part. It is safe for concurrent use, and keeps nothing in memory.
type Notes struct {
	Store     Store
	Namespace string
	Prefix    string        // begins the names of the rows; with a control character, which no timer's name has
	Buckets   uint32        // of the store
	Patience  time.Duration // limits each call to the store
}

// Note is a note as it was read; Revision 0 is none.
type Note struct {
	Name     string
	Revision uint64
	Body     []byte // JSON
}

// Read fills in v with the note; one that does not exist leaves v alone.
func (n *Note) Read(v any) error {
	if n.Revision == 0 {
		return nil
	}
	if err := json.Unmarshal(n.Body, v); err != nil {
		return fmt.Errorf("the note %s cannot be read: %w", n.Name, err)
	}
	return nil
}

func (s *Notes) noteKey(name string) rouse.Key {
	return rouse.Key{Namespace: s.Namespace, Name: s.Prefix + name}
}

// Get reads notes, in the order of their names.
func (s *Notes) Get(ctx context.Context, names ...string) ([]Note, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	keys := make([]rouse.Key, len(names))
	for i, name := range names {
		keys[i] = s.noteKey(name)
	}
	rows, err := s.Store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	notes := make([]Note, len(rows))
	for i := range rows {
		notes[i] = Note{names[i], rows[i].Revision, rows[i].Body}
	}
	return notes, nil
}

// pageNotes is how many notes List reads at a time.
const pageNotes = 500

// List calls do with all notes whose names begin with prefix, and ends with its first error.
func (s *Notes) List(ctx context.Context, prefix string, do func(Note) error) error {
	q := rouse.Query{Namespace: s.Namespace, Prefix: s.Prefix + prefix, States: []rouse.State{rouse.StateNote},
		Limit: pageNotes}
	for {
		page, err := s.listNotePage(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			row := &page.Rows[i]
			if err := do(Note{strings.TrimPrefix(row.Key.Name, s.Prefix), row.Revision, row.Body}); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

func (s *Notes) listNotePage(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	return s.Store.List(ctx, q)
}

// Write is one conditional write of a note.
type Write struct {
	name  string
	value any // nil deletes the note
	when  uint64
}

// Set returns the write of a note: revision is the one that the note must have, rouse.NoRow or
// rouse.AnyRevision.
func Set(name string, value any, revision uint64) Write { return Write{name, value, revision} }

// Delete returns the write that deletes a note.
func Delete(name string, revision uint64) Write { return Write{name, nil, revision} }

// Put writes notes, each on its condition.
func (s *Notes) Put(ctx context.Context, writes ...Write) ([]rouse.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	changes := make([]rouse.Change, len(writes))
	for i, w := range writes {
		key := s.noteKey(w.name)
		changes[i] = rouse.Change{Key: key, If: w.when}
		if w.value == nil {
			continue
		}
		body, err := json.Marshal(w.value)
		if err != nil {
			return nil, err
		}
		changes[i].To = &rouse.Row{Key: key, Bucket: rouse.BucketOf(key, max(1, s.Buckets)), Visible: rouse.Never,
			Due:   rouse.Never,
			State: rouse.StateNote, Body: body}
	}
	return s.Store.Apply(ctx, changes)
}
