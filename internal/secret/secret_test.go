package secret_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/store/mem"
)

const marker = "marker-4711"

// keys are the sealing keys that a node has at the moment.
type keys struct {
	mu   sync.Mutex
	text string
}

func (k *keys) set(list ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text = strings.Join(list, "\n")
}

func (k *keys) ring() (*secret.Ring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text == "" {
		return nil, nil
	}
	return secret.ParseRing([]byte(k.text))
}

// open returns the secrets of a node on a store, which follow it until the test ends.
func open(t *testing.T, store rouse.Store, k *keys) *secret.Secrets {
	t.Helper()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	s, err := secret.New(secret.Options{Shared: shared, Signing: true, Keys: k.ring})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(shared.Load(t.Context()), s.Begin(t.Context())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { shared.Run(ctx) })
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// stored returns everything that the store has, as text.
func stored(t *testing.T, store rouse.Store) string {
	t.Helper()
	page, err := store.List(t.Context(), rouse.Query{Namespace: access.Reserved, States: []rouse.State{rouse.StateNote}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range page.Rows {
		fmt.Fprintf(&b, "%q %s\n", page.Rows[i].Key.Name, page.Rows[i].Body)
	}
	return b.String()
}

func TestSecretsAreSealedAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, k := mem.New(), &keys{text: secret.NewKey()}
		a, b := open(t, store, k), open(t, store, k)
		for i, value := range []string{marker + "-first", marker + "-second"} {
			info, err := a.Put(t.Context(), "acme", "stripe", value)
			if err != nil || info.Version != uint64(i+1) {
				t.Fatalf("%+v, %v", info, err)
			}
			if got, err := a.Value("acme", "stripe", "any.example"); got != value {
				t.Errorf("here: %q, %v", got, err)
			}
			time.Sleep(5 * time.Second)
			if got, err := b.Value("acme", "stripe", "any.example"); got != value {
				t.Errorf("on the other node after 5 s: %q, %v", got, err)
			}
		}
		if text := stored(t, store); strings.Contains(text, marker) || !strings.Contains(text, "acme/stripe") {
			t.Errorf("the store has %s", text)
		}
		if _, err := a.Value("other", "stripe", "any.example"); err == nil {
			t.Error("another namespace has the secret")
		}
		list, err := b.List(t.Context(), "acme")
		if err != nil || len(list) != 1 || list[0].Name != "stripe" || list[0].Version != 2 || list[0].Unreadable != "" || strings.Contains(fmt.Sprintf("%+v", list), marker) {
			t.Errorf("%+v, %v", list, err)
		}
		if err := b.Delete(t.Context(), "acme", "stripe"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := a.Value("acme", "stripe", "any.example"); err == nil || !strings.Contains(err.Error(), "no secret stripe") {
			t.Errorf("5 s after another node deleted it: %v", err)
		}
		if err := a.Delete(t.Context(), "acme", "stripe"); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		if text := stored(t, store); strings.Contains(text, "stripe") {
			t.Errorf("the store has %s", text)
		}
	})
}

// Keys are replaced while two nodes serve, in the documented order; afterwards the old key is not needed.
func TestRotationOfSealingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		first, second := secret.NewKey(), secret.NewKey()
		ka, kb := &keys{text: first}, &keys{text: first}
		a, b := open(t, store, ka), open(t, store, kb)
		for i := range 30 {
			if _, err := a.Put(t.Context(), "acme", fmt.Sprint("s", i), marker); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.RotateSigning(t.Context(), "acme", time.Hour); err != nil {
			t.Fatal(err)
		}
		signing := func(s *secret.Secrets, namespace string) string {
			set, err := s.Signing(namespace)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(set.Keys)
		}
		wantAcme, wantOther := signing(a, "acme"), signing(a, "other")
		check := func(when string, nodes ...*secret.Secrets) {
			t.Helper()
			for _, s := range nodes {
				for i := range 30 {
					if got, err := s.Value("acme", fmt.Sprint("s", i), "any.example"); got != marker {
						t.Fatalf("%s: %q, %v", when, got, err)
					}
				}
				if signing(s, "acme") != wantAcme || signing(s, "other") != wantOther {
					t.Errorf("%s: other signing keys", when)
				}
			}
		}
		time.Sleep(5 * time.Second)
		check("before", a, b)
		ka.set(second, first) // b does not have the new key yet: what was open stays open
		time.Sleep(10 * time.Second)
		check("with the new key on one node", a, b)
		if st := a.Stats(); st.Stale != 0 || st.Unreadable != 0 {
			t.Errorf("not everything was sealed again: %+v", st)
		}
		kb.set(second, first)
		time.Sleep(10 * time.Second)
		ka.set(second)
		kb.set(second)
		time.Sleep(10 * time.Second)
		check("without the old key", a, b, open(t, store, kb))
		if st := b.Stats(); st.Stale != 0 || st.Unreadable != 0 || st.Secrets != 30 {
			t.Errorf("%+v", st)
		}
		// A node without the key reports it, and has the secrets as soon as it gets the key.
		kc := &keys{text: first}
		c := open(t, store, kc)
		if _, err := c.Value("acme", "s1", "any.example"); err == nil || !strings.Contains(err.Error(), "this node does not have") {
			t.Errorf("with a wrong key: %v", err)
		}
		if _, err := c.Signing("other"); err == nil {
			t.Error("signs with a key that cannot be opened")
		}
		kc.set(second)
		time.Sleep(5 * time.Second)
		check("after it got the key", c)
	})
}

