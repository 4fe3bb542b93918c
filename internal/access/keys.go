package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/throttle"
)

// Keys are the API keys of a store. It authenticates by them, from memory.
type Keys struct {
	shared  *Shared
	kind    *Kind
	control *Control
	log     *slog.Logger

	mu      sync.RWMutex
	entries map[string]*entry // by id
}

// entry is a key in memory. It does not change, except for its uses.
type entry struct {
	stored
	id        string
	revision  uint64
	principal *Principal
	used      atomic.Int64 // when it was used last, in seconds since 1970; 0 is not since this node runs
	noted     atomic.Int64 // the used that was stored last
}

// NewKeys adds the keys to the shared notes.
func NewKeys(shared *Shared, control *Control, log *slog.Logger) *Keys {
	k := &Keys{shared: shared, control: control, log: log, entries: map[string]*entry{}}
	k.kind = shared.Kind("keys", k.applyKeyNote)
	return k
}

// applyKeyNote puts a note in place of the entry, and ends the streams of the old one if it allowed something
// else.
func (k *Keys) applyKeyNote(n note.Note) {
	e := &entry{id: n.Name, revision: n.Revision}
	if err := n.Read(&e.stored); err != nil {
		k.log.Error("a key cannot be read, and is refused", "key", n.Name, "err", err)
		n.Revision = 0
	}
	e.principal = Revocable(Principal{ID: "key:" + n.Name, Name: e.Name, Source: "key", Grants: e.Grants,
		Expires: e.Expires, tenant: e.Tenant})
	k.mu.Lock()
	old := k.entries[n.Name]
	if old != nil {
		e.used.Store(old.used.Load())
		e.noted.Store(old.noted.Load())
	}
	if n.Revision == 0 {
		delete(k.entries, n.Name)
	} else {
		k.entries[n.Name] = e
	}
	k.mu.Unlock()
	if old != nil {
		old.principal.End() // a stream that may go on is opened again
	}
}

func (k *Keys) findEntry(id string) *entry {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.entries[id]
}

// Len returns how many keys there are.
func (k *Keys) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.entries)
}

// nothing is compared with secrets of unknown keys, so that they take as long as known ones.
var nothing = []Secret{{Hash: make([]byte, 32)}, {Hash: make([]byte, 32)}}

// Authenticate implements Authenticator. Its cost does not depend on how many keys there are.
func (k *Keys) Authenticate(_ context.Context, c *Credentials) (*Principal, error) {
	if !IsKey(c.Bearer) {
		return nil, nil
	}
	id, secret, ok := splitKey(c.Bearer)
	if !ok {
		return nil, Unauthenticated(ReasonMalformed, "the key is not complete: it has %d characters, from rk_ on", keyLength)
	}
	e := k.findEntry(id)
	secrets := nothing
	if e != nil {
		secrets = e.Secrets
	}
	now := time.Now()
	found, expired := findValidSecret(secrets, hashSecret(secret), now)
	switch {
	case expired:
		return nil, Unauthenticated(ReasonExpired, "the key %s has expired; use a new one", id)
	case found == nil:
		return nil, Unauthenticated(ReasonUnknown, "the key is not known: it was revoked, or never existed")
	}
	if sec := now.Unix(); sec-e.used.Load() >= int64(usedEvery/time.Second) {
		e.used.Store(sec)
	}
	return e.principal, nil
}

// Create makes a key, and returns the text that its holder sends; it is never shown again. With an
// Idempotency-Key, its id is made of that: a repetition finds the key, and is refused, as nothing has the
// text.
func (k *Keys) Create(ctx context.Context, key Key) (Key, string, error) {
	now := time.Now().UTC().Truncate(time.Second)
	known := func(role string) bool { return k.control.knowsRole(ctx, role) }
	if err := key.checkKey(now, known); err != nil {
		return Key{}, "", err
	}
	if err := k.control.requireAll(ctx, KeysCreate, key.Grants); err != nil {
		return Key{}, "", err
	}
	tenant := tenantOfKey(From(ctx), key.Grants)
	if err := k.checkRoom(tenant); err != nil {
		return Key{}, "", err
	}
	id := newID()
	tag, asked := TagOf(ctx, "")
	if asked {
		id = string(tag[:idLength])
	}
	if WasCarriedOut(ctx) {
		return Key{}, "", madeBefore(id)
	}
	text, hash := newSecret(id)
	s := stored{Name: key.Name, Grants: key.Grants, Created: now, Expires: key.Expires.UTC(),
		Secrets: []Secret{{Hash: hash, Created: now}}}
	if p := From(ctx); p != nil {
		s.Creator = p.ID
	}
	if tenant != tenantOf(key.Grants) {
		s.Tenant = tenant
	}
	switch err := k.kind.Write(ctx, Change{id, s, rouse.NoRow}); {
	case asked && errors.Is(err, rouse.ErrConflict):
		return Key{}, "", madeBefore(id)
	case err != nil:
		return Key{}, "", err
	}
	return s.describeKey(id), text, nil
}

// madeBefore refuses to make a key again.
func madeBefore(id string) error {
	return fmt.Errorf(
		"the key %s was made by the first request with this Idempotency-Key, and its text was in that answer only: "+
			"revoke it, and make another one with another Idempotency-Key: %w", id, rouse.ErrConflict)
}

