package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/sqlite"
	"github.com/rousehq/rouse/store/storetest"
)

// places are the kinds, and how their stores are opened.
var places = map[string]func(path string) (rouse.Store, error){
	"pebble": func(path string) (rouse.Store, error) {
		return pebble.Open(path, pebble.Options{MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	},
	"sqlite": func(path string) (rouse.Store, error) { return sqlite.Open(path, sqlite.Options{}) },
}

func eachKind(t *testing.T, do func(t *testing.T, kind string)) {
	for kind := range places {
		t.Run(kind, func(t *testing.T) { do(t, kind) })
	}
}

// eachShape runs a test with stores of each kind, whose files have each shape.
func eachShape(t *testing.T, do func(t *testing.T, kind string, shape storetest.Shape)) {
	eachKind(t, func(t *testing.T, kind string) {
		for _, shape := range storetest.Shapes {
			t.Run(shape.Name, func(t *testing.T) { do(t, kind, shape) })
		}
	})
}

func open(t *testing.T, kind, path string) rouse.Store {
	t.Helper()
	s, err := places[kind](path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func row(name string, state rouse.State) rouse.Row {
	return rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Visible: 5, Due: 5, State: state, Body: []byte(strings.Repeat(name, 50)),
		Labels: map[string]string{"team": "red"}}
}

func apply(t *testing.T, s rouse.Store, changes ...rouse.Change) {
	t.Helper()
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

// fill writes 300 rows of every state, and 20 records.
func fill(t *testing.T, s rouse.Store) {
	t.Helper()
	var changes []rouse.Change
	for i := range 300 {
		r := row(fmt.Sprintf("t%04d", i), states[i%len(states)])
		c := rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r}
		if i < 20 {
			c.Log = []rouse.Record{{Namespace: "ns", Name: r.Key.Name, Ending: rouse.EndFired, Due: 5, Ended: rouse.Instant(i) * 3_600_000}}
		}
		changes = append(changes, c)
	}
	apply(t, s, changes...)
}

func contents(t *testing.T, s rouse.Store) []rouse.Row {
	t.Helper()
	page, err := s.List(t.Context(), rouse.Query{States: states, Limit: 1 << 20})
	if err != nil || page.Next != nil {
		t.Fatal(page.Next, err)
	}
	return page.Rows
}

// take returns an archive of a store with 300 rows.
func take(t *testing.T, kind string) []byte {
	t.Helper()
	s := open(t, kind, filepath.Join(t.TempDir(), "store"))
	fill(t, s)
	var b bytes.Buffer
	if err := Write(t.Context(), s, &b, Info{Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestARestoredStoreIsWhatItWas(t *testing.T) {
	eachShape(t, func(t *testing.T, kind string, shape storetest.Shape) {
		top := t.TempDir()
		s := open(t, kind, filepath.Join(top, "store"))
		shape.Make(t, s)
		fill(t, s)
		shape.Make(t, s)
		want := contents(t, s)
		before, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		had := tree(t, top)
		var b bytes.Buffer
		if err := Write(t.Context(), s, &b, Info{Version: "v1.2.3"}); err != nil {
			t.Fatal(err)
		}
		if told := s.(rouse.Checked).Corrupted(); told != nil {
			t.Errorf("the store is healthy and tells of %v", told)
		}
		if has := tree(t, top); kind == "sqlite" && !slices.Equal(had, has) || strings.Contains(fmt.Sprint(has), "rouse-backup") {
			t.Errorf("next to the store there was %v, and is %v", had, has)
		}
		apply(t, s, rouse.Change{Key: want[0].Key, If: rouse.AnyRevision}) // after the archive was taken

		m, err := Verify(t.Context(), iotest.OneByteReader(bytes.NewReader(b.Bytes())))
		if err != nil {
			t.Fatal(err)
		}
		rows := int64(0)
		for _, n := range m.Rows {
			rows += n
		}
		if m.Store != kind || m.Rouse != "v1.2.3" || rouse.At(m.Taken) < before || rows != 300 || len(m.Rows) != len(states) || m.Rows["note"] == 0 ||
			m.Records != 20 || m.Bytes() == 0 || m.Bytes() >= int64(b.Len()) {
			t.Errorf("%+v", m)
		}

		place := filepath.Join(top, "deep", "er", "restored")
		restored, err := Restore(t.Context(), bytes.NewReader(b.Bytes()), kind, place)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(restored) != fmt.Sprint(m) {
			t.Errorf("restored %+v of %+v", restored, m)
		}
		if left, err := os.ReadDir(filepath.Dir(place)); err != nil || len(left) != 1 {
			t.Errorf("%v, %v", left, err)
		}
		c := open(t, kind, place)
		got := contents(t, c)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d rows of %d, or others", len(got), len(want))
		}
		page, err := c.Records(t.Context(), rouse.RecordQuery{Namespace: "ns", Limit: 100})
		if err != nil || len(page.Records) != 20 {
			t.Errorf("%d records, %v", len(page.Records), err)
		}
		r := row("new", rouse.StateScheduled)
		res, err := c.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}})
		if err != nil || res[0].Revision <= want[len(want)-1].Revision {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// TestTokensContinueAboveThoseOfTheLostStore: what it gave after the backup, at any rate, is below what the
// restored store gives, and what that gives is below what a second restore gives.
func TestTokensContinueAboveThoseOfTheLostStore(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		top := t.TempDir()
		create := func(s rouse.Store, name string) uint64 {
			t.Helper()
			r := row(name, rouse.StateScheduled)
			res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}})
			if err != nil {
				t.Fatal(err)
			}
			return res[0].Revision
		}
		s := open(t, kind, filepath.Join(top, "store"))
		taken := create(s, "a")
		var b bytes.Buffer
		if err := Write(t.Context(), s, &b, Info{}); err != nil {
			t.Fatal(err)
		}
		if err := s.(rouse.Raiser).Raise(t.Context(), taken+gap-1000); err != nil { // as if it had written so much
			t.Fatal(err)
		}
		last := create(s, "b")
		for _, name := range []string{"first", "second"} {
			place := filepath.Join(top, name)
			if _, err := Restore(t.Context(), bytes.NewReader(b.Bytes()), kind, place); err != nil {
				t.Fatal(err)
			}
			restored := open(t, kind, place)
			if rows, err := restored.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateNote}}); err != nil || rows != 0 {
				t.Errorf("%d notes were added: %v", rows, err)
			}
			if now := create(restored, "b"); now <= last {
				t.Errorf("revision %d in the %s restored store, the lost one had given %d", now, name, last)
			} else {
				last = now
			}
		}
	})
}

