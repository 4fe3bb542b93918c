package pebble

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rousehq/rouse"
)

// TestNamesAreFreeOnlyWithoutARow counts the names of a store step by step, with writes between the steps: at
// any time, no name that has a row may be free, and in the end the cells must have each row once.
func TestNamesAreFreeOnlyWithoutARow(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	key := func(i int) rouse.Key { return rouse.Key{Namespace: "ns", Name: fmt.Sprintf("t%05d", i)} }
	const all = 6000
	has := map[int]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	write := func(n int) {
		t.Helper()
		var changes []rouse.Change
		for range n {
			i := r.IntN(all)
			c := rouse.Change{Key: key(i), If: rouse.AnyRevision}
			if has[i] = r.IntN(3) > 0; has[i] {
				c.To = &rouse.Row{Key: key(i), Visible: rouse.Instant(r.IntN(9)), State: rouse.StateScheduled}
			}
			changes = append(changes, c)
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	check := func() (rows int) {
		t.Helper()
		w := &s.write
		for i := range all {
			if has[i] {
				rows++
				if w.names.surelyAbsent(w.hasher.hashRowKey(key(i))) {
					t.Fatalf("%v is free, and has a row", key(i))
				}
			}
		}
		return rows
	}
	for range 5 {
		write(2000)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openTest(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.counter.Wait()
	w := &s.write
	w.names.init(&w.hasher) // begin again, with writes in between
	for steps := 0; !w.names.all; steps++ {
		if _, err := w.names.countNextRows(s.db); err != nil {
			t.Fatal(err)
		}
		if !w.names.all {
			write(300)
		} else if steps < 3 {
			t.Fatalf("all were counted after %d steps", steps)
		}
		check()
	}
	write(2000)
	rows, counted, free := check(), 0, 0
	for _, c := range w.names.cells {
		counted += int(c&15) + int(c>>4)
	}
	for i := range all {
		if w.names.surelyAbsent(w.hasher.hashRowKey(key(i))) {
			free++
		}
	}
	if counted != rows || free < (all-rows)*99/100 {
		t.Errorf("%d rows are counted of %d, and %d of %d names are free", counted, rows, free, all-rows)
	}
}

// TestACellThatIsFullStaysFull counts more rows in a cell than it can hold.
func TestACellThatIsFullStaysFull(t *testing.T) {
	var n names
	n.init(nil)
	n.all = true
	for _, h := range []hash{{1, 6}, {1, 7}} {
		for range 20 {
			n.countName(h, true)
		}
		for range 20 {
			n.countName(h, false)
		}
		if n.surelyAbsent(h) {
			t.Error("a cell that lost count is free")
		}
	}
	if n.surelyAbsent(hash{1, 6}) || !n.surelyAbsent(hash{1, 8}) || !n.surelyAbsent(hash{1, 5}) {
		t.Error("a cell changed its neighbours")
	}
}
