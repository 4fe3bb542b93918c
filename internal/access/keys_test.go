package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// member is access control of one node of a store.
type member struct {
	*Gate
	shared *Shared
}

func join(t testing.TB, store rouse.Store) *member {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m := &member{&Gate{Control: NewControl(nil)}, NewShared(store, log)}
	m.Keys = NewKeys(m.shared, m.Control, log)
	m.Roles = NewRoles(m.shared, m.Control, m.Keys, log)
	m.Authenticators = Chain{m.Keys}
	if err := m.shared.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) enter(text, method string) (context.Context, error) {
	return m.Enter(context.Background(), method, &Credentials{Bearer: text})
}

var writer = []Grant{{"writer", Scope{Namespaces: []string{"a"}}}}

const getMethod = "/rouse.v1.Timers/Get"

func TestKeysAreTheSameOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		one, two := join(t, store), join(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go two.shared.Run(ctx)
		go two.Keys.Run(ctx)
		root := AsSystem(ctx)
		key, text, err := one.Keys.Create(root, Key{Name: "ci", Grants: writer})
		if err != nil {
			t.Fatal(err)
		}
		within := func(what string, holds func() bool) {
			t.Helper()
			began := time.Now()
			for !holds() {
				if time.Sleep(100 * time.Millisecond); time.Since(began) > 5*time.Second {
					t.Fatalf("%s: not within 5 s", what)
				}
			}
		}
		within("a new key is valid", func() bool { _, err := two.enter(text, getMethod); return err == nil })
		entered, err := two.enter(text, getMethod)
		if err != nil {
			t.Fatal(err)
		}
		stream, over := two.Bound(entered, From(entered))
		defer over()

		time.Sleep(2 * usedEvery) // the last use is stored during it
		if list, _, err := one.Keys.List(root, "", "", 10); err != nil || len(list) != 1 || list[0].Used.IsZero() {
			t.Errorf("listed %+v, %v", list, err)
		}
		if err := one.Keys.Revoke(root, key.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := one.enter(text, getMethod); !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("on the node that revoked it: %v", err)
		}
		within("a revoked key is refused", func() bool { _, err := two.enter(text, getMethod); return errors.Is(err, rouse.ErrUnauthenticated) })
		synctest.Wait()
		if stream.Err() == nil || !errors.Is(Ended(stream), rouse.ErrUnauthenticated) {
			t.Errorf("its stream ended with %v", context.Cause(stream))
		}
		if list, _, err := two.Keys.List(root, "", "", 10); err != nil || len(list) != 0 {
			t.Errorf("listed %+v, %v", list, err)
		}
	})
}