// TestABackupHasAllThatWasAcknowledgedBefore takes backups while a writer creates timers, and checks that
// each contains a prefix of them.
func TestABackupHasAllThatWasAcknowledgedBefore(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		top := t.TempDir()
		s := open(t, kind, filepath.Join(top, "store"))
		const each = 7 // rows in a call
		var acked atomic.Int64
		wrote := make(chan struct{}, 1)
		rounds := make(chan struct{}, len(storetest.Shapes)) // in each of which some calls are made, on a fast machine, too
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(wrote)
			i := 0
			for range rounds {
				for range 400 {
					var changes []rouse.Change
					for j := range each {
						r := row(fmt.Sprintf("b%06d-%d", i, j), rouse.StateScheduled)
						changes = append(changes, rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r})
					}
					if _, err := s.Apply(context.Background(), changes); err != nil {
						t.Error(err)
						return
					}
					i++
					acked.Store(int64(i))
					select {
					case wrote <- struct{}{}:
					default:
					}
				}
			}
		})
		defer wg.Wait()
		defer close(rounds)
		for round, shape := range storetest.Shapes {
			rounds <- struct{}{}
			shape.Make(t, s)
			<-wrote
			least := acked.Load()
			var b bytes.Buffer
			if err := Write(t.Context(), s, &b, Info{}); err != nil {
				t.Fatal(err)
			}
			place := filepath.Join(top, fmt.Sprint("restored", round))
			if _, err := Restore(t.Context(), &b, kind, place); err != nil {
				t.Fatal(err)
			}
			c := open(t, kind, place)
			rows := contents(t, c)
			if len(rows)%each != 0 || int64(len(rows)) < least*each {
				t.Fatalf("%d rows in calls of %d; %d calls were acknowledged before", len(rows), each, least)
			}
			for i, r := range rows {
				if want := fmt.Sprintf("b%06d-%d", i/each, i%each); r.Key.Name != want {
					t.Fatalf("row %d is %s, want %s", i, r.Key.Name, want)
				}
			}
			claimed, err := c.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1 << 20})
			if err != nil || len(claimed.Rows) != len(rows) {
				t.Fatalf("%d rows of %d are due, %v", len(claimed.Rows), len(rows), err)
			}
		}
	})
}

