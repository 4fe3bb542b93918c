package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// Damage breaks copies of a store that was killed after it had acknowledged some thousands of rows: it
// changes bytes of each file, truncates the file, fills it with zeros, and removes it. After each, either
// everything exists and lists, counts, claims and records agree, or the call that reads the damage fails with
// rouse.ErrCorrupt. open opens the store in a directory; harmless reports which files contain nothing
// acknowledged, so that opening without them may fail in any way.
//
// It does so in each of the shapes and those of the store's own, of which each second day has a half. The
// sample of damages is always the same, of which each day has a part; with ROUSE_LONG all shapes are broken,
// and each file is damaged at every few bytes.
func Damage(t *testing.T, open OpenDir, harmless func(file string) bool, own ...Shape) {
	for i, shape := range append(own, Shapes...) {
		if !poll.Today(i, 2) {
			continue
		}
		t.Run(shape.Name, func(t *testing.T) {
			killed, closed, want := makeClosedStore(t, open, shape)
			t.Run("killed", func(t *testing.T) { breakAll(t, open, killed, want, 8, 3, i, harmless) })
			t.Run("closed", func(t *testing.T) { breakAll(t, open, closed, want, 6, 1, i, harmless) })
		})
	}
}

// daysOfDamage is how many of its days the damages of a shape are spread over. It is odd, so that each of
// them has its turn on the days of its shape.
const daysOfDamage = 17

