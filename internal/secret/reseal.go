package secret

import (
	"context"
	"errors"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// resealBatch is how many notes are sealed again in one write.
const resealBatch = 100

// resealStale seals again the notes that an older key has sealed, while everything is served. Of several
// nodes that do so at a time, one succeeds with each note. It seals the value in memory, and writes it only
// if the note still has the revision that was read.
func (s *Secrets) resealStale(ctx context.Context) {
	values, signing, derived, newest := s.staleChanges()
	sealed, err := 0, error(nil)
	for _, of := range []struct {
		kind    *access.Kind
		changes []access.Change
	}{{s.values, values}, {s.signing, signing}, {s.derivedNotes, derived}} {
		for len(of.changes) > 0 && err == nil {
			n := min(len(of.changes), resealBatch)
			err = of.kind.Write(ctx, of.changes[:n]...)
			if errors.Is(err, rouse.ErrConflict) { // another node was faster with some
				err = nil
			}
			of.changes, sealed = of.changes[n:], sealed+n
		}
	}
	if err == nil {
		s.mu.Lock()
		s.moved = newest
		s.mu.Unlock()
	}
	switch {
	case err != nil && ctx.Err() == nil:
		s.opts.Log.Warn("secrets not sealed again yet", "error", err)
	case sealed > 0:
		s.opts.Log.Info("secrets sealed with the newest key", "secrets", sealed, "key", newest, "left", s.Stats().Stale)
	}
}

// staleChanges returns the changes that seal again the notes that an older key has sealed, and that derive
// other keys from the newest one: an old key with an old copy of the store then opens none of them. A node
// derives others once for each newest key that it gets: while the newest key of another node is an older one,
// they would replace each other's, and sessions would end again and again.
func (s *Secrets) staleChanges() (values, signing, derived []access.Change, newest string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ring == nil {
		return nil, nil, nil, ""
	}
	for name, v := range s.known {
		if s.ring.isStale(v.Sealed) && v.err == nil {
			next := v.stored
			next.Sealed = s.ring.sealValue(v.sealPlace(name), []byte(v.plain))
			values = append(values, access.Change{Name: name, Value: &next, If: v.revision})
		}
	}
	for name, n := range s.keys {
		if n.err != nil {
			continue
		}
		next, old := &signNote{Keys: append([]signKey(nil), n.Keys...)}, false
		for i, k := range next.Keys {
			old = old || s.ring.isStale(k.Sealed)
			next.Keys[i].Sealed = s.ring.sealValue(signPlace(name), n.seeds[i])
		}
		if old {
			signing = append(signing, access.Change{Name: name, Value: next, If: n.revision})
		}
	}
	for name, d := range s.derived {
		if s.moved != s.ring.newest && s.ring.isStale(box{Key: d.Key}) {
			derived = append(derived, access.Change{Name: name, Value: s.newDerived(s.ring), If: d.revision})
		}
	}
	return values, signing, derived, s.ring.newest
}