// Without a sealing key there are signing keys, as nodes of a store have to sign with the same, and no
// secrets; they are sealed once there is one.
func TestWithoutSealingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ka, kb := mem.New(), &keys{}, &keys{}
		a, b := open(t, store, ka), open(t, store, kb)
		sa, err1 := a.Signing("x")
		sb, err2 := b.Signing("x")
		if err := errors.Join(err1, err2); err != nil || sa.Keys[0].ID != sb.Keys[0].ID {
			t.Fatalf("two nodes sign with other keys: %v", err)
		}
		if _, err := a.Put(t.Context(), "acme", "s", marker); err == nil || !strings.Contains(err.Error(), "secret-keys") {
			t.Errorf("kept a secret without a key: %v", err)
		}
		key := secret.NewKey()
		ka.set(key)
		kb.set(key)
		time.Sleep(5 * time.Second)
		if st := a.Stats(); st.Stale != 0 || st.Unreadable != 0 || strings.Contains(stored(t, store), `"sealed":{"data"`) {
			t.Errorf("the signing keys are not sealed: %+v", st)
		}
		if sb, err := b.Signing("x"); err != nil || sa.Keys[0].ID != sb.Keys[0].ID {
			t.Errorf("another signing key: %v", err)
		}
	})
}

// TestKeysThatAreGone has a store without the keys that seal it. A node that has no keys, or made its own
// just now, is refused, and changes nothing; keys that the operator gives may still be completed. Only when
// the operator tells that the keys are lost, signing keys are replaced.
func TestKeysThatAreGone(t *testing.T) {
	for _, c := range []struct{ fresh, none, replace, begins, signs bool }{
		{begins: true},
		{fresh: true},
		{none: true},
		{replace: true, begins: true, signs: true},
		{fresh: true, replace: true, begins: true, signs: true},
	} {
		store := mem.New()
		first := open(t, store, &keys{text: secret.NewKey()})
		if _, err := first.RotateSigning(t.Context(), "rotated", 0); err != nil {
			t.Fatal(err)
		}
		before := stored(t, store)
		shared := access.NewShared(store, slog.New(slog.DiscardHandler))
		k := &keys{text: secret.NewKey()}
		if c.none {
			k.text = ""
		}
		second, err := secret.New(secret.Options{Shared: shared, Signing: true, Keys: k.ring, Fresh: c.fresh, Replace: c.replace})
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(shared.Load(t.Context()), second.Begin(t.Context()))
		if c.begins != (err == nil) || err != nil && !(strings.HasPrefix(err.Error(), "secret-keys: ") && strings.Contains(err.Error(), "--force")) {
			t.Errorf("%+v: %v", c, err)
		}
		if after := stored(t, store); c.replace == (after == before) {
			t.Errorf("%+v: the store has\n%s\nbefore\n%s", c, after, before)
		}
		for _, namespace := range []string{"a", "rotated"} {
			set, err := second.Signing(namespace)
			if c.signs != (err == nil) || c.signs && len(set.Keys) != 1 {
				t.Errorf("%+v: the keys of %s are %v, %v", c, namespace, set, err)
			}
		}
	}
}

