package secret

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/note"
)

// Limits of signing keys.
const (
	MaxSigningKeys = 4                   // of a namespace that sign at a time
	MaxOverlap     = 90 * 24 * time.Hour // of an old key with a new one
)

// seedBytes is the length of the seed of a signing key.
const seedBytes = 32

// SigningKey is one key of a namespace, for HMAC and for ed25519.
type SigningKey struct {
	ID      string             // of the public key
	Created rouse.Instant      //
	Until   rouse.Instant      // when it ends to sign; 0: it has no end
	HMAC    []byte             // of 32 bytes
	Private ed25519.PrivateKey //
}

// Public returns the public key.
func (k *SigningKey) Public() ed25519.PublicKey { return k.Private.Public().(ed25519.PublicKey) } //nolint:errcheck // the only type there is

// PublicText and SecretText return the forms of a key that package sink/webhook verifies signatures with.
func (k *SigningKey) PublicText() string {
	return "whpk_" + base64.StdEncoding.EncodeToString(k.Public())
}

// SecretText is the form for signatures v1.
func (k *SigningKey) SecretText() string {
	return "whsec_" + base64.StdEncoding.EncodeToString(k.HMAC)
}

// signNote is a note with signing keys: those of a namespace that has rotated its keys; or one from which the
// first key of every other namespace is derived, so that namespaces need no write before their first
// callback.
type signNote struct {
	Keys []signKey `json:"keys"` // the newest first

	revision uint64
	seeds    [][]byte
	err      error // why they cannot be opened
}

// rootNote is the note from which keys are derived; no namespace has its name.
const rootNote = "_root"

// signPlace returns the place that the seeds of a note are sealed for.
func signPlace(name string) string { return "signing/" + name }

type signKey struct {
	Created int64 `json:"created"` // Unix milliseconds
	Until   int64 `json:"until,omitempty"`
	Sealed  box   `json:"sealed"`

	// Of a request with an Idempotency-Key:
	Asked   access.Tag    `json:"asked,omitempty"`
	Overlap time.Duration `json:"overlap,omitempty"`
}

// openSeeds opens the seeds.
func (n *signNote) openSeeds(name string, ring *Ring) {
	n.seeds, n.err = nil, nil
	for _, k := range n.Keys {
		seed, err := ring.openBox(signPlace(name), k.Sealed)
		n.seeds, n.err = append(n.seeds, seed), errors.Join(n.err, err)
	}
}

func (n *signNote) sealedBoxes() []box {
	list := make([]box, len(n.Keys))
	for i := range n.Keys {
		list[i] = n.Keys[i].Sealed
	}
	return list
}

// takeSigning takes a note with signing keys into memory. Keys that were open stay open, as values do.
func (s *Secrets) takeSigning(n note.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = &signingCache{}
	old := s.keys[n.Name]
	if n.Revision == 0 {
		delete(s.keys, n.Name)
		return
	}
	next := &signNote{revision: n.Revision}
	if next.err = n.Read(next); next.err == nil {
		next.openSeeds(n.Name, s.ring)
	}
	if next.err != nil && old != nil && old.err == nil &&
		slices.EqualFunc(old.Keys, next.Keys, func(a, b signKey) bool { return a.Created == b.Created }) {
		next.seeds, next.err = old.seeds, nil
	}
	if next.err != nil {
		s.opts.Log.Error("signing keys cannot be opened: callbacks wait", "namespace",
			strings.Replace(n.Name, rootNote, "all others", 1), "error", next.err)
	}
	s.keys[n.Name] = next
}

func newSeed() []byte {
	seed := make([]byte, seedBytes)
	_, _ = rand.Read(seed) // never fails
	return seed
}

// deriveBytes returns 32 bytes for a purpose from a seed.
func deriveBytes(seed []byte, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, seed, nil, "rouse "+purpose, 32)
	if err != nil {
		panic(err) // 32 bytes are never too many
	}
	return key
}

