package allocation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPrefixes(t *testing.T) {
	for n, want := range map[int]string{0: "A", 1: "B", 25: "Z", 26: "AA", 27: "AB", 30: "AE", 701: "ZZ", 702: "AAA"} {
		if got := Prefix(n); got != want {
			t.Errorf("prefix %d is %s, not %s", n, got, want)
		}
	}
	for n := range 50_000 {
		if back, ok := prefixNumber(Prefix(n)); !ok || back != n {
			t.Fatalf("prefix %d, %s, is read as %d", n, Prefix(n), back)
		}
	}
}

func TestIDs(t *testing.T) {
	id := ID{"B", 200143, "drftghrq"}
	if got := id.String(); got != "reminder||B||200143||drftghrq" {
		t.Errorf("it is written %s", got)
	}
	if back, err := ParseID(id.String()); err != nil || back != id {
		t.Errorf("it is read as %v, %v", back, err)
	}
	for _, bad := range []string{"", "reminder||B||200143", "reminder||b||1||drftghrq", "reminder||B||0||drftghrq",
		"reminder||B||01||drftghrq", "reminder||B||+1||drftghrq",
		"reminder||B||2147483648||drftghrq", "reminder||B||1||drftghr", "reminder||B||1||drftghrQ", "reminder||B||1||drftghrq||", "timer||B||1||drftghrq", "reminder||BBBBBBB||1||drftghrq"} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("reminder||B||200143||drftghrq")
	f.Add("reminder||||||")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseID(text); err == nil && id.String() != text {
			t.Errorf("%q is read as %q", text, id.String())
		}
	})
}

// letters generates vectors in order.
func letters() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("vector%c%c", 'a'+n/26, 'a'+n%26)
	}
}

func TestBucketsGoThroughAllNumbersAndBeginAgain(t *testing.T) {
	var b Book
	vector := letters()
	first := b.Make("orderapp", "B", 100_000, vector)
	if first.ID != "B1" || first.From != 1 || first.To != 100_000 {
		t.Errorf("the first is %+v", first)
	}
	var last Bucket
	for range 21_474 {
		last, b.Buckets = b.Make("orderapp", "B", 100_000, vector), nil
		if last.Vector != first.Vector {
			break
		}
		if last.From < 1 || last.To < last.From {
			t.Fatalf("%+v", last)
		}
	}
	if last.ID != "B21475" || last.From != 1 || last.To != 100_000 || last.Vector == first.Vector {
		t.Errorf("after the last number comes %+v", last)
	}
	if v := Vector(); len(v) != 8 || v == Vector() {
		t.Errorf("vectors are such as %q", v)
	}
}

// model is a table with randomly changing sidecars and instances.
type model struct {
	Situation
	t     *testing.T
	given map[string]int32 // last token of each bucket
	ids   map[ID]bool
}

func (w *model) plan() {
	w.t.Helper()
	next, seats, changed := Plan(w.Situation)
	if !changed && (next.Generation != w.Book.Generation || !maps.Equal(seats, w.Seats)) || changed && next.Generation != w.Book.Generation+1 {
		w.t.Fatal("the reported change and the actual change differ")
	}
	for i := range next.Buckets {
		b := &next.Buckets[i]
		if _, known := w.given[b.ID]; !known {
			w.given[b.ID] = b.From - 1
		}
	}
	w.nothingMoves(seats)
	w.Book, w.Seats = next, seats
	w.Low, w.Spent, w.Empty, w.Splits = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]Cut{}
	if again, _, changed := Plan(w.Situation); changed {
		w.t.Fatalf("the plan is not what it plans itself: %+v", again)
	}
}

// nothingMoves fails if a bucket moved, unless its owner is gone or an owner without any has arrived.
func (w *model) nothingMoves(seats map[string]Seat) {
	w.t.Helper()
	had := map[string]bool{}
	app := map[string]string{}
	for i := range w.Book.Buckets {
		b := &w.Book.Buckets[i]
		app[b.ID] = b.App
		if _, stays := seats[b.ID]; !stays {
			continue
		}
		had[b.App+" "+w.Seats[b.ID].Client], had[w.Seats[b.ID].Instance] = true, true
	}
	for id, now := range seats {
		was, known := w.Seats[id]
		if !known {
			continue
		}
		if was.Client != now.Client && slices.Contains(w.Clients[app[id]], was.Client) && had[app[id]+" "+now.Client] {
			w.t.Fatalf("%s moves from the sidecar %s to %s, which has some", id, was.Client, now.Client)
		}
		if was.Instance != now.Instance && slices.Contains(w.Instances, was.Instance) && had[now.Instance] {
			w.t.Fatalf("%s moves from the instance %s to %s, which has some", id, was.Instance, now.Instance)
		}
	}
}

