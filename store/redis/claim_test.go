package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// crowd creates rows in many buckets with only a few distinct times, and returns them in their order.
func crowd(t *testing.T, s *Store, n, buckets int) []rouse.Row {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, 8))
	rows := make([]rouse.Row, n)
	changes := make([]rouse.Change, n)
	for i := range rows {
		rows[i] = *rowOf(fmt.Sprintf("t%05d", rnd.IntN(1<<30)))
		rows[i].Bucket, rows[i].Visible = rnd.Uint32N(uint32(buckets)), due+rouse.Instant(rnd.IntN(3))
		rows[i].Key.Namespace = []string{"a", "b"}[rnd.IntN(2)]
		changes[i] = rouse.Change{Key: rows[i].Key, If: rouse.NoRow, To: &rows[i]}
	}
	results, err := s.Apply(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if !r.Applied {
			t.Fatalf("%v: %+v", rows[i].Key, r)
		}
		rows[i].Revision = r.Revision
	}
	return sortRows(rows)
}

func bucketsUntil(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

func sameKeys(t *testing.T, what string, got, want []rouse.Row) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b rouse.Row) bool { return a.Position() == b.Position() }) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
}

// The windows have more rows than a claim takes, in more buckets than one round asks, most of them at the
// same time.
func TestACrowdedWindowIsTakenInItsOrder(t *testing.T) {
	url := servers.Redis(t) + "," + servers.Redis(t)
	for shards, url := range map[int]string{1: servers.Redis(t), 4: servers.Redis(t), 2: url} {
		for _, hold := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("%d shards, hold %v", shards, hold), func(t *testing.T) {
				s := openTest(t, url, Options{Shards: shards, Prefix: fmt.Sprint("hold", hold)})
				defer s.Close()
				rows := crowd(t, s, 5000, 64)
				w := rouse.Window{Buckets: bucketsUntil(64), Hold: hold}
				for _, limit := range []int{1, 10, 700, 2500} {
					w.Limit = limit
					b, err := s.Claim(t.Context(), w)
					if err != nil {
						t.Fatal(err)
					}
					if !b.More {
						t.Errorf("limit %d: More is not set", limit)
					}
					sameKeys(t, fmt.Sprint("limit ", limit), b.Rows, rows[:limit])
					w.After = b.Rows[limit-1].Position()
					rows = rows[limit:]
				}
				w.Limit, w.Bytes = 10_000, 1500
				b, err := s.Claim(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				n, size := 0, 0
				for ; size < 1500; n++ {
					size += len(rows[n].Body)
				}
				sameKeys(t, "1500 bytes", b.Rows, rows[:n])
				w.After, rows = rows[n-1].Position(), rows[n:]
				w.Bytes, w.Namespaces = 0, []string{"b"}
				if b, err = s.Claim(t.Context(), w); err != nil {
					t.Fatal(err)
				}
				rows = slices.DeleteFunc(rows, func(r rouse.Row) bool { return r.Key.Namespace == "a" })
				sameKeys(t, "one namespace", b.Rows, rows)
				if b.More {
					t.Error("More is set at the end")
				}
			})
		}
	}
}

// Thousands of rows that a claim does not select come before those that it selects, more than one script
// reads.
func TestAFewRowsAreFoundAmongMany(t *testing.T) {
	for shards, url := range map[int]string{1: servers.Redis(t), 3: servers.Redis(t)} {
		for i, hold := range []time.Duration{0, time.Hour} {
			for buckets := 1; buckets <= 2; buckets++ {
				if !poll.Today(shards/2+i+buckets, 2) { // each pair of settings every day
					continue
				}
				t.Run(fmt.Sprintf("%d shards, hold %v, %d buckets", shards, hold, buckets), func(t *testing.T) {
					s := openTest(t, url, Options{Shards: shards, Prefix: fmt.Sprintf("hold:%v:%d", hold, buckets)})
					defer s.Close()
					var changes []rouse.Change
					var want []rouse.Row
					for i := range 25_000 {
						r := rowOf(fmt.Sprintf("t%05d", i))
						r.Bucket, r.Visible = uint32(i%buckets), due+rouse.Instant(i)
						if i%8200 == 8199 {
							r.Key.Namespace = "wanted"
							want = append(want, *r)
						}
						changes = append(changes, rouse.Change{Key: r.Key, To: r})
					}
					if _, err := s.Apply(t.Context(), changes); err != nil {
						t.Fatal(err)
					}
					w := rouse.Window{Buckets: bucketsUntil(buckets), Hold: hold, Limit: 2, Namespaces: []string{"wanted"}}
					b, err := s.Claim(t.Context(), w)
					if err != nil || !b.More {
						t.Fatalf("More is %v, %v", b.More, err)
					}
					sameKeys(t, "two", b.Rows, want[:2])
					w.After = b.Rows[1].Position()
					if b, err = s.Claim(t.Context(), w); err != nil || b.More {
						t.Fatalf("More is %v, %v", b.More, err)
					}
					sameKeys(t, "the last", b.Rows, want[2:])
				})
			}
		}
	}
}

