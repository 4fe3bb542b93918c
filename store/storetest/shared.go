package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

// RunShared tests a store for several nodes against the contract of rouse.Shared, in addition to rouse.Store,
// which Run tests. open returns an empty store, and a function that opens it once more, as another node does;
// RunShared closes them. Leases are short here, and the tests wait for the store's clock.
func RunShared(t *testing.T, open func(t *testing.T) (s rouse.Shared, again func() rouse.Shared)) {
	for _, c := range slices.Concat(locks, presences, raises, revisions, tokens, nodes) {
		t.Run(c.text, func(t *testing.T) {
			s, again := open(t)
			closeLater(t, s)
			c.run(&sharedBench{bench: &bench{T: t, Store: s}, shared: s, again: again})
		})
	}
}

func closeLater(t *testing.T, s rouse.Shared) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// sharedSentence is a sentence about a store for several nodes.
type sharedSentence struct {
	text string
	run  func(m *sharedBench)
}

// sharedBench is a bench for a store for several nodes.
type sharedBench struct {
	*bench
	shared rouse.Shared
	again  func() rouse.Shared
	second rouse.Shared
}

// otherNode opens the same store as another node.
func (m *sharedBench) otherNode() rouse.Shared {
	if m.second == nil {
		m.second = m.again()
		closeLater(m.T, m.second)
	}
	return m.second
}

func (m *sharedBench) mustReadRevisions(keys ...rouse.Key) []uint64 {
	m.Helper()
	out, err := m.shared.Revisions(m.Context(), keys)
	if err != nil {
		m.Fatal(err)
	}
	if len(out) != len(keys) {
		m.Fatalf("%d revisions for %d keys", len(out), len(keys))
	}
	return out
}

// waitUntil waits until the store's clock has reached a time in the near future.
func (m *sharedBench) waitUntil(at rouse.Instant) {
	m.Helper()
	for limit := time.Now().Add(poll.Patience); m.storeTime() < at; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			m.Fatalf("the store's clock is at %v and does not reach %v", m.storeTime(), at)
		}
	}
}

// revisions contains the cases about Revisions.
var revisions = []sharedSentence{
	{"revisions come in the order of the keys, with 0 where there is no row", func(m *sharedBench) {
		rows := m.mustCreate(numberedRows(5)...)
		dead := dueRow("t0001", 0)
		dead.Key.Fire, dead.State = "f1", rouse.StateDead
		dead = m.mustCreate(dead)[0]
		missing := rouse.Key{Namespace: "ns", Name: "missing"}
		got := m.mustReadRevisions(rows[3].Key, missing, dead.Key, rows[0].Key, rows[1].Key, rows[3].Key)
		want := []uint64{rows[3].Revision, 0, dead.Revision, rows[0].Revision, rows[1].Revision, rows[3].Revision}
		if !slices.Equal(got, want) {
			m.Errorf("revisions %v, want %v", got, want)
		}
		if got := m.mustReadRevisions(); len(got) != 0 {
			m.Errorf("revisions %v of no keys", got)
		}
	}},
	{"revisions of many keys are asked for at once", func(m *sharedBench) {
		rows := numberedRows(3000)
		for i := range rows {
			rows[i].Bucket = uint32(i % 64)
		}
		rows = m.mustCreate(rows...)
		keys := make([]rouse.Key, 0, 2*len(rows))
		for i := range rows {
			keys = append(keys, rows[len(rows)-1-i].Key, rouse.Key{Namespace: "ns", Name: fmt.Sprint("missing ", i)})
		}
		for i, rev := range m.mustReadRevisions(keys...) {
			want := uint64(0)
			if i%2 == 0 {
				want = rows[len(rows)-1-i/2].Revision
			}
			if rev != want {
				m.Fatalf("revision %d is %d, want %d", i, rev, want)
			}
		}
	}},
	{"revisions are those of changes, holds and removals that were acknowledged", func(m *sharedBench) {
		var wg sync.WaitGroup
		for n := range 6 {
			wg.Go(func() {
				r := dueRow(fmt.Sprint("t", n), 0)
				r.Bucket = uint32(n)
				sees := func(what string, want uint64) bool {
					got, err := m.shared.Revisions(m.Context(), []rouse.Key{r.Key})
					if err != nil || got[0] != want {
						m.Errorf("after %s: revisions %v, want %d: %v", what, got, want, err)
						return false
					}
					return true
				}
				for range 10 {
					res, err := m.shared.Apply(m.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}})
					if err != nil || !res[0].Applied {
						m.Errorf("create: %+v %v", res, err)
						return
					}
					if !sees("a create", res[0].Revision) {
						return
					}
					b, err := m.shared.Claim(m.Context(), rouse.Window{Buckets: []uint32{r.Bucket}, Limit: 2, Hold: time.Hour})
					if err != nil || len(b.Rows) != 1 {
						m.Errorf("claim: %+v %v", b, err)
						return
					}
					if !sees("a hold", b.Rows[0].Revision) {
						return
					}
					res, err = m.shared.Apply(m.Context(), []rouse.Change{{Key: r.Key, If: b.Rows[0].Revision}})
					if err != nil || !res[0].Applied {
						m.Errorf("remove: %+v %v", res, err)
						return
					}
					if !sees("a removal", 0) {
						return
					}
				}
			})
		}
		wg.Wait()
	}},
}

