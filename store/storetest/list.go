package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
)

// lists contains the cases about List and Count.
var lists = []sentence{
	{"lists are in the order of keys, and leave out the additional rows of timers unless asked for", func(b *bench) {
		var rows []rouse.Row
		for _, k := range [][3]string{{"test", "a", ""}, {"test", "a", "f1"}, {"test", "a", "f2"}, {"test", "a-1", ""},
			{"test", "a.", ""},
			{"test", "b", ""}, {"test", "d", ""}, {"test", "c", ""}, {"test-1", "a", ""}, {"test-1", "a", "f"}} {
			r := dueRow("", len(rows))
			r.Key = rouse.Key{Namespace: k[0], Name: k[1], Fire: k[2]}
			if r.Key.Fire != "" {
				r.State, r.Visible = rouse.StateDead, rouse.Never
			}
			switch r.Key.Name {
			case "a.":
				r.State = rouse.StateEnded
			case "b":
				r.State = rouse.StatePaused
			case "c":
				r.State = rouse.StateNote
			case "d":
				r.State, r.Key.Name, r.Key.Fire = rouse.StateFiring, "b", "g"
			}
			rows = append(rows, r)
		}
		shuffled := slices.Clone(rows)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, r := range b.mustCreate(shuffled...) {
			rows[slices.IndexFunc(rows, func(x rouse.Row) bool { return x.Key == r.Key })] = r
		}
		pick := func(at ...int) (out []rouse.Row) {
			for _, i := range at {
				out = append(out, rows[i])
			}
			return out
		}
		all := everyState
		dead, firing, note := []rouse.State{rouse.StateDead}, []rouse.State{rouse.StateFiring}, []rouse.State{rouse.StateNote}
		for _, c := range []struct {
			q    rouse.Query
			want []rouse.Row
		}{
			{rouse.Query{}, pick(0, 3, 4, 5, 8)},
			{rouse.Query{States: all}, rows},
			{rouse.Query{States: rouse.ListedStates}, pick(0, 3, 4, 5, 8)},
			{rouse.Query{States: dead}, pick(1, 2, 9)},
			{rouse.Query{States: firing}, pick(6)},
			{rouse.Query{States: note}, pick(7)},
			{rouse.Query{States: []rouse.State{rouse.StateNote, rouse.StateEnded, rouse.StateFiring}}, pick(4, 6, 7)},
			{rouse.Query{Namespace: "test"}, pick(0, 3, 4, 5)},
			{rouse.Query{Namespace: "test", States: firing}, pick(6)},
			{rouse.Query{Namespace: "test", Prefix: "c", States: note}, pick(7)},
			{rouse.Query{Namespace: "test", Prefix: "c"}, nil},
			{rouse.Query{Namespace: "test", Name: "c"}, nil},
			{rouse.Query{Namespace: "test", Name: "b"}, pick(5)},
			{rouse.Query{Namespace: "test", Name: "b", States: firing}, pick(6)},
			{rouse.Query{Namespace: "test-1"}, pick(8)},
			{rouse.Query{Namespace: "test", Prefix: "a"}, pick(0, 3, 4)},
			{rouse.Query{Namespace: "test", Prefix: "a-"}, pick(3)},
			{rouse.Query{Prefix: "a"}, pick(0, 3, 4, 8)},
			{rouse.Query{Prefix: "b"}, pick(5)},
			{rouse.Query{Namespace: "test", Name: "a"}, pick(0)},
			{rouse.Query{Namespace: "test", Name: "a", States: all}, pick(0, 1, 2)},
			{rouse.Query{Name: "a", States: all}, pick(0, 1, 2, 8, 9)},
			{rouse.Query{Name: "a", States: dead}, pick(1, 2, 9)},
			{rouse.Query{Namespace: "tes"}, nil},
			{rouse.Query{Namespace: "test", After: rouse.Key{Namespace: "test", Name: "a"}}, pick(3, 4, 5)},
			{rouse.Query{States: all, After: rouse.Key{Namespace: "test", Name: "a", Fire: "f1"}}, rows[2:]},
			{rouse.Query{States: dead, After: rouse.Key{Namespace: "test", Name: "a", Fire: "f1"}}, pick(2, 9)},
			{rouse.Query{After: rouse.Key{Namespace: "test-1", Name: "a", Fire: "z"}}, nil},
			{rouse.Query{Namespace: "test-1", After: rouse.Key{Namespace: "test", Name: "b"}}, pick(8)},
			// from one namespace to the next
			{rouse.Query{States: all, After: rouse.Key{Namespace: "test", Name: strings.Repeat("\U0010FFFF", 64)}}, pick(8, 9)},
			{rouse.Query{Namespace: "test", After: rouse.Key{Namespace: "test-1", Name: "a"}}, nil},
		} {
			for _, limit := range []int{1, 2, 100} {
				c.q.Limit = limit
				b.checkSameRows(fmt.Sprintf("%+v", c.q), b.mustList(c.q), c.want)
			}
			if c.q.After == (rouse.Key{}) {
				if n := b.mustCount(c.q); n != int64(len(c.want)) {
					b.Errorf("%+v: count is %d, want %d", c.q, n, len(c.want))
				}
			}
		}
	}},
	{"all filters hold together", func(b *bench) {
		rows := createAssorted(b)
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 250 {
			q := rouse.Query{Limit: 5 + rnd.IntN(60)}
			if rnd.IntN(3) > 0 {
				q.Namespace = []string{"test", "test-1", "none"}[min(rnd.IntN(5), 2)]
			}
			if rnd.IntN(3) == 0 {
				q.Prefix = []string{"t", "t0", "t01", "x"}[rnd.IntN(4)]
			}
			if rnd.IntN(6) == 0 {
				q.Name = rows[rnd.IntN(len(rows))].Key.Name
			}
			for _, s := range everyState {
				if rnd.IntN(5) == 0 {
					q.States = append(q.States, s)
				}
			}
			for _, l := range []string{"team", "tier", "none"} {
				if rnd.IntN(6) == 0 {
					if q.Labels == nil {
						q.Labels = map[string]string{}
					}
					q.Labels[l] = []string{"", "red", "blue"}[rnd.IntN(3)]
				}
			}
			if rnd.IntN(4) == 0 {
				q.DueFrom = start + rouse.Instant(rnd.IntN(300))
			}
			if rnd.IntN(4) == 0 {
				q.DueUntil = start + rouse.Instant(rnd.IntN(300))
			}
			var want []rouse.Row
			for _, r := range rows {
				if matchesQuery(&q, &r) {
					want = append(want, r)
				}
			}
			b.checkSameRows(fmt.Sprintf("%+v", q), b.mustList(q), want)
			if n := b.mustCount(q); n != int64(len(want)) {
				b.Fatalf("%+v: count is %d, want %d", q, n, len(want))
			}
			q.After = rows[rnd.IntN(len(rows))].Key
			want = slices.DeleteFunc(want, func(r rouse.Row) bool { return r.Key.Compare(q.After) <= 0 })
			b.checkSameRows(fmt.Sprintf("%+v", q), b.mustList(q), want)
		}
	}},
	{"the labels of a row are found as long as it has them", func(b *bench) {
		r := dueRow("a", 0)
		red, blue := map[string]string{"team": "red"}, map[string]string{"team": "blue"}
		found := func(labels map[string]string, want int) {
			b.Helper()
			q := rouse.Query{Labels: labels}
			if got := b.mustList(q); len(got) != want || b.mustCount(q) != int64(want) {
				b.Fatalf("%v: %d rows, want %d", labels, len(got), want)
			}
		}
		for _, state := range []rouse.State{rouse.StateScheduled, rouse.StatePaused} {
			for range 2 { // the second time the labels are the same
				r.State, r.Labels = state, red
				at := b.mustCreate(r)[0].Revision
				found(red, 1)
				r.Labels = blue
				to := r
				at = b.mustApply(rouse.Change{Key: r.Key, If: at, To: &to})[0].Revision
				found(red, 0)
				found(blue, 1)
				if res := b.mustApply(rouse.Change{Key: r.Key, If: at})[0]; !res.Applied {
					b.Fatalf("%+v", res)
				}
				found(blue, 0)
			}
		}
	}},
	{"pages go on where they ended, while rows come and go", func(b *bench) {
		fixed := numberedRows(300)
		for i := range fixed {
			fixed[i].Labels = map[string]string{"kept": "yes"}
		}
		fixed = b.mustCreate(fixed...)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := dueRow(fmt.Sprintf("t%04d-x", i%300), i)
				if _, err := b.Store.Apply(b.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: &r}}); err != nil {
					b.Error(err)
					return
				}
				if i%3 == 0 {
					if _, err := b.Store.Apply(b.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision}}); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
		for range 2 {
			got := b.mustList(rouse.Query{Namespace: "ns", Limit: 17})
			if !slices.IsSortedFunc(got, func(x, y rouse.Row) int { return x.Key.Compare(y.Key) }) {
				b.Error("out of order")
			}
			got = slices.DeleteFunc(got, func(r rouse.Row) bool { return strings.HasSuffix(r.Key.Name, "-x") })
			b.checkSameRows("the rows that stayed", got, fixed)
			b.checkSameRows("the same by label", b.mustList(rouse.Query{Namespace: "ns",
				Labels: map[string]string{"kept": "yes"}, Limit: 21}), fixed)
		}
		close(stop)
		wg.Wait()
	}},
	{"a filter that nothing matches ends, in pages", func(b *bench) {
		var rows []rouse.Row
		for i := range 17_000 {
			r := dueRow(fmt.Sprintf("t%05d", i), i)
			rows = append(rows, r)
		}
		for chunk := range slices.Chunk(rows, 5000) {
			b.mustCreate(chunk...)
		}
		b.checkSameRows("due long after", b.mustList(rouse.Query{Namespace: "ns", DueFrom: start + 1_000_000}), nil)
		b.checkSameRows("due last", keysOnly(b.mustList(rouse.Query{Namespace: "ns", DueFrom: start + 16_999})),
			keysOnly(rows[16_999:]))
		if n := b.mustCount(rouse.Query{Prefix: "t0000"}); n != 10 {
			b.Errorf("count is %d, want 10", n)
		}
	}},
	{"counts by namespace and state follow every write", func(b *bench) {
		rows := createAssorted(b)
		check := func(when string) {
			b.Helper()
			for _, ns := range []string{"", "test", "test-1", "none"} {
				for _, states := range [][]rouse.State{nil, everyState, {rouse.StateScheduled}, {rouse.StatePaused},
					{rouse.StateDead}, {rouse.StateFiring},
					{rouse.StateEnded}, {rouse.StateNote}, {rouse.StateDead, rouse.StateRetrying, rouse.StateDead}} {
					q := rouse.Query{Namespace: ns, States: states}
					want := int64(0)
					for i := range rows {
						if rows[i].Revision != 0 && matchesQuery(&q, &rows[i]) {
							want++
						}
					}
					if n := b.mustCount(q); n != want {
						b.Fatalf("%s: %+v: count is %d, want %d", when, q, n, want)
					}
				}
			}
		}
		check("created")
		for i := range rows {
			r := &rows[i]
			switch i % 4 {
			case 0:
				b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})
				r.Revision = 0
			case 1:
				r.State = everyState[i/4%len(everyState)]
				to := *r
				r.Revision = b.mustApply(rouse.Change{Key: r.Key, If: rouse.AnyRevision, To: &to})[0].Revision
			case 2:
				b.mustApply(rouse.Change{Key: r.Key, If: r.Revision + 1<<40})
			}
		}
		check("changed")
		for i := range rows {
			b.mustApply(rouse.Change{Key: rows[i].Key, If: rouse.AnyRevision})
			rows[i].Revision = 0
		}
		check("removed")
	}},
}

