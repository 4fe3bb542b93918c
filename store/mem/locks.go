package mem

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Lock takes or renews leases.
func (s *Store) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) ([]rouse.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return nil, err
	}
	now := rouse.Reached(s.clock())
	out := make([]rouse.Lease, len(wants))
	for i, w := range wants {
		l := s.leases[w.Name]
		live := l.Until > now
		switch {
		case w.If != 0 && l.Epoch != w.If, w.If == 0 && live && l.Owner != owner:
			out[i] = l
			out[i].Name = w.Name
			continue
		case w.If != 0 || !live || l.Owner != owner:
			l.Epoch++
		}
		l.Name, l.Owner, l.Until, l.Data = w.Name, owner, now.Add(ttl), slices.Clone(w.Data)
		s.leases[w.Name], out[i] = l, l
	}
	return out, nil
}

// Unlock ends the given leases if they belong to the owner.
func (s *Store) Unlock(ctx context.Context, owner string, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	now := rouse.Reached(s.clock())
	for _, name := range names {
		if l := s.leases[name]; l.Owner == owner && l.Until > now {
			l.Until = now
			s.leases[name] = l
		}
	}
	return nil
}

// EndLeases ends leases of any owner.
func (s *Store) EndLeases(ctx context.Context, leases []rouse.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	now := rouse.Reached(s.clock())
	for i := range leases {
		l := &leases[i]
		if is := s.leases[l.Name]; is.Epoch == l.Epoch && is.Until == l.Until && is.Until > now {
			is.Until = now
			s.leases[l.Name] = is
		}
	}
	return nil
}

// DropLeases deletes leases that have ended.
func (s *Store) DropLeases(ctx context.Context, leases []rouse.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return err
	}
	now := rouse.Reached(s.clock())
	for i := range leases {
		l := &leases[i]
		if is := s.leases[l.Name]; is.Epoch == l.Epoch && is.Until == l.Until && l.Until <= now {
			delete(s.leases, l.Name)
		}
	}
	return nil
}

// Leases returns the leases whose names begin with the prefix.
func (s *Store) Leases(ctx context.Context, prefix string) ([]rouse.Lease, rouse.Instant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkUsable(ctx); err != nil {
		return nil, 0, err
	}
	var out []rouse.Lease
	for _, name := range slices.Sorted(maps.Keys(s.leases)) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, s.leases[name])
		}
	}
	return out, rouse.Reached(s.clock()), nil
}

// Revisions returns the revisions of the rows of the keys.
func (s *Store) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]uint64, len(keys))
	for i, k := range keys {
		out[i] = s.rows[k].Revision
	}
	return out, s.checkUsable(ctx)
}

// Raise makes revisions continue above the given one.
func (s *Store) Raise(ctx context.Context, revision uint64) error {
	if revision > 1<<62 {
		return rouse.Refuse("revision", strconv.FormatUint(revision, 10), "is too high", "use at most 4611686018427387904")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = max(s.revision, revision)
	return s.checkUsable(ctx)
}