// raises contains the cases about stores with Raise.
var raises = []sharedSentence{}

// tokens contains the cases about Window.Since and Batch.Token: rows that one node writes, another finds. A
// store may return more than was written since, so they check only for the rows that must be included.
var tokens = []sharedSentence{
	{"a row written after a claim is in the window since its token", func(m *sharedBench) {
		rows := m.mustCreate(numberedRows(4)...)
		token := m.mustClaim(rouse.Window{}).Token
		m.mustSee(token, "nothing was written")

		created := m.mustCreate(dueRow("created", 0))[0]
		m.mustSee(token, "a create", created.Key)
		to := rows[1]
		m.mustApply(rouse.Change{Key: to.Key, If: to.Revision, To: &to})
		m.mustSee(token, "a create and an update", created.Key, to.Key)
		extra := dueRow("t0002", 0)
		extra.Key.Fire, extra.State = "f1", rouse.StateFiring
		m.mustApply(rouse.Change{Key: rows[2].Key, If: rows[2].Revision, Keep: true, Also: []rouse.Row{extra}})
		m.mustSee(token, "an additional row", created.Key, to.Key, extra.Key)
		held := m.mustClaim(rouse.Window{Hold: time.Hour, Limit: 1}).Rows[0]
		m.mustSee(token, "a hold", created.Key, to.Key, extra.Key, held.Key)
	}},
	{"a token is of use for later claims too, whatever their window was", func(m *sharedBench) {
		rows := numberedRows(12)
		for i := range rows {
			rows[i].Bucket = uint32(i % 3)
		}
		rows[5].Visible = m.storeTime().Add(time.Hour)
		rows = m.mustCreate(rows...)
		for _, w := range []rouse.Window{
			{}, {Buckets: []uint32{1}}, {Limit: 1}, {Hold: time.Hour, Limit: 1}, {After: rows[9].Position()},
			{Buckets: []uint32{}},
		} {
			token := m.mustClaim(w).Token
			to := m.mustGet(rows[7].Key)[0]
			m.mustApply(rouse.Change{Key: to.Key, If: to.Revision, To: &to})
			m.mustSee(token, fmt.Sprintf("a claim of %+v", w), to.Key)
		}
	}},
	{"the window since a token is read in pages", func(m *sharedBench) {
		m.mustCreate(numberedRows(30)...)
		token := m.mustClaim(rouse.Window{}).Token
		written := numberedRows(60)
		for i := range written {
			written[i].Key.Name = fmt.Sprintf("w%04d", i)
		}
		written = m.mustCreate(written...)
		seen, _, err := m.readSinceToken(token, 7)
		if err != nil {
			m.Fatal(err)
		}
		for _, r := range written {
			if seen[r.Key] != r.Revision {
				m.Errorf("%s was not seen", r.Key.Name)
			}
		}
	}},
	{"claims since the last one's token see every row that is written, by however many writers", func(m *sharedBench) {
		var writers sync.WaitGroup
		for n := range 8 {
			writers.Go(func() {
				size := []int{1, 1, 2, 5, 1, 40, 3, 150}[n] // long and short transactions end in another order than they begin
				for round := range 400 / (size + 9) {
					changes := make([]rouse.Change, size)
					for i := range changes {
						to := dueRow(fmt.Sprintf("w%d-%d-%d", n, round, i), 997*i%1000)
						to.Bucket = uint32((round + i) % 4)
						changes[i] = rouse.Change{Key: to.Key, If: rouse.NoRow, To: &to}
					}
					results, err := m.shared.Apply(m.Context(), changes)
					if err != nil {
						m.Error(err)
						return
					}
					for i := range changes { // a few are written again
						changes[i].If = results[i].Revision
					}
					if _, err := m.shared.Apply(m.Context(), changes[:1]); err != nil {
						m.Error(err)
						return
					}
				}
			})
		}
		var ended atomic.Bool
		go func() { writers.Wait(); ended.Store(true) }()
		var token uint64
		seen := map[rouse.Key]uint64{}
		for last := false; !last; {
			last = ended.Load() // then one more round finds the rest
			got, next, err := m.readSinceToken(token, 50)
			if err != nil {
				m.Error(err)
				break
			}
			for k, rev := range got {
				seen[k] = max(seen[k], rev)
			}
			token = next
		}
		writers.Wait()
		missed := 0
		for _, r := range m.mustList(rouse.Query{}) {
			if seen[r.Key] != r.Revision {
				if missed++; missed < 5 {
					m.Errorf("revision %d of %s was not seen, the last one was %d", r.Revision, r.Key.Name, seen[r.Key])
				}
			}
		}
		if missed > 0 {
			m.Errorf("%d rows were missed", missed)
		}
	}},
}

