package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
)

// TestAStoreWhoseTimersWereMovedIsNotServed, unless it is forced to; then it is served as before.
func TestAStoreWhoseTimersWereMovedIsNotServed(t *testing.T) {
	for _, kind := range []string{"pebble", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			url := kind + ":" + filepath.Join(t.TempDir(), "from")
			begin := func(opts ...node.Option) error {
				n, err := node.Open(t.Context(), url, opts...)
				if err == nil {
					err = n.Close()
				}
				return err
			}
			if err := begin(); err != nil {
				t.Fatal(err)
			}
			from, err := store.Open(t.Context(), url, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			to, err := store.Open(t.Context(), "pebble:"+filepath.Join(t.TempDir(), "to"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{To: "the new place", Final: true}); err != nil || !r.Finished {
				t.Fatalf("%+v, %v", r, err)
			}
			if err := errors.Join(from.Close(), to.Close()); err != nil {
				t.Fatal(err)
			}
			if err := begin(); err == nil || !strings.Contains(err.Error(), "the new place") || !strings.Contains(err.Error(), "--force") {
				t.Errorf("it was served: %v", err)
			}
			if err := begin(node.WithForce()); err != nil {
				t.Error(err)
			}
			if err := begin(); err != nil {
				t.Errorf("after it was forced: %v", err)
			}
		})
	}
}

// TestADamagedStoreIsNotServed, and health tells of damage that is met later.
func TestADamagedStoreIsNotServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "timers")
	open := func(opts ...node.Option) (*node.Node, error) { return node.Open(t.Context(), "pebble:"+dir, opts...) }
	n, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(t.Context(), "hello", rouse.Spec{Schedule: "@every 1h", Target: "stream:a"}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, log := range logs {
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(); !errors.Is(err, rouse.ErrCorrupt) {
		t.Fatalf("it was served: %v", err)
	}
	if n, err = open(node.WithAcceptLoss()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Timers().Get(t.Context(), rouse.Key{Namespace: "default", Name: "hello"}); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("the timer that was lost: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheSecretFileIsTheOwners(t *testing.T) {
	file := filepath.Join(t.TempDir(), "webhook.secret")
	for range 2 { // made, and found with the rights that others had
		n, err := node.Open(t.Context(), "mem:", node.WithSecrets(file))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