func (w *model) check() {
	w.t.Helper()
	table := NewTable(&w.Book, w.Seats)
	open := map[string]int{}
	for i := range table.Rows {
		row := &table.Rows[i]
		if len(w.Clients[row.App]) > 0 && !slices.Contains(w.Clients[row.App], row.Client) || len(w.Clients[row.App]) == 0 && row.Client != "" {
			w.t.Fatalf("%s is with %q", row.ID, row.Client)
		}
		if !slices.Contains(w.Instances, row.Instance) {
			w.t.Fatalf("%s is at %q", row.ID, row.Instance)
		}
		if row.State == Open {
			open[row.App+row.Client]++
		}
		for _, token := range []int32{row.From, row.To} {
			if got := table.Of(ID{row.Prefix, token, row.Vector}); got != row {
				w.t.Fatalf("the token %d of %s is found in %+v", token, row.ID, got)
			}
		}
	}
	for app, clients := range w.Clients {
		for _, c := range clients {
			if open[app+c] < 1 {
				w.t.Fatalf("the sidecar %s of %s has no open bucket", c, app)
			}
		}
	}
}

// give issues tokens of a bucket and records the ids.
func (w *model) give(b *Bucket, n int32) {
	for ; n > 0 && b.State.Gives() && w.given[b.ID] < b.To; n-- {
		w.given[b.ID]++
		id := ID{b.Prefix, w.given[b.ID], b.Vector}
		if w.ids[id] {
			w.t.Fatalf("%v is given twice", id)
		}
		w.ids[id] = true
	}
	switch left := b.To - w.given[b.ID]; {
	case left == 0:
		w.Spent[b.ID] = true
	case left < 5:
		w.Low[b.ID] = true
	}
}

// TestPlans randomly adds and removes sidecars and instances, issues tokens, and splits and collects buckets.
func TestPlans(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &model{t: t, given: map[string]int32{}, ids: map[ID]bool{}, Situation: Situation{Clients: map[string][]string{}, Prefixes: map[string]string{"x": "A", "y": "B"},
			Instances: []string{"i0"}, Size: 40, Vector: letters()}}
		w.plan()
		for range 60 {
			app := []string{"x", "y"}[r.IntN(2)]
			switch r.IntN(7) {
			case 0:
				c := fmt.Sprint("c", r.IntN(6))
				if !slices.Contains(w.Clients[app], c) {
					w.Clients[app] = append(slices.Clone(w.Clients[app]), c)
				}
			case 1:
				if n := len(w.Clients[app]); n > 0 {
					at := r.IntN(n)
					w.Clients[app] = slices.Delete(slices.Clone(w.Clients[app]), at, at+1)
				}
			case 2:
				if i := fmt.Sprint("i", r.IntN(5)); !slices.Contains(w.Instances, i) {
					w.Instances = append(slices.Clone(w.Instances), i)
				}
			case 3:
				if n := len(w.Instances); n > 1 {
					at := r.IntN(n)
					w.Instances = slices.Delete(slices.Clone(w.Instances), at, at+1)
				}
			case 4, 5:
				for i := range w.Book.Buckets {
					w.give(&w.Book.Buckets[i], int32(r.IntN(20)))
				}
			case 6:
				w.divideOrCollect(r)
			}
			w.plan()
			w.check()
		}
	}
}

func (w *model) divideOrCollect(r *rand.Rand) {
	if len(w.Book.Buckets) == 0 {
		return
	}
	b := &w.Book.Buckets[r.IntN(len(w.Book.Buckets))]
	if !b.State.Gives() && r.IntN(2) == 0 {
		w.Empty[b.ID] = true
		return
	}
	given := w.given[b.ID]
	if !b.State.Gives() {
		given = b.To
	}
	if given-b.From < 4 {
		return
	}
	cut := Cut{At: b.From + (given-b.From)/2, Given: given}
	w.Splits[b.ID] = cut
	before := len(w.Book.Buckets)
	next, _, _ := Plan(w.Situation)
	for _, part := range next.Buckets[before:] { // the leader does this before any of their tokens are issued
		if len(part.Of) > 0 && part.Of[len(part.Of)-1] == b.ID && part.From <= given {
			w.given[part.ID] = min(given, part.To)
		}
	}
}

