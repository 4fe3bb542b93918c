package pebble_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backup"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/sqlite"
	"github.com/rousehq/rouse/store/storetest"
)

// grown is a store that grows in any way that its users and its machine can make it.
type grown struct {
	tb   testing.TB
	dir  string
	s    rouse.Store
	rows int
	did  []string
}

func (g *grown) open() {
	g.tb.Helper()
	g.s = g.opened(g.dir)
}

func (g *grown) opened(dir string) rouse.Store {
	g.tb.Helper()
	s, err := pebble.OpenShaped(dir)
	if err != nil {
		g.tb.Fatalf("after %v: %v", g.did, err)
	}
	return s
}

func nameOf(i int) string { return fmt.Sprintf("t%06d", i) }

// write writes rows in batches of the given size.
func (g *grown) write(n, size int) {
	g.tb.Helper()
	g.did = append(g.did, fmt.Sprintf("%d rows by %d", n, size))
	for n > 0 {
		var changes []rouse.Change
		for range min(n, size) {
			r := rouse.Row{
				Key:     rouse.Key{Namespace: "ns", Name: nameOf(g.rows)},
				Visible: 5,
				Due:     5,
				State:   rouse.StateScheduled,
				Body:    make([]byte, 100),
			}
			changes = append(changes, rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r})
			g.rows++
			n--
		}
		if _, err := g.s.Apply(g.tb.Context(), changes); err != nil {
			g.tb.Fatalf("after %v: %v", g.did, err)
		}
	}
}

// kill ends the store, and goes on with its files as a kill leaves them.
func (g *grown) kill() {
	g.tb.Helper()
	g.did = append(g.did, "kill")
	left := storetest.Killed(g.tb, g.dir)
	if err := g.s.Close(); err != nil {
		g.tb.Fatal(err)
	}
	g.dir = left
	g.open()
}

func (g *grown) restart() {
	g.tb.Helper()
	g.did = append(g.did, "restart")
	if err := g.s.Close(); err != nil {
		g.tb.Fatal(err)
	}
	g.open()
}

// verify checks that a store has all rows, and looks healthy.
func (g *grown) verify(what string, s rouse.Store) {
	g.tb.Helper()
	if err := errors.Join(g.findRows(s), s.(rouse.Checked).Corrupted()); err != nil {
		g.tb.Fatalf("%s: after %v: %v", what, g.did, err)
	}
}

// findRows returns an error unless a store has all rows.
func (g *grown) findRows(s rouse.Store) error {
	next := 0
	for q := (rouse.Query{Limit: 5000}); ; {
		page, err := s.List(g.tb.Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			if name := page.Rows[i].Key.Name; name != nameOf(next) {
				return fmt.Errorf("row %d is %s", next, name)
			}
			next++
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	if next != g.rows {
		return fmt.Errorf("there are %d rows of %d", next, g.rows)
	}
	return nil
}

// copyAway backs the store up, verifies the archive, restores it, and copies the store into another.
func (g *grown) copyAway() {
	g.tb.Helper()
	g.did = append(g.did, "backup")
	ctx := g.tb.Context()
	var archive bytes.Buffer
	if err := backup.Write(ctx, g.s, &archive, backup.Info{}); err != nil {
		g.tb.Fatalf("after %v: %v", g.did, err)
	}
	m, err := backup.VerifyRows(ctx, bytes.NewReader(archive.Bytes()), g.tb.TempDir())
	if err != nil || m.Rows["scheduled"] != int64(g.rows) {
		g.tb.Fatalf("after %v: %v, %v", g.did, m.Rows, err)
	}
	place := filepath.Join(g.tb.TempDir(), "restored")
	if _, err := backup.Restore(ctx, &archive, "pebble", place); err != nil {
		g.tb.Fatalf("after %v: %v", g.did, err)
	}
	restored := g.opened(place)
	g.verify("restored", restored)
	if err := restored.Close(); err != nil {
		g.tb.Fatal(err)
	}
	g.verify("the store", g.s)
}

// TestCopiesOfEachShape copies stores whose files have shapes that only Pebble's have.
func TestCopiesOfEachShape(t *testing.T) {
	for _, shape := range append(pebble.OwnShapes, storetest.Shapes...) {
		t.Run(shape.Name, func(t *testing.T) {
			g := &grown{tb: t, dir: filepath.Join(t.TempDir(), "store")}
			g.open()
			shape.Make(t, g.s)
			g.write(700, 50)
			shape.Make(t, g.s)
			g.copyAway()
			to, err := sqlite.Open(filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := migrate.Copy(t.Context(), g.s, to, migrate.Options{Final: true})
			if err != nil || !r.Finished || r.Rows < int64(g.rows) {
				t.Errorf("%+v, %v", r, err)
			}
			if err := errors.Join(to.Close(), g.s.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAnyHealthyStoreLooksHealthy grows stores by random amounts, with restarts, kills, flushes and backups
// in between, and checks that each can be copied, verified, restored and opened, with all rows. After a
// change of a file, it has all rows, too, or is refused.
func TestAnyHealthyStoreLooksHealthy(t *testing.T) {
	poll.Checks(t, 2)
	shapes := append(pebble.OwnShapes, storetest.Shapes...)
	rapid.Check(t, func(rt *rapid.T) {
		g := &grown{tb: t, dir: filepath.Join(t.TempDir(), "store")}
		g.open()
		acts := map[string]func(){"go on": func() {}, "restart": g.restart, "kill": g.kill, "copy": g.copyAway}
		for _, shape := range shapes {
			acts[shape.Name] = func() {
				g.did = append(g.did, shape.Name)
				shape.Make(t, g.s)
			}
		}
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(acts)))
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			n := rapid.SampledFrom([]int{100, 1_000, 5_000, 50_000}).Draw(rt, "at most")
			n = min(n, max(100, 50_000-g.rows))
			n = rapid.IntRange(1, n).Draw(rt, "rows")
			g.write(n, 1+n/rapid.IntRange(1, 40).Draw(rt, "batches"))
			acts[what.Draw(rt, "then")]()
		}
		g.copyAway()
		if rapid.Bool().Draw(rt, "is killed") {
			g.kill()
		} else {
			g.restart()
		}
		g.verify("the store", g.s)
		left := storetest.Killed(t, g.dir)
		if err := g.s.Close(); err != nil {
			t.Fatal(err)
		}
		g.damage(rt, left)
	})
}

// damage changes one file of a store that was killed.
func (g *grown) damage(rt *rapid.T, dir string) {
	var files []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		g.tb.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Size() > 0 && info.Mode().IsRegular() {
			files = append(files, e.Name())
		}
	}
	name := rapid.SampledFrom(files).Draw(rt, "file")
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		g.tb.Fatal(err)
	}
	at := rapid.IntRange(0, len(b)-1).Draw(rt, "at")
	if rapid.Bool().Draw(rt, "is cut") {
		b = b[:at]
	} else {
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
	}
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		g.tb.Fatal(err)
	}
	s, err := pebble.OpenShaped(dir)
	if err == nil {
		defer s.Close()
		err = g.findRows(s)
	}
	if err != nil && !errors.Is(err, rouse.ErrCorrupt) {
		rt.Fatalf("after %v and damage of %s at %d: %v", g.did, name, at, err)
	}
}
