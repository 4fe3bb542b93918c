package secret

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/note"
)

// The keys that nodes derive.
const (
	SessionKey = "sessions" // seals the cookies of browsers: sessions, and logins under way
	NodeKey    = "nodes"    // signs requests between nodes of the store
)

// derivedNote is the note of a key that nodes derive from a sealing key and a salt. The key itself, which
// would make its holder an administrator, is not in the store, not even sealed: a reader of the store or of a
// copy of it has the salt only. Another salt, or another sealing key, makes another key.
type derivedNote struct {
	Key     string `json:"key,omitempty"` // id of the sealing key; empty: the key of a process that has none
	Salt    []byte `json:"salt"`
	Created int64  `json:"created"` // Unix milliseconds

	// Of a request with an Idempotency-Key:
	Asked access.Tag `json:"asked,omitempty"`

	revision uint64
	plain    []byte
	err      error // why this node cannot derive it
}

// derivedKind is the kind of their notes.
const derivedKind = "derived"

// newDerived returns the note of a new key.
func (s *Secrets) newDerived(ring *Ring) *derivedNote {
	d := &derivedNote{Salt: newSeed(), Created: s.opts.Now().UnixMilli()}
	if ring != nil {
		d.Key = ring.newest
	}
	return d
}

// deriveKey derives the key of a name. It requires s.mu.
func (s *Secrets) deriveKey(name string, d *derivedNote) {
	from := s.process
	if s.ring != nil {
		key, ok := s.ring.keys[d.Key]
		if !ok {
			d.plain, d.err = nil,
				fmt.Errorf("it is derived from the key %s, which this node does not have: add it to the keys of secret-keys", d.Key)
			return
		}
		from = key.bytes
	}
	d.plain, d.err = hkdf.Key(sha256.New, from, d.Salt, "rouse key of "+name, 32)
}

// takeDerived takes the note of a derived key into memory, and hands out the key.
func (s *Secrets) takeDerived(n note.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &derivedNote{revision: n.Revision}
	if n.Revision == 0 {
		delete(s.derived, n.Name)
	} else {
		if d.err = n.Read(d); d.err == nil {
			s.deriveKey(n.Name, d)
		}
		s.derived[n.Name] = d
	}
	s.handOut(n.Name, d)
}

// handOut passes a derived key to its function of Options.Derived; nil if it cannot be derived. It requires
// s.mu.
func (s *Secrets) handOut(name string, d *derivedNote) {
	use := s.opts.Derived[name]
	if use == nil {
		return // this node has no use for it
	}
	if d.err != nil {
		s.opts.Log.Error("a key that the nodes derive cannot be derived here: what it seals or signs is refused", "key", name,
			"error", d.err)
	}
	use(d.plain, time.UnixMilli(d.Created))
}

// checkDerived refuses nodes that share a store, and have nothing to derive the same keys from.
func (s *Secrets) checkDerived(context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.opts.Derived) == 0 || !s.opts.Shares || s.ring != nil {
		return nil
	}
	return rouse.Refuse("secret-keys", "",
		"is not set, and with access control nodes that share a store derive the key of sessions from it, and the one by which they know each other",
		"give this node the sealing keys of the others; if there are none yet, give all the same: rouse secret new-key prints one")
}

// beginDerived makes the derived keys that the store does not have yet. A node that has its store to itself
// also replaces those of which it has no sealing key: nothing is lost but sessions. Of nodes that share a
// store one may be about to get it.
func (s *Secrets) beginDerived(ctx context.Context) error {
	var changes []access.Change
	s.mu.RLock()
	ring := s.ring
	for name := range s.opts.Derived {
		switch d := s.derived[name]; {
		case d == nil:
			changes = append(changes, access.Change{Name: name, Value: s.newDerived(ring), If: rouse.NoRow})
		case d.err != nil && (!s.opts.Shares || s.opts.Replace):
			changes = append(changes, access.Change{Name: name, Value: s.newDerived(ring), If: d.revision})
		}
	}
	s.mu.RUnlock()
	if len(changes) == 0 {
		return nil
	}
	err := s.derivedNotes.Write(ctx, changes...)
	if errors.Is(err, rouse.ErrConflict) {
		return nil // another node has just made them, and they were taken
	}
	return err
}

// RotateSessionKey replaces the derived keys: on this node immediately, on the others within five seconds.
// All sessions of browsers end.
func (s *Secrets) RotateSessionKey(ctx context.Context) error {
	if err := s.opts.Control.Require(ctx, access.SessionsRotate, "", "", nil); err != nil {
		return err
	}
	tag, asked := access.TagOf(ctx, "")
	s.mu.RLock()
	ring, now := s.ring, s.derived[SessionKey]
	s.mu.RUnlock()
	if access.WasCarriedOut(ctx) || asked && now != nil && now.Asked == tag &&
		s.opts.Now().Sub(time.UnixMilli(now.Created)) < access.RepeatAge {
		audit.Repeated(ctx)
		return nil
	}
	var changes []access.Change
	for _, name := range slices.Sorted(maps.Keys(s.opts.Derived)) {
		next := s.newDerived(ring)
		next.Asked = tag
		changes = append(changes, access.Change{Name: name, Value: next, If: rouse.AnyRevision})
	}
	return s.derivedNotes.Write(context.WithoutCancel(ctx), changes...) // it may end the caller's own session
}

// DropDerived deletes the notes of derived keys from a store that no node serves: its next node makes others.
func DropDerived(ctx context.Context, store note.Store) error {
	shared := access.NewShared(store, nil)
	var changes []access.Change
	kind := shared.Kind(derivedKind, func(n note.Note) {
		if n.Revision != 0 {
			changes = append(changes, access.Change{Name: n.Name, If: n.Revision})
		}
	})
	if err := shared.Load(ctx); err != nil || len(changes) == 0 {
		return err
	}
	return kind.Write(ctx, changes...)
}

// Held returns all keys that this node holds, by their names, for tests that search for leaks.
func (s *Secrets) Held() map[string][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := map[string][]byte{}
	if s.ring != nil {
		for id, key := range s.ring.keys {
			held["sealing key "+id] = key.bytes
		}
	}
	for name, d := range s.derived {
		held["derived key "+name] = d.plain
	}
	for name, n := range s.keys {
		for i, seed := range n.seeds {
			k := newSigningKey(seed, 0, 0)
			of := fmt.Sprintf(" %d of %s", i, name)
			held["signing seed"+of], held["HMAC key"+of], held["private key"+of] = seed, k.HMAC, k.Private.Seed()
		}
	}
	for name, v := range s.known {
		held["secret "+name] = []byte(v.plain)
	}
	return held
}