// TestSpentBucketsAreMerged: tokens never run out, however many buckets still have a reminder, and every id
// is found.
func TestSpentBucketsAreMerged(t *testing.T) {
	w := &model{t: t, given: map[string]int32{}, ids: map[ID]bool{}, Situation: Situation{Clients: map[string][]string{"x": {"c0", "c1"}, "y": {"c"}},
		Prefixes: map[string]string{"x": "A", "y": "B"}, Instances: []string{"i0", "i1"}, Size: 10, Most: 40, Merge: 20, Vector: letters()}}
	w.plan()
	kept := 0
	for range 300 {
		for i := range w.Book.Buckets {
			w.give(&w.Book.Buckets[i], 10)
		}
		w.plan()
		w.check()
		if n := len(w.Book.Buckets); n > w.Merge+6 {
			t.Fatalf("there are %d buckets", n)
		}
	}
	table := NewTable(&w.Book, w.Seats)
	for id := range w.ids {
		if row := table.Of(id); row == nil || row.Client == "" {
			t.Fatalf("%v has no owner", id)
		}
	}
	for i := range w.Book.Buckets {
		if b := &w.Book.Buckets[i]; len(b.Of) > maxOf {
			t.Errorf("%s bears %d names", b.ID, len(b.Of))
		} else if b.Kept {
			kept++
		}
	}
	if len(w.ids) < 300*3*10 || kept == 0 {
		t.Errorf("%d ids, %d buckets that stay", len(w.ids), kept)
	}
}

// TestANewBucketMovesNoOther: sidecars and instances keep their buckets while tokens are issued and buckets
// are created.
func TestANewBucketMovesNoOther(t *testing.T) {
	w := &model{t: t, given: map[string]int32{}, ids: map[ID]bool{}, Situation: Situation{Clients: map[string][]string{"x": {"c0", "c1", "c2"}},
		Prefixes: map[string]string{"x": "A"}, Instances: []string{"i0", "i1"}, Size: 40, Vector: letters()}}
	w.plan()
	first := maps.Clone(w.Seats)
	for range 40 { // all by one sidecar, whose buckets are used up one after another
		for i := range w.Book.Buckets {
			if b := &w.Book.Buckets[i]; w.Seats[b.ID].Client == "c0" {
				w.give(b, 40)
			}
		}
		w.plan()
		w.check()
	}
	for id, seat := range first {
		if w.Seats[id] != seat {
			t.Errorf("%s was with %v and is with %v", id, seat, w.Seats[id])
		}
	}
	if n := len(w.Book.Buckets); n < 40 {
		t.Errorf("%d buckets", n)
	}
}

// TestFewMove: a new owner gets its share and no other owner anything; a leaving one gives up its share and
// nothing else moves.
func TestFewMove(t *testing.T) {
	s := Situation{Clients: map[string][]string{"x": nil}, Prefixes: map[string]string{"x": "A"}, Instances: []string{"i"}, Size: 10, Vector: letters()}
	for n := range 20 {
		s.Clients["x"] = append(s.Clients["x"], fmt.Sprintf("c%02d", n))
	}
	s.Book, s.Seats, _ = Plan(s)
	s.Clients["x"] = s.Clients["x"][:4]
	s.Book, s.Seats, _ = Plan(s)
	before := s.Seats
	s.Clients["x"] = append(s.Clients["x"], "new")
	s.Book, s.Seats, _ = Plan(s)
	moved := 0
	for id, seat := range s.Seats {
		if seat.Client != before[id].Client {
			if moved++; seat.Client != "new" {
				t.Errorf("%s has moved from %s to %s", id, before[id].Client, seat.Client)
			}
		}
	}
	if moved != 4 {
		t.Errorf("%d of 20 buckets have moved to the fifth sidecar", moved)
	}
	before = s.Seats
	s.Clients["x"] = s.Clients["x"][:4]
	_, s.Seats, _ = Plan(s)
	for id, seat := range s.Seats {
		if seat.Client != before[id].Client && before[id].Client != "new" {
			t.Errorf("%s has moved from %s to %s", id, before[id].Client, seat.Client)
		}
	}
}
