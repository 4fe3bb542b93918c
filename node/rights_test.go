package node

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/test/servers"
)

// forms returns the forms in which a key may be in a store or a file.
func forms(key []byte) [][]byte {
	return [][]byte{key, []byte(hex.EncodeToString(key)), []byte(strings.ToUpper(hex.EncodeToString(key))),
		[]byte(base64.RawStdEncoding.EncodeToString(key)), []byte(base64.RawURLEncoding.EncodeToString(key))}
}

// held returns all keys that a node holds, or that it has given to its clients, by what they are.
func held(t *testing.T, n *Node, given map[string]string) map[string][]byte {
	t.Helper()
	keys := n.secrets.Held()
	for what, text := range given {
		keys[what] = []byte(text)
		if _, secret, ok := strings.Cut(strings.TrimPrefix(text, "rk_"), "_"); ok {
			raw, err := base64.RawURLEncoding.DecodeString(secret)
			if err != nil {
				t.Fatal(err)
			}
			keys["secret of "+what], keys["bytes of "+what] = []byte(secret), raw
		}
	}
	for _, what := range []string{"derived key sessions", "signing seed 0 of _root", "signing seed 0 of acme", "HMAC key 0 of acme", "secret acme/stripe"} {
		if len(keys[what]) == 0 {
			t.Fatalf("nothing looks for the %s", what)
		}
	}
	return keys
}

// leaks returns which of the keys are in a text.
func leaks(text []byte, keys map[string][]byte) (found []string) {
	for what, key := range keys {
		for _, form := range forms(key) {
			if bytes.Contains(text, form) {
				found = append(found, what)
				break
			}
		}
	}
	return found
}

// dump returns all rows, notes and leases of a store.
func dump(t *testing.T, s rouse.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, namespace := range []string{"", access.Reserved} {
		for q := (rouse.Query{Namespace: namespace, States: rouse.EveryState, Limit: 500}); ; {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Rows {
				r := &page.Rows[i]
				fmt.Fprintf(&b, "%s\n%v %v\n%s\n", r.Key.Namespace, r.Key, r.Labels, r.Body)
			}
			if page.Next == nil {
				break
			}
			q.After = *page.Next
		}
	}
	if locks, ok := s.(rouse.Shared); ok {
		list, _, err := locks.Leases(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			fmt.Fprintf(&b, "%s %s %s\n", l.Name, l.Owner, l.Data)
		}
	}
	return b.Bytes()
}

// TestTheStoreGivesNoRights: no key that a node holds or has given to anybody is in its store, in an archive
// of it, or in a file other than those of keys.
func TestTheStoreGivesNoRights(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"pebble":   func(*testing.T) string { return "" },
		"sqlite":   func(*testing.T) string { return "" }, // in the data directory
		"postgres": func(t *testing.T) string { return servers.Postgres(t) },
		"redis":    func(t *testing.T) string { return servers.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := placed(t, url(t), "a")
			if name == "sqlite" {
				cfg.Store = "sqlite:" + filepath.Join(cfg.Data, "s.db")
			}
			admin, file := access.GenerateKey(), filepath.Join(t.TempDir(), "admin.key")
			if err := os.WriteFile(file, []byte(admin+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg.AdminKeyFile = file
			if cfg.isSharedStore() {
				cfg.SecretKeys = "file:" + filepath.Join(t.TempDir(), "sealing")
				if err := os.WriteFile(cfg.SecretKeys[len("file:"):], []byte(NewSecretKey()+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			n := starts(t, cfg)
			stop := run(t, n)
			given := map[string]string{"the admin's key": admin}
			ask := func(method, path, body string) []byte {
				t.Helper()
				r, _ := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr()+"/v1/"+path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+admin)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode >= 300 {
					t.Fatalf("%s %s: %s %.300s %v", method, path, resp.Status, got, err)
				}
				return got
			}
			ask("PUT", "namespaces/acme", `{}`)
			ask("PUT", "namespaces/acme/secrets/stripe", `{"value":"marker-secret-4716"}`)
			ask("POST", "namespaces/acme/signing-keys:rotate", `{"overlap":"1h"}`)
			var made struct{ Text string }
			if err := json.Unmarshal(ask("POST", "keys", `{"name":"ci","grants":[{"role":"reader","namespaces":["acme"]}]}`), &made); err != nil || made.Text == "" {
				t.Fatal(made, err)
			}
			given["an API key"] = made.Text
			ask("POST", "session", `{"key":"`+made.Text+`"}`)
			keys := held(t, n, given)
			ask("POST", "sessions:rotate-key", "")
			for what, key := range held(t, n, given) {
				keys[what+", later"] = key
			}
			if name != "pebble" && name != "sqlite" && len(keys["derived key nodes"]) == 0 {
				t.Fatal("nothing looks for the key of nodes")
			}
			if found := leaks(dump(t, n.store), keys); len(found) > 0 {
				t.Errorf("the store has %v", found)
			}
			if !cfg.isSharedStore() {
				judgeFiles(t, cfg.Data, keys)
				judgeArchive(t, ask("GET", "backup", ""), name, keys)
			}
			// What is there is found.
			planted := rouse.Row{Key: rouse.Key{Namespace: access.Reserved, Name: "\x01sessions/key"}, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote}
			planted.Body, _ = json.Marshal(map[string][]byte{"key": keys["derived key sessions"]})
			if _, err := n.store.Apply(t.Context(), []rouse.Change{{Key: planted.Key, If: rouse.NoRow, To: &planted}}); err != nil {
				t.Fatal(err)
			}
			if found := leaks(dump(t, n.store), keys); len(found) == 0 {
				t.Error("a key in the store is not found")
			}
			stop()
			again := starts(t, cfg) // this is how earlier versions kept the key of sessions
			if found := leaks(dump(t, again.store), keys); len(found) > 0 {
				t.Errorf("the store keeps %v", found)
			}
			if now := held(t, again, given); bytes.Equal(now["derived key sessions"], keys["derived key sessions"]) || !bytes.Equal(now["derived key sessions"], keys["derived key sessions, later"]) {
				t.Error("a restart changes the key of sessions, or the one that was planted is used")
			}
		})
	}
}

// judgeArchive looks for keys in an archive, and in the store that is restored from it, which has another key
// of sessions.
func judgeArchive(t *testing.T, archive []byte, kind string, keys map[string][]byte) {
	t.Helper()
	for in := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if found := leaks(body, keys); len(found) > 0 {
			t.Errorf("%s of an archive has %v", h.Name, found)
		}
	}
	path := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), bytes.NewReader(archive), kind, path); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(context.Background(), kind+":"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := dump(t, s)
	if found := leaks(rows, keys); len(found) > 0 || !bytes.Contains(rows, []byte("derived/sessions")) {
		t.Errorf("a restored store has %v, or no salt of the key of sessions", found)
	}
	if err := DropSessionKeys(t.Context(), s); err != nil || bytes.Contains(dump(t, s), []byte("derived/sessions")) {
		t.Errorf("a restored store keeps the salt of the key of sessions: %v", err)
	}
}