// readSinceToken reads, as another node, the window of four buckets since a token, in pages. It returns the
// revisions that it found, and the token to continue with.
func (m *sharedBench) readSinceToken(token uint64, limit int) (seen map[rouse.Key]uint64, next uint64, err error) {
	seen = map[rouse.Key]uint64{}
	w := rouse.Window{Buckets: []uint32{0, 1, 2, 3}, Since: token, Limit: limit, Ahead: 24 * time.Hour}
	for first := true; ; first = false {
		b, err := m.otherNode().Claim(m.Context(), w)
		if err != nil {
			return nil, 0, err
		}
		if first {
			next = b.Token
		}
		for _, r := range b.Rows {
			seen[r.Key] = max(seen[r.Key], r.Revision)
		}
		if !b.More {
			return seen, next, nil
		}
		w.After = b.Rows[len(b.Rows)-1].Position()
	}
}

// mustSee claims since a token, and checks that the current rows of the keys are included.
func (m *sharedBench) mustSee(token uint64, after string, keys ...rouse.Key) {
	m.Helper()
	seen, _, err := m.readSinceToken(token, 1000)
	if err != nil {
		m.Fatal(err)
	}
	for i, rev := range m.mustReadRevisions(keys...) {
		if seen[keys[i]] != rev {
			m.Errorf("after %s: %s/%s was seen with revision %d since %d, it has %d",
				after, keys[i].Name, keys[i].Fire, seen[keys[i]], token, rev)
		}
	}
}