// newSigningKey makes a signing key from its seed.
func newSigningKey(seed []byte, created, until int64) SigningKey {
	k := SigningKey{Created: rouse.Instant(created), Until: rouse.Instant(until), HMAC: deriveBytes(seed, "signing v1"),
		Private: ed25519.NewKeyFromSeed(deriveBytes(seed, "signing v1a"))}
	sum := sha256.Sum256(k.Public())
	k.ID = hex.EncodeToString(sum[:4])
	return k
}

// namespaceSeeds returns the seeds of the keys of a namespace, the newest first, with their descriptions. It
// requires s.mu.
func (s *Secrets) namespaceSeeds(namespace string) (keys []signKey, seeds [][]byte, err error) {
	if n := s.keys[namespace]; n != nil {
		if n.err != nil {
			return nil, nil, fmt.Errorf("the signing keys of the namespace %s cannot be used: %w", namespace, n.err)
		}
		return n.Keys, n.seeds, nil
	}
	root := s.keys[rootNote]
	switch {
	case root == nil:
		return nil, nil, nil
	case root.err != nil:
		return nil, nil, fmt.Errorf("the signing keys cannot be used: %w", root.err)
	}
	return []signKey{{Created: root.Keys[0].Created}}, [][]byte{deriveBytes(root.seeds[0], "namespace "+namespace)}, nil
}

// maxCached bounds the namespaces whose keys are kept ready.
const maxCached = 10_000

// SigningSet is the keys of a namespace at a time.
type SigningSet struct {
	Keys []SigningKey // the newest first

	// Ready is for the caller, which keeps values there that it derived from the keys.
	Ready atomic.Value

	until time.Time // the first end of a key; zero: none has one
}

// signingCache has the keys of namespaces that were made of the same seeds. Other seeds begin another one, so
// that nothing is kept of the old ones.
type signingCache struct {
	mu   sync.RWMutex
	sets map[string]*SigningSet
}

func (c *signingCache) cachedSet(namespace string) *SigningSet {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.sets[namespace]
}

func (c *signingCache) cacheSet(namespace string, set *SigningSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil || len(c.sets) >= maxCached {
		c.sets = map[string]*SigningSet{}
	}
	c.sets[namespace] = set
}

// Signing returns the keys that sign the callbacks of a namespace; none without Options.Signing. It is called
// for each attempt.
func (s *Secrets) Signing(namespace string) (*SigningSet, error) {
	set, made, err := s.signingSetOf(namespace)
	if err == nil && made != nil {
		made.cacheSet(namespace, set)
	}
	return set, err
}

// signingSetOf returns the keys of a namespace, and where to keep them if they were made just now. It makes
// them without a lock that others wait for: callers without credentials ask for those of any namespace.
func (s *Secrets) signingSetOf(namespace string) (set *SigningSet, made *signingCache, err error) {
	now := s.opts.Now()
	s.mu.RLock()
	made = s.cache
	if set = made.cachedSet(namespace); set != nil && (set.until.IsZero() || now.Before(set.until)) {
		s.mu.RUnlock()
		return set, nil, nil
	}
	keys, seeds, err := s.namespaceSeeds(namespace)
	s.mu.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	set = &SigningSet{}
	for i, k := range keys {
		end := time.UnixMilli(k.Until)
		if k.Until != 0 && !now.Before(end) {
			continue
		}
		if k.Until != 0 && (set.until.IsZero() || end.Before(set.until)) {
			set.until = end
		}
		set.Keys = append(set.Keys, newSigningKey(seeds[i], k.Created, k.Until))
	}
	return set, made, nil
}

// PublicKeys returns the keys of a namespace, the newest first, of which only the public ones are for
// everybody. A namespace that does not exist has keys, too.
func (s *Secrets) PublicKeys(namespace string) ([]SigningKey, error) {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	set, _, err := s.signingSetOf(namespace) // not kept: that would displace those of namespaces with callbacks
	if err != nil {
		return nil, err
	}
	return set.Keys, nil
}

