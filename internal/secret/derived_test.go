package secret_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/store/mem"
)

// deriving is a node that derives keys.
type deriving struct {
	*secret.Secrets
	mu   sync.Mutex
	keys map[string][]byte
}

func (d *deriving) key(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[name]
}

// deriveBytes returns a node that derives keys, and follows its store until the test ends.
func deriveBytes(t *testing.T, store rouse.Store, k *keys, more func(o *secret.Options)) (*deriving, error) {
	t.Helper()
	d := &deriving{keys: map[string][]byte{}}
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	use := func(name string) func([]byte, time.Time) {
		return func(key []byte, _ time.Time) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.keys[name] = key
		}
	}
	o := secret.Options{Shared: shared, Signing: true, Shares: true, Keys: k.ring, Control: access.NewControl(nil),
		Derived: map[string]func([]byte, time.Time){secret.SessionKey: use(secret.SessionKey), secret.NodeKey: use(secret.NodeKey)}}
	if more != nil {
		more(&o)
	}
	var err error
	if d.Secrets, err = secret.New(o); err == nil {
		err = errors.Join(shared.Load(t.Context()), d.Begin(t.Context()))
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { shared.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d, nil
}

// TestDerivedKeys: all nodes of a store derive the same keys, a new one after a rotation or from a new
// sealing key, and the store has none of them.
func TestDerivedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first, second := mem.New(), secret.NewKey(), secret.NewKey()
		ka, kb := &keys{text: first}, &keys{text: first}
		a, err := deriveBytes(t, store, ka, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := deriveBytes(t, store, kb, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		check := func(when string) {
			t.Helper()
			for _, name := range []string{secret.SessionKey, secret.NodeKey} {
				key := a.key(name)
				if len(key) != 32 || !bytes.Equal(key, b.key(name)) {
					t.Errorf("%s: the key %s is %x and %x", when, name, key, b.key(name))
				}
				if seen[string(key)] {
					t.Errorf("%s: the key %s was there before", when, name)
				}
				seen[string(key)] = true
			}
			for _, d := range []*deriving{a, b} {
				if st := d.Stats(); st.Stale != 0 || st.Unreadable != 0 {
					t.Errorf("%s: %+v", when, st)
				}
			}
		}
		check("at first")
		reader := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: "operator", Scope: access.Everything()}}})
		if err := a.RotateSessionKey(reader); !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("a rotation without the verb: %v", err)
		}
		admin := access.With(t.Context(), &access.Principal{ID: "key:y", Grants: []access.Grant{{Role: "admin", Scope: access.Everything()}}})
		if err := a.RotateSessionKey(admin); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		check("after a rotation")
		for range 2 { // the second one is a repetition
			if err := b.RotateSessionKey(access.Repeatable(admin, "k")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if seen[string(b.key(secret.SessionKey))] {
				t.Error("a rotation with an Idempotency-Key has no effect")
			}
		}
		once := b.key(secret.SessionKey)
		if err := a.RotateSessionKey(access.Repeatable(admin, "k")); err != nil || !bytes.Equal(once, a.key(secret.SessionKey)) {
			t.Errorf("a repeated rotation is carried out again: %v", err)
		}
		check("after a rotation that was repeated")
		for _, k := range []*keys{ka, kb} {
			k.set(first, second)
		}
		time.Sleep(5 * time.Second)
		for _, k := range []*keys{ka, kb} {
			k.set(second, first)
		}
		time.Sleep(10 * time.Second)
		check("from a new sealing key")
		for _, k := range []*keys{ka, kb} {
			k.set(second)
		}
		time.Sleep(10 * time.Second)
		kc := &keys{text: first}
		c, err := deriveBytes(t, store, kc, nil)
		if err != nil || c.key(secret.SessionKey) != nil || c.Stats().Unreadable == 0 {
			t.Errorf("with another sealing key a node has a key, or replaces that of others: %v", err)
		}
		kc.set(second)
		time.Sleep(5 * time.Second)
		if !bytes.Equal(c.key(secret.SessionKey), a.key(secret.SessionKey)) {
			t.Error("a node that got the sealing key has another key")
		}
		if err := secret.DropDerived(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		d, err := deriveBytes(t, store, kc, nil)
		if err != nil || len(d.key(secret.NodeKey)) != 32 || seen[string(d.key(secret.NodeKey))] {
			t.Errorf("after a restore there are old keys: %v", err)
		}
	})
}