func TestRolesOfTheirOwn(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	if err := m.Roles.Put(root, Role{"pauser", []Verb{TimersRead, TimersPause}}); err != nil {
		t.Fatal(err)
	}
	_, text, err := m.Keys.Create(root, Key{Name: "p", Grants: []Grant{{"pauser", Scope{Namespaces: []string{"a"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := m.enter(text, "/rouse.v1.Timers/Pause")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.enter(text, "/rouse.v1.Timers/Create"); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a verb that the role does not have: %v", err)
	}
	if err := m.Roles.Delete(root, "pauser"); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("a role that a key has is deleted: %v", err)
	}
	stream, over := m.Bound(ctx, From(ctx))
	defer over()
	// Whatever authenticates a caller: its streams end with the role as well.
	token, over := m.Bound(root, &Principal{ID: "token:x#y", Grants: []Grant{{"reader", Everything()}, {"pauser", Everything()}}})
	defer over()
	other, over := m.Bound(root, &Principal{ID: "token:x#z", Grants: []Grant{{"reader", Everything()}, {"coming", Everything()}}})
	defer over()
	for _, verbs := range [][]Verb{{TimersPause, TimersRead}, {TimersRead}} { // the first are the same
		if stream.Err() != nil || token.Err() != nil {
			t.Error("streams end while their role is the same")
		}
		if err := m.Roles.Put(root, Role{"pauser", verbs}); err != nil {
			t.Fatal(err)
		}
	}
	if <-token.Done(); Ended(token) == nil || Ended(other) != nil {
		t.Errorf("with a token: %v, with another role: %v", token.Err(), other.Err())
	}
	if err := m.Roles.Put(root, Role{"coming", []Verb{TimersRead}}); err != nil {
		t.Fatal(err)
	}
	if <-other.Done(); Ended(other) == nil {
		t.Error("streams go on when their role has come")
	}
	if err := m.Roles.Delete(root, "coming"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.enter(text, "/rouse.v1.Timers/Pause"); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a verb that was taken away: %v", err)
	}
	<-stream.Done()
	if Ended(stream) == nil {
		t.Error("streams go on when their role has changed")
	}
	for name, role := range map[string]Role{"built in": {"admin", []Verb{TimersRead}}, "no verb": {"x", []Verb{"everything"}}, "none": {"x", nil},
		"no name": {"", []Verb{TimersRead}}, "twice": {"x", []Verb{TimersRead, TimersRead}}, "open": {"x", []Verb{Open}}} {
		if err := m.Roles.Put(root, role); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	limited := With(t.Context(), &Principal{ID: "key:x", Grants: []Grant{{"admin", Scope{Namespaces: []string{"a"}}}}})
	if err := m.Roles.Put(limited, Role{"y", []Verb{TimersRead}}); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a tenant defines a role: %v", err)
	}
}

func TestAMethodWithoutAVerbIsRefused(t *testing.T) {
	m := join(t, mem.New())
	_, text, err := m.Keys.Create(AsSystem(t.Context()), Key{Name: "root", Grants: []Grant{{"admin", Everything()}}})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	if _, err := m.enter(text, "/rouse.v1.Timers/New"); !errors.As(err, &refusal) || refusal.Reason != ReasonUnmapped {
		t.Errorf("%v", err)
	}
}

func TestTheSecretIsNotStored(t *testing.T) {
	store := mem.New()
	m := join(t, store)
	_, text, err := m.Keys.Create(AsSystem(t.Context()), Key{Name: "ci", Grants: writer})
	if err != nil {
		t.Fatal(err)
	}
	page, err := store.List(t.Context(), rouse.Query{Namespace: Reserved, States: []rouse.State{rouse.StateNote}, Limit: 10})
	if err != nil || len(page.Rows) == 0 {
		t.Fatalf("%d rows, %v", len(page.Rows), err)
	}
	for _, r := range page.Rows {
		if strings.Contains(string(r.Body), text[len(text)-secretLen:]) {
			t.Errorf("%q has the secret", r.Key.Name)
		}
	}
}

func TestAdminKeysOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "admin.key")
		write := func(text string, mode os.FileMode) {
			if err := errors.Join(os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode)); err != nil {
				t.Fatal(err)
			}
		}
		log := slog.New(slog.DiscardHandler)
		old, next := GenerateKey(), GenerateKey()
		for what, text := range map[string]string{"empty": "", "no key": "hello\n", "three": old + "\n" + next + "\n" + GenerateKey()} {
			write(text, 0o600)
			if _, err := OpenAdminKeys(file, log); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("%s: %v", what, err)
			}
		}
		write(old, 0o644)
		if _, err := OpenAdminKeys(file, log); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a file that all may read: %v", err)
		}
		write(old, 0o600)
		a, err := OpenAdminKeys(file, log)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.Run(ctx)
		valid := func(text string) bool {
			p, err := a.Authenticate(ctx, &Credentials{Bearer: text})
			return err == nil && p != nil
		}
		if !valid(old) || valid(next) || valid(old[:len(old)-1]+"!") || valid("xk_"+old[3:]) || valid(old[:15]+"-"+old[16:]) {
			t.Error("the key of the file is not the one that is valid")
		}
		write(old+"\n"+next+"\n", 0o600)
		time.Sleep(2 * RefreshEvery)
		if !valid(old) || !valid(next) {
			t.Error("two keys are not both valid")
		}
		write("damaged", 0o600)
		time.Sleep(2 * RefreshEvery)
		if !valid(old) || !valid(next) {
			t.Error("a damaged file takes the keys away")
		}
		write(next, 0o600)
		time.Sleep(2 * RefreshEvery)
		if valid(old) || !valid(next) {
			t.Error("the old key is still valid")
		}
	})
}