// RevealSigning returns the keys of a namespace with their secrets.
func (s *Secrets) RevealSigning(ctx context.Context, namespace string) (*SigningSet, error) {
	if err := cmp.Or(rouse.CheckNamespace(namespace),
		s.opts.Control.Require(ctx, access.SigningShow, namespace, "", nil)); err != nil {
		return nil, err
	}
	return s.Signing(namespace)
}

// RotateSigning gives a namespace a new signing key. Its old keys go on signing for overlap, in addition; 0
// ends them immediately.
func (s *Secrets) RotateSigning(ctx context.Context, namespace string, overlap time.Duration) (*SigningSet, error) {
	if err := cmp.Or(rouse.CheckNamespace(namespace),
		s.opts.Control.Require(ctx, access.SigningTurn, namespace, "", nil)); err != nil {
		return nil, err
	}
	if overlap < 0 || overlap > MaxOverlap {
		return nil, rouse.Refuse("overlap", overlap.String(), "is out of bounds", "give 0s to "+MaxOverlap.String())
	}
	for {
		to, revision, err := s.rotatedNote(ctx, namespace, overlap)
		if errors.Is(err, errRepeated) {
			audit.Repeated(ctx)
			return s.Signing(namespace)
		}
		if err != nil {
			return nil, err
		}
		err = s.signing.Write(ctx, access.Change{Name: namespace, Value: to, If: revision})
		switch {
		case err == nil:
			return s.Signing(namespace)
		case !errors.Is(err, rouse.ErrConflict):
			return nil, err
		}
	}
}

// errRepeated is of a rotation that was carried out before.
var errRepeated = errors.New("it was carried out before")

// rotatedNote returns the note of a namespace with a new key, and the revision that it must replace. It reads
// the present one from the store: another node may have rotated.
func (s *Secrets) rotatedNote(ctx context.Context, namespace string,
	overlap time.Duration) (to *signNote, revision uint64, err error) {
	list, err := s.signing.Get(ctx, namespace)
	if err != nil {
		return nil, 0, rouse.Unavailable(err)
	}
	if list[0].Revision != 0 {
		s.takeSigning(list[0])
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.keys[rootNote] == nil {
		return nil, 0, rouse.Refuse("namespace", namespace, "has no signing keys: this server signs no callbacks",
			"give it a data directory")
	}
	keys, seeds, err := s.namespaceSeeds(namespace)
	if err != nil && overlap > 0 {
		return nil, 0, fmt.Errorf("%w; with an overlap of 0s the new key replaces them", err)
	}
	now := s.opts.Now()
	if access.WasCarriedOut(ctx) {
		return nil, 0, errRepeated
	}
	tag, asked := access.TagOf(ctx, namespace)
	for _, k := range keys {
		switch {
		case !asked || k.Asked != tag || k.Created < now.Add(-access.RepeatAge).UnixMilli():
		case k.Overlap != overlap:
			return nil, 0, rouse.Refuse("Idempotency-Key", "", "was given with another overlap",
				"give each request a key of its own")
		default:
			return nil, 0, errRepeated
		}
	}
	to = &signNote{Keys: []signKey{{Created: now.UnixMilli(), Sealed: s.ring.sealValue(signPlace(namespace), newSeed()),
		Asked: tag, Overlap: overlap}}}
	for i, k := range keys {
		end := now.Add(overlap).UnixMilli()
		if k.Until != 0 {
			end = min(end, k.Until)
		}
		if end > now.UnixMilli() {
			to.Keys = append(to.Keys, signKey{Created: k.Created, Until: end, Asked: k.Asked, Overlap: k.Overlap,
				Sealed: s.ring.sealValue(signPlace(namespace), seeds[i])})
		}
	}
	if len(to.Keys) > MaxSigningKeys {
		return nil, 0, rouse.Refuse("overlap", overlap.String(), fmt.Sprintf("would leave %d keys that sign", len(to.Keys)),
			fmt.Sprintf("%d can sign at a time: wait until one of them ends, or end all old ones by an overlap of 0s",
				MaxSigningKeys))
	}
	return to, noteRevision(list[0]), nil
}