// TestSigningKeysThatCannotBeOpened are replaced by a rotation that leaves none of them, and by no other.
func TestSigningKeysThatCannotBeOpened(t *testing.T) {
	store := mem.New()
	if _, err := open(t, store, &keys{text: secret.NewKey()}).RotateSigning(t.Context(), "rotated", 0); err != nil {
		t.Fatal(err)
	}
	other := open(t, store, &keys{text: secret.NewKey()})
	for _, namespace := range []string{"rotated", "derived"} {
		if keys, err := other.PublicKeys(namespace); err == nil {
			t.Errorf("keys that cannot be opened: %v", keys)
		}
		if _, err := other.RotateSigning(t.Context(), namespace, time.Hour); err == nil {
			t.Errorf("an overlap with keys that cannot be opened")
		}
		if set, err := other.RotateSigning(t.Context(), namespace, 0); err != nil || len(set.Keys) != 1 {
			t.Errorf("without overlap: %v, %v", set, err)
		}
	}
	shared := access.NewShared(mem.New(), slog.New(slog.DiscardHandler))
	none, err := secret.New(secret.Options{Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.RotateSigning(t.Context(), "a", 0); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("where callbacks are not signed: %v", err)
	}
}

// TestPublicKeysAreForEverybody: what callers without credentials ask for displaces no keys that are in use.
func TestPublicKeysAreForEverybody(t *testing.T) {
	a := open(t, mem.New(), &keys{text: secret.NewKey()})
	used, err := a.Signing("acme")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := a.PublicKeys(fmt.Sprint("n", i)); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := a.Signing("acme"); err != nil || again != used || a.Cached() != 1 {
		t.Errorf("keys that are not in use are kept, %d in all: %v", a.Cached(), err)
	}
	if keys, err := a.PublicKeys("acme"); err != nil || len(keys) != 1 || keys[0].ID != used.Keys[0].ID {
		t.Errorf("%v, %v", keys, err)
	}
	if _, err := a.PublicKeys("_root"); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("a name that no namespace has: %v", err)
	}
}

// What is sealed for one place does not open in another: a client of the store cannot give one namespace the
// secret of another.
func TestMovedSecretsDoNotOpen(t *testing.T) {
	store, k := mem.New(), &keys{text: secret.NewKey()}
	a := open(t, store, k)
	if _, err := a.Put(t.Context(), "acme", "stripe", marker); err != nil {
		t.Fatal(err)
	}
	page, err := store.List(t.Context(), rouse.Query{Namespace: access.Reserved, Prefix: "\x01secret/acme/", States: []rouse.State{rouse.StateNote}, Limit: 10})
	if err != nil || len(page.Rows) != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	row := page.Rows[0]
	row.Key.Name = strings.Replace(row.Key.Name, "acme", "evil", 1)
	if _, err := store.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: rouse.NoRow, To: &row}}); err != nil {
		t.Fatal(err)
	}
	b := open(t, store, k)
	if got, err := b.Value("evil", "stripe", "any.example"); err == nil || got != "" {
		t.Errorf("moved: %q, %v", got, err)
	}
	if got, err := b.Value("acme", "stripe", "any.example"); got != marker {
		t.Errorf("not moved: %q, %v", got, err)
	}
}

func TestSigningKeysOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, k := mem.New(), &keys{text: secret.NewKey()}
		a, b := open(t, store, k), open(t, store, k)
		get := func(s *secret.Secrets, namespace string) []secret.SigningKey {
			t.Helper()
			set, err := s.Signing(namespace)
			if err != nil {
				t.Fatal(err)
			}
			return set.Keys
		}
		old, other := get(a, "acme"), get(a, "other")
		if len(old) != 1 || old[0].ID == other[0].ID || string(old[0].HMAC) == string(other[0].HMAC) {
			t.Fatalf("%v, %v", old, other)
		}
		if _, err := a.RotateSigning(t.Context(), "acme", time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for _, s := range []*secret.Secrets{a, b} {
			if now := get(s, "acme"); len(now) != 2 || now[1].ID != old[0].ID || now[1].Until == 0 || now[0].Until != 0 {
				t.Errorf("during the overlap: %v", now)
			}
			if get(s, "other")[0].ID != other[0].ID {
				t.Error("another namespace has another key")
			}
		}
		time.Sleep(time.Hour)
		for _, s := range []*secret.Secrets{a, b} {
			if now := get(s, "acme"); len(now) != 1 || now[0].ID == old[0].ID {
				t.Errorf("after the overlap: %v", now)
			}
		}
		for range secret.MaxSigningKeys - 1 {
			if _, err := b.RotateSigning(t.Context(), "acme", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.RotateSigning(t.Context(), "acme", time.Hour); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("one key too many: %v", err)
		}
		set, err := a.RotateSigning(t.Context(), "acme", 0)
		if err != nil || len(set.Keys) != 1 {
			t.Errorf("without overlap: %v, %v", set, err)
		}
		for _, overlap := range []time.Duration{-1, secret.MaxOverlap + 1} {
			if _, err := a.RotateSigning(t.Context(), "acme", overlap); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("an overlap of %v: %v", overlap, err)
			}
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	a := open(t, mem.New(), &keys{text: secret.NewKey()})
	for _, c := range []struct{ namespace, name, value string }{
		{"Acme", "s", "v"}, {"acme", "", "v"}, {"acme", "a/b", "v"}, {"acme", "A", "v"}, {"acme", strings.Repeat("a", 65), "v"},
		{"acme", "s", ""}, {"acme", "s", strings.Repeat("v", rouse.MaxSecret+1)}, {"acme", "s", marker + "\n"}, {"acme", "s", " " + marker}, {"acme", "s", marker + "é"},
		{access.Reserved, "s", "v"},
	} {
		_, err := a.Put(t.Context(), c.namespace, c.name, c.value)
		if !errors.As(err, new(*rouse.Invalid)) || strings.Contains(err.Error(), marker) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for i := range secret.MaxPerNamespace + 1 {
		_, err := a.Put(t.Context(), "full", fmt.Sprint("s", i), "v")
		if i < secret.MaxPerNamespace && err != nil || i == secret.MaxPerNamespace && !errors.Is(err, rouse.ErrFull) {
			t.Fatalf("secret %d: %v", i, err)
		}
	}
	if _, err := a.Put(t.Context(), "full", "s0", "another value"); err != nil {
		t.Errorf("a new value in a full namespace: %v", err)
	}
	if err := a.Delete(t.Context(), "full", "none"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("a secret that does not exist is deleted: %v", err)
	}
	spec := rouse.Spec{Webhook: rouse.Webhook{Headers: map[string]string{"X": "{{secret:none}}"}}}
	if err := a.Check(t.Context(), "full", &spec); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("a header with a secret that does not exist: %v", err)
	}
	full := mem.New()
	shared := access.NewShared(full, slog.New(slog.DiscardHandler))
	kind := shared.Kind("secret", func(note.Note) {})
	var changes []access.Change
	for i := range secret.MaxAll {
		changes = append(changes, access.Change{Name: fmt.Sprintf("n%d/s", i), Value: map[string]int{"version": 1}, If: rouse.NoRow})
	}
	if err := kind.Write(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	b := open(t, full, &keys{text: secret.NewKey()})
	if _, err := b.Put(t.Context(), "other", "s", "v"); !errors.Is(err, rouse.ErrFull) {
		t.Errorf("one secret too many in the store: %v", err)
	}
	if _, err := b.Put(t.Context(), "n1", "s", "v"); err != nil {
		t.Errorf("a new value in a full store: %v", err)
	}
	key := secret.NewKey()
	short := "rousekey_" + base64.StdEncoding.EncodeToString(make([]byte, 16))
	for _, text := range []string{"", "# none", "x", key[:20], key + "x", strings.ToUpper(key), strings.TrimPrefix(key, "rousekey_"), short} {
		if _, err := secret.ParseRing([]byte("# a comment\n" + text)); err == nil || strings.Contains(err.Error(), key[12:20]) {
			t.Errorf("%.12s: %v", text, err)
		}
	}
}

// TestARepeatedRotationIsTheSame: a repeated request with an Idempotency-Key has the keys of the first one.
func TestARepeatedRotationIsTheSame(t *testing.T) {
	store := mem.New()
	s := open(t, store, &keys{text: secret.NewKey()})
	ctx := access.Repeatable(t.Context(), "k")
	first, err := s.RotateSigning(ctx, "acme", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := s.RotateSigning(ctx, "acme", time.Hour)
		if err != nil || len(again.Keys) != len(first.Keys) || again.Keys[0].ID != first.Keys[0].ID {
			t.Fatalf("%+v, %v, first %+v", again, err, first)
		}
	}
	if _, err := s.RotateSigning(ctx, "acme", 2*time.Hour); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("another overlap with the same key: %v", err)
	}
	if other, err := s.RotateSigning(access.Repeatable(t.Context(), "l"), "acme", time.Hour); err != nil || other.Keys[0].ID == first.Keys[0].ID {
		t.Errorf("another key: %v", err)
	}
}