// nodes contains the cases about several nodes that work at the same time.
var nodes = []sharedSentence{
	{"a claim for namespaces takes the rows of these only, in pages too", func(m *sharedBench) {
		rows := numberedRows(60)
		for i := range rows {
			rows[i].Key.Namespace, rows[i].Bucket = []string{"a", "b", "ab", "c"}[i%4], uint32(i%3)
		}
		rows = m.mustCreate(rows...)
		of := func(namespaces ...string) (out []rouse.Row) {
			for _, r := range rows {
				if slices.Contains(namespaces, r.Key.Namespace) {
					out = append(out, r)
				}
			}
			return out
		}
		w := rouse.Window{Buckets: []uint32{0, 1, 2}}
		for _, w.Namespaces = range [][]string{{"a"}, {"b", "c"}, {"empty"}, {"c", "empty", "a"}} {
			m.checkSameRows(fmt.Sprint(w.Namespaces), m.mustClaim(w).Rows, of(w.Namespaces...))
		}
		w.Namespaces, w.Limit = []string{"a", "c"}, 4
		var got []rouse.Row
		for page := m.mustClaim(w); ; page = m.mustClaim(w) {
			got = append(got, page.Rows...)
			if !page.More {
				break
			}
			w.After = page.Rows[len(page.Rows)-1].Position()
		}
		m.checkSameRows("in pages", got, of("a", "c"))
		w.After, w.Limit, w.Hold = rouse.Position{}, 100, time.Hour
		for _, r := range m.mustClaim(w).Rows {
			if r.Key.Namespace != "a" && r.Key.Namespace != "c" {
				m.Errorf("%v was held", r.Key)
			}
		}
		m.checkSameRows("the others", m.mustClaim(rouse.Window{Buckets: w.Buckets}).Rows, of("b", "ab"))
	}},
	{"rows are created, held and settled by many at once, each by exactly one", func(m *sharedBench) {
		const creators, each = 3, 60
		var wg, making sync.WaitGroup
		for n := range creators {
			making.Add(1)
			wg.Go(func() {
				defer making.Done()
				for i := range each {
					r := dueRow(fmt.Sprintf("t%d-%d", n, i), i)
					r.Bucket = uint32(i % 4)
					if _, err := m.shared.Apply(m.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: &r}}); err != nil {
						m.Error(err)
						return
					}
				}
			})
		}
		var made atomic.Bool
		wg.Go(func() { making.Wait(); made.Store(true) })
		var mu sync.Mutex
		settled := map[rouse.Key]int{}
		for n := range 4 {
			wg.Go(func() {
				for {
					last := made.Load()
					b, err := m.shared.Claim(m.Context(), rouse.Window{Buckets: []uint32{0, 1, 2, 3}, Limit: 3 + n, Hold: time.Hour})
					if err != nil {
						m.Error(err)
						return
					}
					changes := make([]rouse.Change, len(b.Rows))
					for i, r := range b.Rows {
						changes[i] = rouse.Change{Key: r.Key, If: r.Revision}
					}
					if len(changes) == 0 {
						if last {
							return
						}
						continue
					}
					results, err := m.shared.Apply(m.Context(), changes)
					if err != nil {
						m.Error(err)
						return
					}
					mu.Lock()
					for i, res := range results {
						if settled[changes[i].Key]++; !res.Applied {
							m.Errorf("%s is held with revision %d, its settle is refused: %+v", changes[i].Key.Name, changes[i].If, res)
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for k, n := range settled {
			if n != 1 {
				m.Errorf("%s was held %d times", k.Name, n)
			}
		}
		if left := m.mustList(rouse.Query{}); len(left) > 0 || len(settled) != creators*each {
			m.Errorf("%d of %d rows were settled, %d are left", len(settled), creators*each, len(left))
		}
	}},
	{"of all that change a row at its revision exactly one succeeds", func(m *sharedBench) {
		r := m.mustCreate(dueRow("a", 0))[0]
		for range 10 {
			var wg sync.WaitGroup
			var applied atomic.Int64
			var revision atomic.Uint64
			for range 6 {
				wg.Go(func() {
					to := r
					res, err := m.shared.Apply(m.Context(), []rouse.Change{{Key: r.Key, If: r.Revision, To: &to}})
					switch {
					case err != nil:
						m.Error(err)
					case res[0].Applied:
						applied.Add(1)
						revision.Store(res[0].Revision)
					}
				})
			}
			wg.Wait()
			if n := applied.Load(); n != 1 || revision.Load() <= r.Revision {
				m.Fatalf("%d changes of revision %d were applied, the last as %d", n, r.Revision, revision.Load())
			}
			r.Revision = revision.Load()
		}
	}},
}