// judgeFiles looks for keys in files, except for those of keys.
func judgeFiles(t *testing.T, dir string, keys map[string][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Base(path) == "secrets.keys" {
			return err
		}
		body, err := os.ReadFile(path)
		if found := leaks(body, keys); len(found) > 0 {
			t.Errorf("%s has %v", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAStoreWithoutItsSealingKeys: a node that finds a sealed store and no keys does not start, makes no key,
// and changes nothing; with the key again, or told that it is lost, it starts.
func TestAStoreWithoutItsSealingKeys(t *testing.T) {
	cfg := config(t, "")
	n := starts(t, cfg)
	signs := func(n *Node) string {
		t.Helper()
		keys, err := n.secrets.PublicKeys("acme")
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		return keys[0].ID
	}
	before := signs(n)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.Data, "secrets.keys")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := assembleNode(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "secret-keys: has no keys") || !strings.Contains(err.Error(), "--force") {
			t.Fatalf("a node without keys: %v, %v", n, err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a node that was refused has made a key: %v", err)
		}
	}
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	n = starts(t, cfg)
	if signs(n) != before {
		t.Error("the attempts have replaced the signing keys")
	}
	if err := errors.Join(n.Close(), os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	cfg.Force = true
	n = starts(t, cfg)
	if signs(n) == before {
		t.Error("another sealing key opens the signing keys")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Force = false
	if err := starts(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNodesThatShareAStoreNeedSealingKeys with access control, and take no key that earlier versions have
// left there in clear.
func TestNodesThatShareAStoreNeedSealingKeys(t *testing.T) {
	url := servers.Postgres(t)
	cfg := placed(t, url, "a")
	cfg.Access = accessKeys
	if n, err := assembleNode(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "secret-keys: is not set") {
		t.Fatalf("%v, %v", n, err)
	}
	cfg.SecretKeys = "env:ROUSE_TEST_SEALING"
	t.Setenv("ROUSE_TEST_SEALING", NewSecretKey())
	s, err := cfg.openConfiguredStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := []byte("MARKEROFTHESECRETOFNODES")
	if _, err := s.(rouse.Shared).Lock(t.Context(), "earlier", forGood, []rouse.Want{{Name: oldNodeSecret, Data: old}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var last []rouse.Lease
	for range 2 {
		n := starts(t, cfg)
		list, _, err := n.store.(rouse.Shared).Leases(t.Context(), oldNodeSecret)
		if err != nil || len(list) != 1 || bytes.Contains(list[0].Data, old) || len(list[0].Data) < len(old) || last != nil && last[0].Epoch != list[0].Epoch {
			t.Errorf("the old secret is %+v, %v", list, err)
		}
		last = list
		if bytes.Equal(n.secrets.Held()["derived key nodes"], list[0].Data) {
			t.Error("the secret of nodes is in the store")
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