// checkRoom refuses a key of a tenant that has its share of all keys. Keys that another node makes count
// when this one has read them.
func (k *Keys) checkRoom(tenant string) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	all, held := len(k.entries), k.countOfTenant(tenant)
	switch {
	case all >= MaxKeys:
		return rouse.Refuse("keys", fmt.Sprint(all), "are as many as there can be", "revoke those that are not used")
	case held >= throttle.Share(held+MaxKeys-all, MaxKeys, throttle.Reserve, 1):
		return rouse.Refuse("keys", fmt.Sprint(held),
			fmt.Sprintf("are as many as those with rights in %s can have while %d are left for others",
				cmp.Or(rouse.Shorten(tenant, 128), "no namespace"), MaxKeys-all), "revoke those that are not used")
	}
	return nil
}

// countOfTenant returns how many keys a tenant has; with k.mu.
func (k *Keys) countOfTenant(tenant string) (n int) {
	for _, e := range k.entries {
		if e.principal.Tenant() == tenant {
			n++
		}
	}
	return n
}

// Rotate gives a key a new secret, and returns its text. The old one is valid for overlap; one that is older
// ends at once.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration) (Key, string, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Key{}, "", rouse.Refuse("overlap", overlap.String(), "is out of bounds", "use 0s to "+MaxOverlap.String())
	}
	s, revision, err := k.getForChange(ctx, KeysRotate, id)
	if err != nil {
		return Key{}, "", err
	}
	now := time.Now().UTC().Truncate(time.Second)
	tag, asked := TagOf(ctx, "")
	if WasCarriedOut(ctx) || asked && s.Asked == tag && len(s.Secrets) > 0 && now.Sub(s.Secrets[0].Created) < RepeatAge {
		return Key{}, "",
			fmt.Errorf(
				"the key %s was rotated by the first request with this Idempotency-Key, and its text was in that answer only: rotate it with another Idempotency-Key: %w", id, rouse.ErrConflict)
	}
	s.Asked = tag
	text, hash := newSecret(id)
	secrets := []Secret{{Hash: hash, Created: now}}
	if old := s.liveSecrets(now); len(old) > 0 && overlap > 0 {
		last := old[0]
		if until := now.Add(overlap); last.Expires.IsZero() || last.Expires.After(until) {
			last.Expires = until
		}
		secrets = append(secrets, last)
	}
	s.Secrets = secrets[:min(len(secrets), maxSecrets)]
	if err := k.kind.Write(ctx, Change{id, s, revision}); err != nil {
		return Key{}, "", fmt.Errorf("the key %s: %w", id, err)
	}
	return s.describeKey(id), text, nil
}

// Revoke deletes a key. It ends on this node at once, on the others within 5 s.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	_, revision, err := k.getForChange(ctx, KeysRevoke, id)
	if err != nil {
		return err
	}
	if err := k.kind.Write(ctx, Change{id, nil, revision}); err != nil {
		return fmt.Errorf("the key %s: %w", id, err)
	}
	_, err = k.shared.notes.Put(ctx, note.Delete(usedPrefix+id, rouse.AnyRevision))
	return rouse.Unavailable(err)
}

// getForChange reads a key from the store for a change. A principal changes keys that it could have created
// only; one that it may not list either is as one that does not exist.
func (k *Keys) getForChange(ctx context.Context, v Verb, id string) (s stored, revision uint64, err error) {
	if len(id) != idLength || strings.Trim(id, idDigits) != "" {
		return s, 0, rouse.Refuse("id", id, "is no id of a key", fmt.Sprintf("give the %d characters after rk_", idLength))
	}
	if err := k.control.Admit(ctx, v); err != nil {
		return s, 0, err
	}
	notes, err := k.kind.Get(ctx, id)
	if err != nil {
		return s, 0, rouse.Unavailable(err)
	}
	missing := fmt.Errorf("the key %s: %w", id, rouse.ErrNotFound)
	if notes[0].Revision == 0 {
		return s, 0, missing
	}
	if err := notes[0].Read(&s); err != nil {
		return s, 0, err
	}
	if !k.control.coversAll(ctx, v, s.Grants) && !k.control.coversAll(ctx, KeysList, s.Grants) {
		return stored{}, 0, missing
	}
	return s, notes[0].Revision, k.control.requireAll(ctx, v, s.Grants)
}

// List returns the keys whose ids or names begin with prefix, in the order of their ids, after an id and at
// most limit: those that the principal could have created. next is where the next page begins, "" at the end.
func (k *Keys) List(ctx context.Context, prefix, after string, limit int) (keys []Key, next string, err error) {
	if err := k.control.Admit(ctx, KeysList); err != nil {
		return nil, "", err
	}
	used, err := k.lastUsed(ctx)
	if err != nil {
		return nil, "", rouse.Unavailable(err)
	}
	for _, e := range k.sortedEntries() {
		if e.id <= after || !strings.HasPrefix(e.id, prefix) && !strings.HasPrefix(e.Name, prefix) ||
			!k.control.coversAll(ctx, KeysList, e.Grants) {
			continue
		}
		if len(keys) == limit {
			return keys, keys[limit-1].ID, nil
		}
		key := e.describeKey(e.id)
		if at := max(e.used.Load(), used[e.id]); at != 0 {
			key.Used = time.Unix(at, 0).UTC()
		}
		keys = append(keys, key)
	}
	return keys, "", nil
}

func (k *Keys) sortedEntries() []*entry {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]*entry, 0, len(k.entries))
	for _, e := range k.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return list
}

// liveSecrets returns the secrets that are valid at a time, newest first.
func (s *stored) liveSecrets(now time.Time) []Secret {
	return slices.DeleteFunc(slices.Clone(s.Secrets),
		func(s Secret) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) })
}

func (s *stored) describeKey(id string) Key {
	return Key{ID: id, Name: s.Name, Grants: s.Grants, Created: s.Created, Creator: s.Creator, Expires: s.Expires,
		Secrets: s.liveSecrets(time.Now())}
}