// TestDerivedKeysWithoutSealingKey: nodes that share a store are refused, and write nothing; a node that has
// its store to itself has keys that end with its process.
func TestDerivedKeysWithoutSealingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		_, err := deriveBytes(t, store, &keys{}, nil)
		if !errors.As(err, new(*rouse.Invalid)) || !strings.HasPrefix(err.Error(), "secret-keys: ") {
			t.Errorf("nodes that share a store: %v", err)
		}
		if text := stored(t, store); text != "" {
			t.Errorf("a node that was refused has written %s", text)
		}
		alone := func(o *secret.Options) { o.Shares = false }
		var last []byte
		for _, k := range []*keys{{}, {}, {text: secret.NewKey()}, {text: secret.NewKey()}} {
			d, err := deriveBytes(t, store, k, alone)
			if err != nil || len(d.key(secret.SessionKey)) != 32 || bytes.Equal(last, d.key(secret.SessionKey)) {
				t.Fatalf("%x, %v", d.key(secret.SessionKey), err)
			}
			time.Sleep(5 * time.Second)
			last = d.key(secret.SessionKey)
		}
	})
}

// TestDerivedKeysAreOfTheirPlace: a salt that is moved to another note of the store makes another key there.
func TestDerivedKeysAreOfTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, k := mem.New(), &keys{text: secret.NewKey()}
		before, err := deriveBytes(t, store, k, nil)
		if err != nil {
			t.Fatal(err)
		}
		place := func(name string) rouse.Key {
			return rouse.Key{Namespace: access.Reserved, Name: "\x01derived/" + name}
		}
		rows, err := store.Get(t.Context(), []rouse.Key{place(secret.NodeKey)})
		if err != nil || rows[0].Revision == 0 {
			t.Fatal(rows, err)
		}
		rows[0].Key = place(secret.SessionKey)
		if _, err := store.Apply(t.Context(), []rouse.Change{{Key: rows[0].Key, If: rouse.AnyRevision, To: &rows[0]}}); err != nil {
			t.Fatal(err)
		}
		after, err := deriveBytes(t, store, k, nil)
		if err != nil || bytes.Equal(after.key(secret.SessionKey), before.key(secret.SessionKey)) || bytes.Equal(after.key(secret.SessionKey), before.key(secret.NodeKey)) {
			t.Errorf("the salt of nodes makes their key, or has no effect, as that of sessions: %v", err)
		}
	})
}

// TestNodesWithOtherNewestKeysDeriveOnce: while nodes have the same sealing keys in another order, as in the
// middle of a replacement, each derives keys from its newest once, and then they keep what is there: else
// sessions would end every two seconds.
func TestNodesWithOtherNewestKeysDeriveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first, second := mem.New(), secret.NewKey(), secret.NewKey()
		ka, kb := &keys{text: first}, &keys{text: first}
		ka.set(first, second)
		kb.set(first, second)
		var changes atomic.Int64
		count := func(o *secret.Options) {
			use := o.Derived[secret.SessionKey]
			o.Derived[secret.SessionKey] = func(key []byte, since time.Time) { changes.Add(1); use(key, since) }
		}
		a, err := deriveBytes(t, store, ka, count)
		if err != nil {
			t.Fatal(err)
		}
		b, err := deriveBytes(t, store, kb, nil)
		if err != nil {
			t.Fatal(err)
		}
		changes.Store(0)
		ka.set(second, first)
		time.Sleep(time.Minute)
		if n := changes.Load(); n == 0 || n > 2 {
			t.Errorf("in a minute the key of sessions was replaced %d times, want once for each newest key", n)
		}
		kb.set(second, first)
		time.Sleep(10 * time.Second)
		if !bytes.Equal(a.key(secret.SessionKey), b.key(secret.SessionKey)) || a.Stats().Stale != 0 {
			t.Errorf("with one newest key the nodes have other keys, or an old one: %+v", a.Stats())
		}
	})
}
