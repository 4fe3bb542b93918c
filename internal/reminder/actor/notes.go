package actor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/keep"
)

// notes are the service's rows in the store.
type notes struct {
	store     keep.Store
	namespace string
	buckets   uint32
}

// rowPrefix begins the names of notes: no timer's name has a control character.
const rowPrefix = "\x01reminder/"

// Kinds of notes.
const (
	hostNote  = "actor||host||"
	liveNote  = "actor||live||"
	placeNote = "actor||place||"
	movesNote = "actor||moves||"
)

// patience is how long one call to the store may take.
const patience = 5 * time.Second

// hostBody is the note of a host.
type hostBody struct {
	App     string   `json:"app"`
	Address string   `json:"address"`
	Types   []string `json:"types"`

	At rouse.Instant `json:"at"` // when it was registered
}

// liveBody says until when a host is ON.
type liveBody struct {
	App     string        `json:"app"`
	Address string        `json:"address"`
	Until   rouse.Instant `json:"until"`
	Life    string        `json:"life"`
}

// placeBody says which host an actor is on.
type placeBody struct {
	Actor   string `json:"actor"`
	Address string `json:"address"`
	Life    string `json:"life"` // of the host
}

func (k hostKey) note(kind string) string { return short(kind + k.app + " " + k.address) } // neither has a space

// actorName tells the actors of all apps apart: an app has no space, and a type no "||".
func actorName(app string, a *reminderv1.Actor) string {
	return app + " " + a.GetActorType() + "||" + a.GetActorId()
}

// short returns a name that is not longer than a timer's may be.
func short(name string) string {
	const most = rouse.MaxName - len(rowPrefix)
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:most-2*len(sum)-1], "") + "#" + hex.EncodeToString(sum[:])
}

// note is a row as it was read; revision 0 is none.
type note struct {
	revision uint64
	body     []byte
}

// read fills in v; a note that is not there leaves it alone.
func (n *note) read(v any) error {
	if n.revision == 0 {
		return nil
	}
	if err := json.Unmarshal(n.body, v); err != nil {
		return fmt.Errorf("a note of the actor service cannot be read: %w", err)
	}
	return nil
}

func (s *notes) key(name string) rouse.Key {
	return rouse.Key{Namespace: s.namespace, Name: rowPrefix + name}
}

// get reads notes, in the order of their names.
func (s *notes) get(ctx context.Context, names ...string) ([]note, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keys := make([]rouse.Key, len(names))
	for i, name := range names {
		keys[i] = s.key(name)
	}
	rows, err := s.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]note, len(rows))
	for i := range rows {
		out[i] = note{rows[i].Revision, rows[i].Body}
	}
	return out, nil
}

// list calls do with all notes of a kind, in pages.
func (s *notes) list(ctx context.Context, kind string, do func(n *note) error) error {
	q := rouse.Query{Namespace: s.namespace, Prefix: rowPrefix + kind, States: []rouse.State{rouse.StateNote}, Limit: 500}
	for {
		page, err := s.page(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			if err := do(&note{page.Rows[i].Revision, page.Rows[i].Body}); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

func (s *notes) page(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.store.List(ctx, q)
}

// write is one conditional write of a note: v nil removes it.
type write struct {
	name string
	v    any
	when uint64 // the revision that it must have, rouse.NoRow or rouse.AnyRevision
}

// put writes notes, each on its condition.
func (s *notes) put(ctx context.Context, writes ...write) ([]rouse.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes := make([]rouse.Change, len(writes))
	for i, w := range writes {
		key := s.key(w.name)
		changes[i] = rouse.Change{Key: key, If: w.when}
		if w.v == nil {
			continue
		}
		body, err := json.Marshal(w.v)
		if err != nil {
			return nil, err
		}
		changes[i].To = &rouse.Row{Key: key, Bucket: rouse.BucketOf(key, s.buckets), Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: body}
	}
	return s.store.Apply(ctx, changes)
}