// everyState contains all states.
var everyState = []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused,
	rouse.StateDead, rouse.StateFiring,
	rouse.StateEnded, rouse.StateNote}

// keysOnly reduces rows to the fields that a test compares when it does not know the revisions.
func keysOnly(rows []rouse.Row) []rouse.Row {
	out := make([]rouse.Row, len(rows))
	for i := range rows {
		out[i].Key = rows[i].Key
	}
	return out
}

// createAssorted creates rows of all kinds, and returns them in the order of their keys.
func createAssorted(b *bench) []rouse.Row {
	rnd := rand.New(rand.NewPCG(3, 4))
	var rows []rouse.Row
	for _, ns := range []string{"test", "test-1"} {
		for i := range 120 {
			r := dueRow(fmt.Sprintf("t%03d", i), rnd.IntN(300))
			r.Key.Namespace = ns
			r.State = rouse.ListedStates[rnd.IntN(len(rouse.ListedStates))]
			if rnd.IntN(10) == 0 {
				r.State = rouse.StateNote
			}
			for _, l := range []string{"team", "tier"} {
				if rnd.IntN(2) == 0 {
					if r.Labels == nil {
						r.Labels = map[string]string{}
					}
					r.Labels[l] = []string{"", "red", "blue"}[rnd.IntN(3)]
				}
			}
			rows = append(rows, r)
			for f := range rnd.IntN(3) {
				d := r
				d.Key.Fire, d.State, d.Visible = fmt.Sprint("f", f), rouse.StateDead, rouse.Never
				if rnd.IntN(2) == 0 {
					d.State, d.Visible = rouse.StateFiring, r.Visible
				}
				rows = append(rows, d)
			}
		}
	}
	return b.mustCreate(rows...)
}

// matchesQuery is the simplest implementation of a query's filters.
func matchesQuery(q *rouse.Query, r *rouse.Row) bool {
	ok := q.Namespace == "" || q.Namespace == r.Key.Namespace
	ok = ok && strings.HasPrefix(r.Key.Name, q.Prefix)
	ok = ok && (q.Name == "" || q.Name == r.Key.Name)
	if len(q.States) == 0 {
		ok = ok && r.State != rouse.StateDead && r.State != rouse.StateFiring && r.State != rouse.StateNote
	} else {
		ok = ok && slices.Contains(q.States, r.State)
	}
	for k, v := range q.Labels {
		have, there := r.Labels[k]
		ok = ok && there && have == v
	}
	ok = ok && (q.DueFrom == 0 || r.Due >= q.DueFrom)
	return ok && (q.DueUntil == 0 || r.Due < q.DueUntil)
}