func TestKeyLimits(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	for what, k := range map[string]Key{
		"no name": {Grants: writer}, "no grant": {Name: "x"}, "an unknown role": {Name: "x", Grants: []Grant{{"none", Everything()}}},
		"no namespace": {Name: "x", Grants: []Grant{{"reader", Scope{}}}}, "past": {Name: "x", Grants: writer, Expires: time.Now().Add(-time.Hour)},
		"two lines": {Name: "x\ny", Grants: writer}, "many grants": {Name: "x", Grants: slices.Repeat(writer, MaxGrants+1)},
		"a long name": {Name: strings.Repeat("x", maxKeyName+1), Grants: writer}, "no text": {Name: "\xff", Grants: writer},
	} {
		if _, _, err := m.Keys.Create(root, k); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	key, _, err := m.Keys.Create(root, Key{Name: "x", Grants: writer})
	if err != nil {
		t.Fatal(err)
	}
	for _, overlap := range []time.Duration{MaxOverlap + 1, -1} {
		if _, _, err := m.Keys.Rotate(root, key.ID, overlap); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("an overlap of %v: %v", overlap, err)
		}
	}
	for _, id := range []string{"", "00000000000", "0000000000000", "00000000000i", "../../keys/x"} {
		if err := m.Keys.Revoke(root, id); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("the key %q: %v", id, err)
		}
	}
	for i := range MaxRoles {
		m.Roles.custom[fmt.Sprint(i)] = Role{}
	}
	m.Keys.mu.Lock()
	for i := range MaxKeys {
		m.Keys.entries[fmt.Sprint(i)] = &entry{principal: &Principal{}}
	}
	m.Keys.mu.Unlock()
	if _, _, err := m.Keys.Create(root, Key{Name: "x", Grants: writer}); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("one key too many: %v", err)
	}
	if err := m.Roles.Put(root, Role{"x", []Verb{TimersRead}}); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("one role too many: %v", err)
	}
	if err := m.Roles.Put(root, Role{"0", []Verb{TimersRead}}); err != nil {
		t.Errorf("a role in place of one: %v", err)
	}
}

// manyKeys is a node with keys, and the text of one of them.
func manyKeys(b testing.TB, n int) (*member, string) {
	b.Helper()
	m := join(b, mem.New())
	changes := make([]Change, 0, n)
	text := ""
	for i := range n {
		id := newID()
		t, hash := newSecret(id)
		changes, text = append(changes, Change{id, stored{Name: fmt.Sprint(i), Grants: writer, Secrets: []Secret{{Hash: hash}}}, rouse.NoRow}), t
	}
	if err := m.Keys.kind.Write(context.Background(), changes...); err != nil {
		b.Fatal(err)
	}
	return m, text
}

func BenchmarkAuthenticate(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		m, text := manyKeys(b, n)
		for what, bearer := range map[string]string{"known": text, "unknown": GenerateKey()} {
			b.Run(fmt.Sprintf("%s/%d", what, n), func(b *testing.B) {
				b.ReportAllocs()
				c := &Credentials{Bearer: bearer}
				for b.Loop() {
					ctx, err := m.Enter(context.Background(), getMethod, c)
					if what == "known" {
						if err == nil {
							err = m.Require(ctx, TimersRead, "a", "stream:x", nil)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// TestKeysAreMadeOnce: a repeated request with an Idempotency-Key neither makes another key nor rotates it
// once more; as nothing has the text any more, it is refused.
func TestKeysAreMadeOnce(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	made, _, err := m.Keys.Create(Repeatable(root, "k"), Key{Name: "ci", Grants: writer})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Keys.Create(Repeatable(root, "k"), Key{Name: "ci", Grants: writer}); !errors.Is(err, rouse.ErrConflict) || !strings.Contains(err.Error(), made.ID) {
		t.Errorf("made again: %v", err)
	}
	if _, _, err := m.Keys.Create(Repeatable(With(root, &Principal{ID: "other", system: true}), "k"), Key{Name: "ci", Grants: writer}); err != nil {
		t.Errorf("the same key of another caller: %v", err)
	}
	_, text, err := m.Keys.Rotate(Repeatable(root, "r"), made.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Keys.Rotate(Repeatable(root, "r"), made.ID, time.Hour); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("rotated again: %v", err)
	}
	if _, err := m.enter(text, getMethod); err != nil {
		t.Errorf("the text of the first answer: %v", err)
	}
	if _, _, err := m.Keys.Rotate(root, made.ID, time.Hour); err != nil {
		t.Errorf("without a key: %v", err)
	}
	if m.Keys.Len() != 2 {
		t.Errorf("%d keys", m.Keys.Len())
	}
}