func TestAStoreInMemoryIsRefused(t *testing.T) {
	var b bytes.Buffer
	if err := Write(t.Context(), mem.New(), &b, Info{}); !invalid(err, "cannot be backed up") || b.Len() > 0 {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
}

func invalid(err error, want string) bool {
	var inv *rouse.Invalid
	return errors.As(err, &inv) && strings.Contains(err.Error(), want)
}

// broken fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken pipe")

func (w *broken) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

func TestNothingIsLeftOfABackupThatFails(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		top := t.TempDir()
		path := filepath.Join(top, "store")
		s := open(t, kind, path)
		fill(t, s)
		left := filepath.Join(path, "rouse-backup-1.tmp") // left by a process that was killed
		others := path + ".rouse-backup-1"                // of another program
		if kind == "sqlite" {
			left = path + ".rouse-backup-1.tmp"
		}
		for _, dir := range []string{left, others} {
			if err := os.MkdirAll(filepath.Join(dir, "copy"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, room := range []int{0, 600, 10_000} {
			if err := Write(t.Context(), s, &broken{room}, Info{}); !errors.Is(err, errBroken) {
				t.Errorf("a writer that breaks after %d bytes: %v", room, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
		if err := Write(ctx, s, w, Info{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that ends: %v", err)
		}
		if has := fmt.Sprint(tree(t, top)); strings.Contains(has, tempEnd) || !strings.Contains(has, others) {
			t.Errorf("there is %s", has)
		}
	})
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestBackupsAtTheSameTime(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := open(t, kind, filepath.Join(t.TempDir(), "store"))
		fill(t, s)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				var b bytes.Buffer
				if err := Write(t.Context(), s, &b, Info{}); err != nil {
					t.Error(err)
				} else if _, err := Verify(t.Context(), &b); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// piece is an entry of an archive.
type piece struct {
	h    tar.Header
	data []byte
}

func split(t *testing.T, archive []byte) (out []piece) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, piece{*h, data})
	}
}

func join(t *testing.T, pieces []piece) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range pieces {
		if p.h.Typeflag == tar.TypeReg {
			p.h.Size = int64(len(p.data))
		}
		if err := w.WriteHeader(&p.h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(p.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// remake changes the manifest of an archive, and seals it again.
func remake(t *testing.T, pieces []piece, change func(m *Manifest)) []piece {
	t.Helper()
	var m Manifest
	if err := json.Unmarshal(pieces[0].data, &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return reseal(pieces, text)
}

func reseal(pieces []piece, manifest []byte) []piece {
	out := slices.Clone(pieces)
	out[0].data = manifest
	out[len(out)-1].data = []byte(manifestSeal(manifest))
	return out
}

func refused(t *testing.T, what string, archive []byte, want string) {
	t.Helper()
	if _, err := Verify(t.Context(), bytes.NewReader(archive)); !invalid(err, want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
	place := filepath.Join(t.TempDir(), "store")
	if _, err := Restore(t.Context(), bytes.NewReader(archive), "pebble", place); !invalid(err, want) {
		t.Errorf("restore: %s: %v, want %q", what, err, want)
	}
	if left, err := os.ReadDir(filepath.Dir(place)); err != nil || len(left) > 0 {
		t.Errorf("restore: %s: left %v, %v", what, left, err)
	}
}

func TestArchivesThatAreNotWholeAreRefused(t *testing.T) {
	good := take(t, "pebble")
	if again := join(t, split(t, good)); !bytes.Equal(again, good) {
		t.Fatal("the test does not write archives as the package does")
	}
	var at []int
	for i := 0; i < len(good); i += max(1, len(good)/60) {
		at = append(at, i)
	}
	for _, n := range append(at, 1, 511, 512, len(good)-1, len(good)-511, len(good)-512, len(good)-513, len(good)-1024, len(good)-1025) {
		if _, err := Verify(t.Context(), bytes.NewReader(good[:n])); !invalid(err, "") {
			t.Errorf("cut to %d of %d bytes: %v", n, len(good), err)
		}
	}
	p := split(t, good)
	for i := range p { // a changed byte in each entry
		q := slices.Clone(p)
		q[i].data = bytes.Clone(q[i].data)
		if len(q[i].data) == 0 {
			continue
		}
		q[i].data[len(q[i].data)/2] ^= 1
		if _, err := Verify(t.Context(), bytes.NewReader(join(t, q))); !invalid(err, "") {
			t.Errorf("a changed byte in %s: %v", q[i].h.Name, err)
		}
	}
	last := len(p) - 1
	refused(t, "nothing", nil, "missing")
	refused(t, "a letter", []byte(strings.Repeat("Dear rouse, ", 200)), "cannot be read")
	refused(t, "two archives", append(bytes.Clone(good), good...), "behind its end")
	refused(t, "a tail", append(bytes.Clone(good), 0), "behind its end")
	refused(t, "no blocks of zeros", good[:len(good)-1024], "cut off at its end")
	refused(t, "one of them", good[:len(good)-512], "cut off at its end")
	refused(t, "no end", join(t, p[:last]), "missing")
	refused(t, "no manifest", join(t, p[1:]), "is where")
	refused(t, "a file less", join(t, slices.Delete(slices.Clone(p), 1, 2)), "is where")
	refused(t, "a file twice", join(t, slices.Insert(slices.Clone(p), 1, p[1])), "is where")
	refused(t, "files in another order", join(t, append([]piece{p[0], p[2], p[1]}, p[3:]...)), "is where")
	refused(t, "an unknown file", join(t, slices.Insert(slices.Clone(p), 1, piece{tar.Header{Typeflag: tar.TypeReg, Name: "store/zzz"}, []byte("x")})), "is where")
	refused(t, "a file behind the end", join(t, append(slices.Clone(p), p[1])), "one entry too many")

	as := func(change func(h *tar.Header)) []byte {
		q := slices.Clone(p)
		change(&q[1].h)
		if q[1].h.Typeflag != tar.TypeReg {
			q[1].h.Size, q[1].data = 0, nil
		}
		return join(t, q)
	}
	refused(t, "a symbolic link", as(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/etc/passwd" }), "no plain file")
	refused(t, "a hard link", as(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, "/etc/passwd" }), "no plain file")
	refused(t, "a device", as(func(h *tar.Header) { h.Typeflag = tar.TypeChar }), "no plain file")
	refused(t, "another name", as(func(h *tar.Header) { h.Name = "../" + h.Name }), "is where")
	refused(t, "an attribute", as(func(h *tar.Header) { h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"comment": "x"} }), "attribute")
	q := slices.Clone(p)
	q[1].data = append(bytes.Clone(q[1].data), 'x')
	refused(t, "a longer file", join(t, q), "the manifest has")

	for _, c := range []struct {
		what   string
		change func(m *Manifest)
		want   string
	}{
		{"a newer format", func(m *Manifest) { m.Format++ }, "newer rouse"},
		{"no format", func(m *Manifest) { m.Format = 0 }, "format 0"},
		{"an unknown store", func(m *Manifest) { m.Store = "drawer" }, `"drawer"`},
		{"no files", func(m *Manifest) { m.Files = nil }, "has 0 files"},
		{"a way out", func(m *Manifest) { m.Files[0].Name = "../../etc/passwd" }, "is no name"},
		{"an absolute name", func(m *Manifest) { m.Files[0].Name = "/etc/passwd" }, "is no name"},
		{"dots", func(m *Manifest) { m.Files[0].Name = ".." }, "is no name"},
		{"an empty name", func(m *Manifest) { m.Files[0].Name = "" }, "is no name"},
		{"a directory", func(m *Manifest) { m.Files[0].Name = "a/b" }, "is no name"},
		{"a name twice", func(m *Manifest) { m.Files[1] = m.Files[0] }, "twice"},
		{"an absurd size", func(m *Manifest) { m.Files[0].Size = 1 << 60 }, "absurd"},
		{"a negative size", func(m *Manifest) { m.Files[0].Size = -1 }, "absurd"},
		{"absurd sizes", func(m *Manifest) { m.Files[0].Size, m.Files[1].Size = maxBytes, maxBytes }, "absurd"},
		{"another size", func(m *Manifest) { m.Files[0].Size++ }, "the manifest has"},
		{"no sum", func(m *Manifest) { m.Files[0].SHA256 = "" }, "no SHA-256"},
		{"another sum", func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("0", 64) }, "SHA-256 differs"},
		{"an unknown state", func(m *Manifest) { m.Rows["asleep"] = 1 }, "asleep"},
		{"negative rows", func(m *Manifest) { m.Rows["dead"] = -1 }, "dead"},
		{"negative records", func(m *Manifest) { m.Records = -1 }, "negative"},
	} {
		refused(t, c.what, join(t, remake(t, p, c.change)), c.want)
	}
	text := string(p[0].data)
	refused(t, "an unknown field", join(t, reseal(p, []byte(strings.Replace(text, "{", `{"colour": "red",`, 1)))), "colour")
	refused(t, "two manifests", join(t, reseal(p, []byte(text+text))), "")
	refused(t, "no JSON", join(t, reseal(p, []byte("manifest"))), "no JSON")
}

// TestAHugeManifestIsNotRead: sizes that an archive declares do not allocate memory.
func TestAHugeManifestIsNotRead(t *testing.T) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), io.MultiReader(&b, neverRead{t})); !invalid(err, "at most") {
		t.Error(err)
	}
}

type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("it was read on")
	return 0, io.EOF
}

func TestAnArchiveOfOtherCountsIsRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		p := split(t, take(t, kind))
		for _, change := range []func(m *Manifest){func(m *Manifest) { m.Rows["dead"]++ }, func(m *Manifest) { m.Records-- }} {
			place := filepath.Join(t.TempDir(), "store")
			if _, err := Restore(t.Context(), bytes.NewReader(join(t, remake(t, p, change))), kind, place); !invalid(err, "the manifest has") {
				t.Error(err)
			}
			if left, err := os.ReadDir(filepath.Dir(place)); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		}
	})
}

func TestRestoreTakesNobodysPlace(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		good := take(t, kind)
		restore := func(kind, place string) error {
			_, err := Restore(t.Context(), bytes.NewReader(good), kind, place)
			return err
		}
		place := filepath.Join(t.TempDir(), "store")
		for _, end := range store.FilesOf(kind).Absent {
			if err := os.WriteFile(place+end, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := restore(kind, place); !invalid(err, "there already") {
				t.Errorf("a file %s: %v", place+end, err)
			}
			if text, err := os.ReadFile(place + end); err != nil || string(text) != "mine" {
				t.Errorf("it became %q, %v", text, err)
			}
			if err := os.Remove(place + end); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("nowhere", place); err != nil {
			t.Fatal(err)
		}
		if err := restore(kind, place); !invalid(err, "there already") {
			t.Errorf("a link to nowhere: %v", err)
		}
		if err := os.Remove(place); err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"pebble": "sqlite", "sqlite": "pebble"}[kind]
		if err := restore(other, place); !invalid(err, "another kind") {
			t.Errorf("as %s: %v", other, err)
		}
		if err := restore("mem", place); !invalid(err, "cannot be restored") {
			t.Errorf("to memory: %v", err)
		}
		if left, err := os.ReadDir(filepath.Dir(place)); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		if err := restore(kind, place); err != nil {
			t.Error(err)
		}
	})
}

// A reader that fails is not the archive's fault, and its error is not an *rouse.Invalid.
func TestAReaderThatFails(t *testing.T) {
	good := take(t, "pebble")
	for _, n := range []int{0, 100, 600, len(good) / 2, len(good) - 100} {
		r := io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(errBroken))
		if _, err := Verify(t.Context(), r); !errors.Is(err, errBroken) || invalid(err, "") {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, bytes.NewReader(good)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestArchivesThatWereChangedAnywhere: every change is refused, or has no effect, as in the bytes between
// entries.
func TestArchivesThatWereChangedAnywhere(t *testing.T) {
	s := open(t, "pebble", filepath.Join(t.TempDir(), "store"))
	var b bytes.Buffer
	if err := Write(t.Context(), s, &b, Info{}); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	want, err := Verify(t.Context(), bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	for i := range 3000 {
		bad := bytes.Clone(good)
		at := rnd.IntN(len(bad))
		switch i % 4 {
		case 0:
			bad[at] ^= 1 << rnd.IntN(8)
		case 1:
			bad = slices.Delete(bad, at, min(len(bad), at+1+rnd.IntN(1000)))
		case 2:
			bad = slices.Insert(bad, at, bad[:rnd.IntN(1000)]...)
		case 3:
			copy(bad[at:], bad[rnd.IntN(len(bad)):])
		}
		m, err := Verify(t.Context(), bytes.NewReader(bad))
		if err != nil && !invalid(err, "") {
			t.Fatalf("change %d at %d: %v", i, at, err)
		}
		if err == nil && fmt.Sprint(m) != fmt.Sprint(want) {
			t.Fatalf("change %d at %d: %+v, want %+v", i, at, m, want)
		}
	}
}
