package secret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/note"
)

// Limits of secrets.
const (
	MaxPerNamespace = 100    // secrets of one namespace
	MaxAll          = 10_000 // secrets of a store: all nodes have all of them in memory
)

// every is how often the sealing keys are read again.
const every = 2 * time.Second

// Options configure Secrets. Zero fields have the defaults that their comments name.
type Options struct {
	Shared  *access.Shared        // the shared notes of the store; required
	Control *access.Control       // the rights of callers; nil: they may do everything
	Signing bool                  // callbacks are signed
	Keys    func() (*Ring, error) // returns the sealing keys, nil for none; it is called repeatedly; default none
	Now     func() time.Time      // default time.Now
	Exists  func(string) bool     // whether a namespace has been created; nil: it need not
	// TokenURL refuses token URLs that a namespace's requests cannot reach; nil: it refuses none.
	TokenURL func(namespace, target string) error
	Log      *slog.Logger // default none

	// Derived are the keys that this node needs, by SessionKey and NodeKey, and the function that uses each:
	// it is called with the key and the time at which it was made whenever the key is another one, nil for
	// none.
	Derived map[string]func(key []byte, since time.Time)
	// Shares means that other nodes use the store, too: without Keys they cannot derive the same keys.
	Shares bool

	// Fresh means that Keys were made just now, as there were none. Then, and without any, nothing opens the
	// sealed notes of the store, and sealed signing keys are refused.
	Fresh bool
	// Replace means that notes that cannot be opened are lost: signing keys are replaced, as callbacks would
	// wait forever.
	Replace bool
}

// Secrets are the secrets of a store. They are safe for concurrent use.
type Secrets struct {
	opts    Options
	values  *access.Kind // notes NAMESPACE/NAME
	signing *access.Kind // notes NAMESPACE, and rootNote
	process []byte       // a key that this process only has, for want of a ring

	derivedNotes *access.Kind

	mu      sync.RWMutex
	ring    *Ring
	known   map[string]*value // by the name of the note
	count   map[string]int    // secrets of each namespace
	keys    map[string]*signNote
	derived map[string]*derivedNote
	moved   string        // the newest key when this node last derived others from it
	cache   *signingCache // of namespaces whose callbacks were signed
	keyErr  string        // the last error of Keys, which is logged once
	changed chan struct{} // has an element after the value of a secret changed
}

// value is a secret with its value.
type value struct {
	stored
	revision uint64
	plain    string
	err      error // why it cannot be opened
}

// stored is the note of a secret.
type stored struct {
	Version uint64   `json:"version"`
	Created int64    `json:"created"` // Unix milliseconds
	Updated int64    `json:"updated"`
	Hosts   []string `json:"hosts,omitempty"` // that it may be sent to; none is all
	Sealed  box      `json:"sealed"`
	Kind
}

// Kind is the use of a secret that is not sent itself; of one that is, both are nil.
type Kind struct {
	OAuth *rouse.OAuthClient `json:"oauth,omitempty"`
	AWS   *rouse.AWSKey      `json:"aws,omitempty"`
}

// Info describes a secret without its value.
type Info struct {
	Name             string
	Version          uint64 // 1 is the first value
	Created, Updated rouse.Instant
	Hosts            []string // that it may be sent to; none is all
	Kind             Kind
	Key              string // id of the key that seals it
	Unreadable       string // why this node cannot use it; "" if it can
}

// New returns the secrets of a store. They are read when Shared is loaded, and follow it.
func New(o Options) (*Secrets, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Keys == nil {
		o.Keys = func() (*Ring, error) { return nil, nil }
	}
	ring, err := o.Keys()
	if err != nil {
		return nil, err
	}
	s := &Secrets{opts: o, process: newSeed(), ring: ring, known: map[string]*value{}, count: map[string]int{},
		keys:    map[string]*signNote{},
		derived: map[string]*derivedNote{}, cache: &signingCache{}, changed: make(chan struct{}, 1)}
	s.values = o.Shared.Kind("secret", s.takeValue)
	s.signing = o.Shared.Kind("signing", s.takeSigning)
	s.derivedNotes = o.Shared.Kind(derivedKind, s.takeDerived)
	return s, nil
}