func TestStoresOnTheSameServersNeverHoldTheSameRow(t *testing.T) {
	url := servers.Redis(t) + "," + servers.Redis(t)
	var stores []*Store
	for range 4 {
		s := openTest(t, url, Options{})
		defer s.Close()
		stores = append(stores, s)
	}
	rows := crowd(t, stores[0], 4000, 16)
	var mu sync.Mutex
	taken := map[rouse.Key]int{}
	var wg sync.WaitGroup
	for n, s := range stores {
		wg.Go(func() {
			for {
				b, err := s.Claim(t.Context(), rouse.Window{Buckets: bucketsUntil(16), Limit: 50 + 10*n, Hold: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				if len(b.Rows) == 0 {
					return
				}
				mu.Lock()
				for i := range b.Rows {
					taken[b.Rows[i].Key]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, r := range rows {
		if taken[r.Key] != 1 {
			t.Errorf("%s was taken %d times", r.Key.Name, taken[r.Key])
		}
	}
}

// If the journal does not go back far enough, the claim must still find every row.
func TestAClaimSinceATokenReadsTheWindowIfTheJournalIsTooShort(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	other := openTest(t, server.URL(), Options{})
	defer other.Close()
	crowd(t, s, 300, 4)
	w := rouse.Window{Buckets: bucketsUntil(4), Limit: 1000}
	first, err := s.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	w.Since = first.Token
	since := func(what string, want int, journal bool) {
		t.Helper()
		b, err := s.Claim(t.Context(), w)
		if err != nil || len(b.Rows) != want || b.Token < first.Token {
			t.Fatalf("%s: %d rows, token %d after %d: %v", what, len(b.Rows), b.Token, first.Token, err)
		}
		c := &claim{s: s, w: w}
		if done, err := c.readSince(t.Context()); err != nil || done != journal {
			t.Errorf("%s: it was read from the journal: %v, want %v, %v", what, done, journal, err)
		}
	}
	since("nothing was written", 0, true)
	create(t, other, "a")
	create(t, other, "b")
	since("two were created", 2, true)
	if _, err := s.Claim(t.Context(), rouse.Window{Buckets: w.Buckets, Limit: 1}); err != nil { // the journal is only deleted once its rows are in the indexes
		t.Fatal(err)
	}
	tell(t, server.Addr(), "lpop", s.shards[0].base+"journal", "2")
	since("the journal is short", 2, false)
	tell(t, server.Addr(), "del", s.shards[0].base+"journal")
	since("the journal is gone", 2, false)
}

// The journal of a store contains its first writes, so the first claim need not read the window again.
func TestTheFirstWritesAreFoundByTheJournal(t *testing.T) {
	url := servers.Redis(t)
	s, other := openTest(t, url, Options{}), openTest(t, url, Options{})
	defer s.Close()
	defer other.Close()
	since := tokenOf(t, s)
	create(t, other, "a")
	create(t, s, "b")
	if got := sees(t, s, since); len(got) != 1 || got["a"] == 0 {
		t.Errorf("it finds %v, want a", got)
	}
}

func TestTheJournalIsShort(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	journal := s.shards[0].base + "journal"
	for i := range 20 { // entries from long ago
		tell(t, server.Addr(), "rpush", journal, strings.Repeat("\x00", 15)+string(rune(i))+"writer and call.")
		tell(t, server.Addr(), "rpush", journal+":rows", strings.Repeat("\x00", 8))
	}
	for i := range 12 {
		create(t, s, fmt.Sprint("t", i))
	}
	for _, list := range []string{journal, journal + ":rows"} {
		if n := tell(t, server.Addr(), "llen", list); n != int64(12) {
			t.Errorf("%s has %d entries, 12 were written in the last seconds", list, n)
		}
	}
}

func TestRowsAreInTheirPlacesAfterManyChanges(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	known := map[rouse.Key]rouse.Result{}
	for round := range 120 {
		changes := make([]rouse.Change, 50)
		for i := range changes {
			r := rowOf(fmt.Sprint("t", rnd.IntN(200)))
			r.Bucket, r.Visible, r.State = rnd.Uint32N(4), due+rouse.Instant(rnd.IntN(50)), rouse.State(1+rnd.IntN(5))
			if rnd.IntN(4) == 0 {
				r.Visible = rouse.Never
			}
			changes[i] = rouse.Change{Key: r.Key, If: rouse.AnyRevision, To: r}
			if rnd.IntN(3) == 0 {
				changes[i].To = nil
			}
			if round%2 == 0 { // conditional changes are made many at a time
				r.Generation, changes[i].If = known[r.Key].Revision, known[r.Key].Revision
			}
		}
		results, err := s.Apply(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		for i, res := range results {
			known[changes[i].Key] = res
		}
	}
	base := s.shards[0].base
	dueNow := map[string]int{}
	state := map[int]int{}
	rows := 0
	page, err := s.List(t.Context(), rouse.Query{Limit: 1000, States: []rouse.State{1, 2, 3, 4, 5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Rows {
		rows++
		state[int(r.State)]++
		if r.Visible != rouse.Never {
			dueNow[fmt.Sprint(r.Bucket)]++
		}
	}
	count := func(command, key string, want int) {
		t.Helper()
		if n := tell(t, server.Addr(), command, base+key); n != int64(want) {
			t.Errorf("%s has %d, want %d", key, n, want)
		}
	}
	count("hlen", "rows", 1+rows) // with the id
	count("zcard", "keys", rows)
	for b := range 4 {
		count("zcard", fmt.Sprint("due:", b), dueNow[fmt.Sprint(b)])
	}
	count("zcard", "state:1", 0)
	for st := 2; st <= 5; st++ {
		count("zcard", fmt.Sprint("state:", st), state[st])
	}
}