// breakAll damages the files of a store one by one, with the given numbers of changed bits and truncations in
// each. Of the damages, it begins with the one of the given number.
func breakAll(t *testing.T, open OpenDir, image string, want held, flips, cuts, n int, harmless func(string) bool) {
	checkDamaged(t, open, copyDir(t, image), "nothing", want, true)
	for _, file := range listFiles(t, image) {
		if harmless(file) {
			continue
		}
		whole, err := os.ReadFile(filepath.Join(image, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range damagedCopies(whole, flips, cuts) {
			if n++; !poll.Today(n, daysOfDamage) {
				continue
			}
			dir := copyDir(t, image)
			name := filepath.Join(dir, file)
			if d.content == nil {
				err = os.Remove(name)
			} else {
				err = os.WriteFile(name, d.content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkDamaged(t, open, dir, file+" "+d.what, want, false)
			if t.Failed() && !testing.Verbose() {
				return
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// held is the content that a store must have.
type held struct {
	rows    []rouse.Row // in the order of keys
	records int
}

// everything contains all states.
var everything = rouse.EveryState

// makeClosedStore creates a store, and returns its files as a kill leaves them, its files after Close, and
// its acknowledged content. The rows of its second half come between two times that it is brought into a
// shape.
func makeClosedStore(t *testing.T, open OpenDir, shape Shape) (killed, closed string, want held) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const batches, size = 60, 50
	for i := range batches {
		var changes []rouse.Change
		for j := range size {
			r := dueRow(fmt.Sprintf("t%04d", i*size+j), i*size+j)
			r.Body = bytes.Repeat(r.Body, 1+j%12)
			if j%10 == 0 {
				r.Labels = map[string]string{"team": fmt.Sprint(j)}
			}
			if j%16 == 0 {
				r.State = rouse.StatePaused
			}
			c := rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r}
			if j%5 == 0 {
				c.Log = []rouse.Record{{Namespace: "ns", Name: r.Key.Name, Ended: start + rouse.Instant(j), Due: start,
					Attempts: 1}}
				want.records++
			}
			changes = append(changes, c)
		}
		if i%7 == 3 { // one that changes existing rows, and one that removes some
			changes = append(changes, rouse.Change{Key: dueRow(fmt.Sprintf("t%04d", (i-1)*size+1), 0).Key,
				If: rouse.AnyRevision})
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		if i == batches/2 { // later batches are in the log
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = open(dir); err != nil {
				t.Fatal(err)
			}
			shape.Make(t, s)
		}
	}
	shape.Make(t, s)
	page, err := s.List(t.Context(), rouse.Query{States: everything, Limit: 2 * batches * size})
	if err != nil || page.Next != nil {
		t.Fatal(page.Next, err)
	}
	want.rows = page.Rows
	killed = Killed(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return killed, copyDir(t, dir), want
}

// checkDamaged opens a store and reads all of it. Without damage nothing may fail.
func checkDamaged(t *testing.T, open OpenDir, dir, what string, want held, whole bool) {
	t.Helper()
	fails := func(doing string, err error) {
		t.Helper()
		if whole || !errors.Is(err, rouse.ErrCorrupt) {
			t.Errorf("%s: %s: %v", what, doing, err)
		}
	}
	s, err := open(dir)
	if err != nil {
		fails("open", err)
		t.Logf("%s: refused: %v", what, err)
		return
	}
	t.Logf("%s: opened", what)
	defer func() {
		if err := s.Close(); err != nil && whole {
			t.Errorf("%s: close: %v", what, err)
		}
	}()
	met := 0
	met += readList(t, s, what, want, fails)
	met += readCounts(t, s, what, want, fails)
	met += readClaim(t, s, what, want, fails)
	met += readRecords(t, s, what, want, fails)
	c, ok := s.(interface{ Corrupted() error })
	if !ok {
		t.Fatal("the store does not tell what damage it met")
	}
	if err := c.Corrupted(); (err != nil) != (met > 0) && met > 0 {
		t.Errorf("%s: %d reads met damage, and the store tells of %v", what, met, err)
	}
}

func readList(t *testing.T, s rouse.Store, what string, want held, fails func(string, error)) int {
	var have []rouse.Row
	for q := (rouse.Query{States: everything, Limit: 500}); ; {
		page, err := s.List(t.Context(), q)
		if err != nil {
			fails("list", err)
			return 1
		}
		have = append(have, page.Rows...)
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	if len(have) != len(want.rows) {
		t.Errorf("%s: a list has %d rows of %d", what, len(have), len(want.rows))
		return 0
	}
	for i := range have {
		if a, b := &have[i], &want.rows[i]; a.Key != b.Key || a.Revision != b.Revision || a.State != b.State ||
			a.Visible != b.Visible || !bytes.Equal(a.Body, b.Body) {
			t.Errorf("%s: row %d is %+v, not %+v", what, i, a, b)
			return 0
		}
	}
	return 0
}

func readCounts(t *testing.T, s rouse.Store, what string, want held, fails func(string, error)) int {
	for _, q := range []rouse.Query{{States: everything}, {States: []rouse.State{rouse.StatePaused}},
		{Namespace: "ns", Labels: map[string]string{"team": "20"}, States: everything}} {
		n, err := s.Count(t.Context(), q)
		if err != nil {
			fails("count", err)
			return 1
		}
		must := int64(0)
		for i := range want.rows {
			if r := &want.rows[i]; slices.Contains(q.States, r.State) && (q.Labels == nil || r.Labels["team"] == "20") {
				must++
			}
		}
		if n != must {
			t.Errorf("%s: count %v gives %d, not %d", what, q, n, must)
		}
	}
	return 0
}

func readClaim(t *testing.T, s rouse.Store, what string, want held, fails func(string, error)) int {
	n := 0
	for w := (rouse.Window{Buckets: []uint32{0}, Ahead: 100 * 365 * 24 * time.Hour, Limit: 700}); ; {
		b, err := s.Claim(t.Context(), w)
		if err != nil {
			fails("claim", err)
			return 1
		}
		n += len(b.Rows)
		if !b.More || len(b.Rows) == 0 {
			break
		}
		w.After = b.Rows[len(b.Rows)-1].Position()
	}
	if n != len(want.rows) {
		t.Errorf("%s: claims give %d rows of %d", what, n, len(want.rows))
	}
	return 0
}

func readRecords(t *testing.T, s rouse.Store, what string, want held, fails func(string, error)) int {
	page, err := s.Records(t.Context(), rouse.RecordQuery{Namespace: "ns", Limit: want.records + 1})
	if err != nil {
		fails("records", err)
		return 1
	}
	if len(page.Records) != want.records {
		t.Errorf("%s: there are %d records of %d", what, len(page.Records), want.records)
	}
	return 0
}

// broken is a damaged file; without content it was removed.
type broken struct {
	what    string
	content []byte
}

func damagedCopies(whole []byte, flips, cuts int) (out []broken) {
	r := rand.New(rand.NewPCG(7, uint64(len(whole))))
	out = append(out, broken{"removed", nil})
	if len(whole) == 0 {
		return out
	}
	if poll.Long {
		flips, cuts = min(len(whole), 2000), min(len(whole), 300)
	}
	for i := range flips { // one in each part of the file; the first part also at its very beginning
		from, to := i*len(whole)/flips, (i+1)*len(whole)/flips
		at := from
		if i > 0 && to > from {
			at += r.IntN(to - from)
		}
		b := slices.Clone(whole)
		b[at] ^= 1 << r.IntN(8)
		out = append(out, broken{fmt.Sprintf("with a bit changed at %d of %d", at, len(whole)), b})
	}
	for i := range cuts {
		at := i * len(whole) / cuts
		if i > 0 && i == cuts-1 {
			at = len(whole) - 1
		}
		out = append(out, broken{fmt.Sprintf("cut at %d of %d", at, len(whole)), slices.Clone(whole[:at])})
		b := slices.Clone(whole)
		clear(b[at:min(at+4096, len(b))])
		if !bytes.Equal(b, whole) {
			out = append(out, broken{fmt.Sprintf("with zeros from %d of %d", at, len(whole)), b})
		}
	}
	for i := range 8 { // in the middle of each of the last pages, which may be all that is read of a file that has a log
		if at := len(whole) - 2048 - 4096*i; cuts > 1 && at > 0 {
			out = append(out, broken{fmt.Sprintf("cut at %d of %d", at, len(whole)), slices.Clone(whole[:at])})
		}
	}
	return out
}

// listFiles returns the relative paths of all files in a directory and its subdirectories.
func listFiles(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// copyDir copies a directory. The caller must not write to it at the same time.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to, err := os.MkdirTemp(t.TempDir(), "copy-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range listFiles(t, from) {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700),
				os.WriteFile(filepath.Join(to, name), b, 0o600))
		}
		if err != nil && !strings.HasSuffix(name, ".tmp") {
			t.Fatal(err)
		}
	}
	return to
}