// Begin makes the keys that the store lacks. The shared notes have been loaded before.
func (s *Secrets) Begin(ctx context.Context) error {
	for _, begin := range []func(context.Context) error{s.checkDerived, s.beginSigning, s.beginDerived} {
		if err := begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Secrets) beginSigning(ctx context.Context) error {
	if !s.opts.Signing {
		return nil
	}
	s.mu.RLock()
	root, ring := s.keys[rootNote], s.ring
	s.mu.RUnlock()
	revision := rouse.NoRow
	switch {
	case root != nil && root.err == nil:
		return nil
	case root != nil && ring == nil && s.opts.Shares:
		return rouse.Refuse("secret-keys", "",
			"is not set, and other nodes have sealed the signing keys of the store: callbacks of this node would wait",
			"give this node the secret-keys of the others; if they are lost, make a new key with rouse secret new-key and start once with rouse serve --force")
	case root != nil && s.opts.Replace:
		s.opts.Log.Warn(
			"the signing keys of the store are replaced, as the keys that seal them are lost: give receivers the new ones")
		revision = root.revision
		if err := s.dropClosed(ctx); err != nil {
			return err
		}
	case root != nil && len(root.Keys) > 0 && (ring == nil || s.opts.Fresh):
		return rouse.Refuse("secret-keys", "",
			fmt.Sprintf("has no keys, and the signing keys of the store are sealed with the key %s: callbacks would wait",
				root.Keys[0].Sealed.Key),
			"put back the file of sealing keys, such as secrets.keys of the data directory; if it is lost, start once with rouse serve --force: "+
				"signing keys are replaced, which receivers need, and secrets have to be set again")
	case root != nil: // the operator may still add the key
		return nil
	}
	k := signKey{Created: s.opts.Now().UnixMilli(), Sealed: ring.sealValue(signPlace(rootNote), newSeed())}
	err := s.signing.Write(ctx, access.Change{Name: rootNote, Value: &signNote{Keys: []signKey{k}}, If: revision})
	if errors.Is(err, rouse.ErrConflict) {
		return nil // another node has just done so, and its keys were taken
	}
	return err
}

// dropClosed deletes the signing keys of namespaces that cannot be opened: those of the store take their
// place.
func (s *Secrets) dropClosed(ctx context.Context) error {
	var changes []access.Change
	s.mu.RLock()
	for name, n := range s.keys {
		if name != rootNote && n.err != nil {
			changes = append(changes, access.Change{Name: name, If: n.revision})
		}
	}
	s.mu.RUnlock()
	if len(changes) == 0 {
		return nil
	}
	return s.signing.Write(ctx, changes...)
}

// Run follows the sealing keys until ctx ends, and seals again the notes that an older key has sealed.
func (s *Secrets) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.readKeys()
		s.resealStale(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Changed returns a channel with an element after values of secrets changed.
func (s *Secrets) Changed() <-chan struct{} { return s.changed }

func (s *Secrets) signalChange() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// readKeys takes over the present sealing keys, and opens with them the notes that could not be opened
// before.
func (s *Secrets) readKeys() {
	ring, err := s.opts.Keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if err.Error() != s.keyErr {
			s.opts.Log.Warn("sealing keys not read again; the old ones stay in force", "error", err)
		}
		s.keyErr = err.Error()
		return
	}
	s.keyErr = ""
	if ring == nil || ring.equalsRing(s.ring) {
		return
	}
	s.ring = ring
	s.opts.Log.Info("sealing keys read", "keys", len(ring.keys), "newest", ring.newest)
	for place, v := range s.known {
		if v.err != nil {
			s.openSecret(place, v)
		}
	}
	for name, n := range s.keys {
		if n.err != nil {
			n.openSeeds(name, ring)
		}
	}
	for name, d := range s.derived {
		if d.err != nil {
			if s.deriveKey(name, d); d.err == nil {
				s.handOut(name, d)
			}
		}
	}
	s.cache = &signingCache{}
	s.signalChange()
}

// takeValue takes a note of a secret into memory. A value that was open stays open as long as its version is
// the same: another node may have sealed it with a key that this node gets in a moment.
func (s *Secrets) takeValue(n note.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.known[n.Name]
	namespace, _, _ := strings.Cut(n.Name, "/")
	if old != nil {
		s.count[namespace]--
	}
	if n.Revision == 0 {
		delete(s.known, n.Name)
		if s.count[namespace] == 0 {
			delete(s.count, namespace)
		}
		s.signalChange()
		return
	}
	v := &value{revision: n.Revision}
	if v.err = n.Read(&v.stored); v.err == nil {
		s.openSecret(n.Name, v)
	}
	same := old != nil && old.Version == v.Version && old.Created == v.Created &&
		old.sealPlace(n.Name) == v.sealPlace(n.Name)
	if v.err != nil && same && old.err == nil {
		v.plain, v.err = old.plain, nil
	}
	if v.err != nil {
		s.opts.Log.Error("a secret cannot be opened: fires that need it wait", "secret", n.Name, "error", v.err)
	}
	s.known[n.Name] = v
	s.count[namespace]++
	if !same {
		s.signalChange()
	}
}

// openSecret opens a secret. It requires s.mu.
func (s *Secrets) openSecret(place string, v *value) {
	plain, err := s.ring.openBox(v.sealPlace(place), v.Sealed)
	v.plain, v.err = string(plain), err
}

// Value returns a secret that is to be sent to a host. Its errors are for users, and do not contain secrets.
func (s *Secrets) Value(namespace, name, host string) (string, error) {
	v, err := s.usableSecret(namespace, name, host)
	if err == nil && v.Kind != (Kind{}) {
		err = fmt.Errorf("the secret %s of the namespace %s is not sent itself: use it in headers of callbacks, or another one",
			name, namespace)
	}
	if err != nil {
		return "", err
	}
	return v.plain, nil
}

// Credential returns a secret that is not sent itself to a host, but something that is made with it; nil for
// others. Its errors are as those of Value.
func (s *Secrets) Credential(namespace, name, host string) (*rouse.Credential, error) {
	v, err := s.usableSecret(namespace, name, host)
	if err != nil || v.Kind == (Kind{}) {
		return nil, err
	}
	return &rouse.Credential{Secret: v.plain, Version: v.Version, OAuth: v.OAuth, AWS: v.AWS}, nil
}

// usableSecret returns a copy of a secret that may be used for a host.
func (s *Secrets) usableSecret(namespace, name, host string) (value, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.known[namespace+"/"+name]
	switch {
	case v == nil:
		return value{}, fmt.Errorf("the namespace %s has no secret %s: set it with rouse secret set", namespace,
			rouse.Shorten(name, 64))
	case v.err != nil:
		return value{}, fmt.Errorf("the secret %s of the namespace %s cannot be used: %w", name, namespace, v.err)
	}
	return *v, v.mayGoTo(namespace, name, host)
}

// Check refuses a spec whose headers refer to secrets that the namespace does not have, or that may not be
// sent to its target. One that is not in memory, or may not, is looked up in the store: another node may just
// have written it.
func (s *Secrets) Check(ctx context.Context, namespace string, spec *rouse.Spec) error {
	host := targetHost(spec.Target)
	for _, ref := range spec.Webhook.SecretNames() {
		s.mu.RLock()
		v := s.known[namespace+"/"+ref.Name]
		s.mu.RUnlock()
		fits := func(st *stored) string {
			c := rouse.Credential{AWS: st.AWS}
			return c.HeaderFault(ref.Header, spec.Webhook.Headers[ref.Header], ref.Name)
		}
		if v != nil && v.mayGoTo(namespace, ref.Name, host) == nil && fits(&v.stored) == "" {
			continue
		}
		list, err := s.values.Get(ctx, namespace+"/"+ref.Name)
		if err != nil {
			return rouse.Unavailable(err)
		}
		if list[0].Revision == 0 {
			return rouse.Refuse("webhook.headers."+ref.Header, "{{secret:"+ref.Name+"}}",
				"names a secret that the namespace "+namespace+" does not have",
				"set it first, with rouse secret set "+ref.Name)
		}
		var st stored
		if err := list[0].Read(&st); err != nil {
			return err
		}
		if err := st.mayGoTo(namespace, ref.Name, host); err != nil {
			why, cure, _ := strings.Cut(err.Error(), ": ")
			return rouse.Refuse("webhook.headers."+ref.Header, "{{secret:"+ref.Name+"}}",
				"does not go with the target: "+why, cure)
		}
		if fault := fits(&st); fault != "" {
			why, cure, _ := strings.Cut(fault, ": ")
			return rouse.Refuse("webhook.headers."+ref.Header, "{{secret:"+ref.Name+"}}", why, cure)
		}
	}
	return nil
}

// checkKey refuses invalid names of secrets.
func checkKey(namespace, name string) error {
	return cmp.Or(rouse.CheckNamespace(namespace), rouse.CheckSecretName(name))
}

// Put creates a secret, or gives it a new value. It may be sent to some hosts from now on: with "*" to every
// one, and without any to those of the value before.
func (s *Secrets) Put(ctx context.Context, namespace, name, plain string, hosts ...string) (Info, error) {
	return s.PutKind(ctx, namespace, name, plain, Kind{}, hosts...)
}

// PutKind is Put for a secret of a kind; without one the secret stays what it is.
func (s *Secrets) PutKind(ctx context.Context, namespace, name, plain string, kind Kind,
	hosts ...string) (Info, error) {
	if err := cmp.Or(checkKey(namespace, name), s.opts.Control.Require(ctx, access.SecretsPut, namespace, "",
		nil)); err != nil {
		return Info{}, err
	}
	switch {
	case plain == "" || len(plain) > rouse.MaxSecret:
		return Info{}, rouse.Refuse("value", "", fmt.Sprintf("has %d bytes", len(plain)),
			fmt.Sprintf("use 1 to %d", rouse.MaxSecret))
	case !rouse.IsHeaderValue(plain):
		return Info{}, rouse.Refuse("value", "", "cannot be sent in a header",
			"use printable ASCII, without line ends, and without spaces at the ends")
	}
	if err := s.checkKind(namespace, kind); err != nil {
		return Info{}, err
	}
	allowed, err := checkHosts(hosts)
	if err != nil {
		return Info{}, err
	}
	place := namespace + "/" + name
	for {
		list, err := s.values.Get(ctx, place)
		if err != nil {
			return Info{}, rouse.Unavailable(err)
		}
		now := s.opts.Now().UnixMilli()
		next := stored{Created: now}
		if err := list[0].Read(&next); err != nil {
			return Info{}, err
		}
		s.mu.RLock()
		ring, ofNamespace, all := s.ring, s.count[namespace], len(s.known)
		s.mu.RUnlock()
		switch {
		case s.opts.Exists != nil && !s.opts.Exists(namespace):
			return Info{}, rouse.Refuse("namespace", namespace, "has not been created", "create it, or use another one")
		case ring == nil:
			return Info{}, rouse.Refuse("secret-keys", "", "is not set, and secrets are kept only if they are sealed",
				"give each node of the store the same sealing key: rouse secret new-key prints one")
		case list[0].Revision == 0 && ofNamespace >= MaxPerNamespace:
			return Info{}, fmt.Errorf("the namespace %s has %d secrets, as many as it may: delete one: %w", namespace,
				ofNamespace, rouse.ErrFull)
		case list[0].Revision == 0 && all >= MaxAll:
			return Info{}, fmt.Errorf("the store has %d secrets, as many as it may: delete one: %w", all, rouse.ErrFull)
		}
		if len(hosts) > 0 {
			next.Hosts = allowed
		}
		if kind != (Kind{}) {
			next.Kind = kind
		}
		next.Version, next.Updated = next.Version+1, now
		next.Sealed = ring.sealValue(next.sealPlace(place), []byte(plain))
		err = s.values.Write(ctx, access.Change{Name: place, Value: &next, If: noteRevision(list[0])})
		if !errors.Is(err, rouse.ErrConflict) {
			return next.secretInfo(name, nil), err
		}
	}
}

// checkKind refuses a kind that could not be used.
func (s *Secrets) checkKind(namespace string, kind Kind) error {
	if kind.AWS != nil && kind.OAuth != nil {
		return rouse.Refuse("aws", "", "is given with oauth", "give one of them")
	}
	if kind.AWS != nil {
		return kind.AWS.Check()
	}
	if kind.OAuth == nil {
		return nil
	}
	if err := kind.OAuth.Check(); err != nil || s.opts.TokenURL == nil {
		return err
	}
	return s.opts.TokenURL(namespace, kind.OAuth.TokenURL)
}

// Delete deletes a secret. Fires of timers that refer to it wait.
func (s *Secrets) Delete(ctx context.Context, namespace, name string) error {
	if err := cmp.Or(checkKey(namespace, name), s.opts.Control.Require(ctx, access.SecretsPut, namespace, "",
		nil)); err != nil {
		return err
	}
	for {
		list, err := s.values.Get(ctx, namespace+"/"+name)
		if err != nil {
			return rouse.Unavailable(err)
		}
		if list[0].Revision == 0 {
			return fmt.Errorf("secret %q: %w", name, rouse.ErrNotFound)
		}
		err = s.values.Write(ctx, access.Change{Name: list[0].Name, If: list[0].Revision})
		if !errors.Is(err, rouse.ErrConflict) {
			return err
		}
	}
}

// noteRevision is the condition that a note is as it was read.
func noteRevision(n note.Note) uint64 {
	if n.Revision == 0 {
		return rouse.NoRow
	}
	return n.Revision
}

// Count returns how many secrets a namespace has.
func (s *Secrets) Count(namespace string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count[namespace]
}

// List describes the secrets of a namespace, ordered by name.
func (s *Secrets) List(ctx context.Context, namespace string) ([]Info, error) {
	if err := cmp.Or(rouse.CheckNamespace(namespace),
		s.opts.Control.Require(ctx, access.SecretsRead, namespace, "", nil)); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []Info
	for place, v := range s.known {
		if name, ok := strings.CutPrefix(place, namespace+"/"); ok {
			infos = append(infos, v.secretInfo(name, v.err))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func (st *stored) secretInfo(name string, unreadable error) Info {
	i := Info{Name: name, Version: st.Version, Created: rouse.Instant(st.Created), Updated: rouse.Instant(st.Updated),
		Hosts: st.Hosts, Kind: st.Kind, Key: st.Sealed.Key}
	if unreadable != nil {
		i.Unreadable = unreadable.Error()
	}
	return i
}

// Stats are numbers for metrics.
type Stats struct{ Secrets, Unreadable, Stale int }

// Stats returns how many secrets there are, and, together with signing keys, how many this node cannot open,
// and how many an older key seals.
func (s *Secrets) Stats() (st Stats) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	count := func(err error, sealed ...box) {
		if err != nil {
			st.Unreadable++
		}
		if slices.ContainsFunc(sealed, s.ring.isStale) {
			st.Stale++
		}
	}
	for _, v := range s.known {
		count(v.err, v.Sealed)
	}
	for _, n := range s.keys {
		count(n.err, n.sealedBoxes()...)
	}
	for _, d := range s.derived {
		count(d.err, box{Key: d.Key})
	}
	st.Secrets = len(s.known)
	return st
}
