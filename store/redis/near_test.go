package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// age makes all entries of the journals old, so that the next writes delete them.
func age(t testing.TB, addr string, s *Store) {
	t.Helper()
	for _, sh := range s.shards {
		for i, head := range tell(t, addr, "lrange", sh.base+"journal", "0", "-1").([]any) {
			text := head.(string)
			tell(t, addr, "lset", sh.base+"journal", i, text[:8]+"\x00\x00\x00\x00\x00\x00\x00\x01"+text[16:])
		}
	}
}

// indexes returns the numbers of rows, keys, and rows in the index of a bucket.
func indexes(t testing.TB, addr string, s *Store, bucket uint32) (out [3]int64) {
	t.Helper()
	for _, sh := range s.shards {
		for i, args := range [][]any{{"hlen", "rows"}, {"zcard", "keys"}, {"zcard", fmt.Sprint("due:", bucket)}} {
			out[i] += tell(t, addr, args[0], sh.base+args[1].(string)).(int64)
		}
		out[0]-- // the id
	}
	return out
}

func TestARowThatIsDueSoonIsIndexedOnlyIfItLives(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	expect := func(when string, want [3]int64) {
		t.Helper()
		if got := indexes(t, server.Addr(), s, 0); got != want {
			t.Fatalf("%s: rows, keys and due are %v, want %v", when, got, want)
		}
	}
	near, far := rowOf("near"), rowOf("far")
	far.Due, far.Visible = rouse.Never-1, exact-1
	create := func(r *rouse.Row) uint64 {
		res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: r}})
		if err != nil || !res[0].Applied {
			t.Fatal(res, err)
		}
		return res[0].Revision
	}
	remove := func(r *rouse.Row, revision uint64) {
		res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: revision}})
		if err != nil || !res[0].Applied {
			t.Fatal(res, err)
		}
	}
	farAt := create(far)
	expect("a row that is due later", [3]int64{1, 1, 1})
	remove(near, create(near))
	expect("a row that lived for a moment", [3]int64{1, 1, 1})
	age(t, server.Addr(), s)
	nearAt := create(near)
	expect("after the entry of the removed row", [3]int64{2, 1, 1})
	age(t, server.Addr(), s)
	remove(far, farAt)
	farAt = create(far)
	expect("after the entry of the row", [3]int64{2, 2, 2})
	remove(near, nearAt)
	expect("an indexed row was removed", [3]int64{1, 1, 1})

	nearAt = create(near)
	after := rouse.Position{Visible: near.Visible + 1}
	if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, After: after, Limit: 10}); err != nil || len(b.Rows) != 0 {
		t.Fatal(b, err)
	}
	expect("a claim of later rows", [3]int64{2, 1, 1})
	if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10}); err != nil || len(b.Rows) != 1 || b.Rows[0].Revision != nearAt {
		t.Fatal(b, err)
	}
	expect("a claim of the row", [3]int64{2, 2, 2})
	remove(near, nearAt)

	nearAt = create(near)
	again := *near
	again.Generation = nearAt
	res, err := s.Apply(t.Context(), []rouse.Change{{Key: near.Key, If: nearAt, To: &again}})
	if err != nil || !res[0].Applied {
		t.Fatal(res, err)
	}
	expect("a near row was replaced", [3]int64{2, 2, 2})
	remove(near, res[0].Revision)
	remove(far, farAt)
	expect("the end", [3]int64{0, 0, 0})
}

func TestAHeldRowStaysInTheIndexesWhileOthersAreNot(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	create(t, s, "a")
	hold := func(want int) uint64 {
		t.Helper()
		b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10, Hold: 60e9})
		if err != nil || len(b.Rows) != want {
			t.Fatal(b, err)
		}
		if want == 0 {
			return 0
		}
		return b.Rows[0].Revision
	}
	if n, err := s.Count(t.Context(), rouse.Query{Prefix: "a"}); err != nil || n != 1 { // adds it to the indexes
		t.Fatal(n, err)
	}
	later := rowOf("later") // due now, but hidden
	later.Visible = exact - 1
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: later.Key, To: later}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: rowOf("a").Key, If: hold(1)}}); err != nil {
		t.Fatal(err)
	}
	if got := indexes(t, server.Addr(), s, 0); got != [3]int64{1, 0, 0} {
		t.Errorf("rows, keys and due are %v, want 1, 0, 0", got)
	}
	hold(0)
}

// TestIndexesAreCompleteAfterAnything makes random changes, claims and lists, with entries that become old at
// any time, and then compares the indexes with the rows.
func TestIndexesAreCompleteAfterAnything(t *testing.T) {
	server := servers.StartRedis(t)
	for seed := range 4 {
		s := openTest(t, server.URL(), Options{Prefix: fmt.Sprint("near", seed), Shards: 1 + seed%2})
		defer s.Close()
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		known := map[rouse.Key]uint64{}
		for range 150 {
			var changes []rouse.Change
			for range 1 + rnd.IntN(8) {
				r := rowOf(fmt.Sprint("t", rnd.IntN(30)))
				r.Visible, r.State = due+rouse.Instant(rnd.IntN(50)), rouse.State(1+rnd.IntN(5)/4)
				if rnd.IntN(3) == 0 {
					r.Due, r.Visible = rouse.Never-1, exact-1
				}
				c := rouse.Change{Key: r.Key, If: known[r.Key], To: r}
				switch rnd.IntN(6) {
				case 0:
					r.Generation = known[r.Key]
				case 1, 2:
					c.To = nil
				case 3:
					r.Visible, c.If = rouse.Never, rouse.AnyRevision
				case 4:
					c.If++
				}
				changes = append(changes, c)
			}
			results, err := s.Apply(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				known[changes[i].Key] = r.Revision
			}
			switch rnd.IntN(20) {
			case 0, 1:
				age(t, server.Addr(), s)
			case 2:
				b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 5, Hold: 1e9})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range b.Rows {
					known[r.Key] = r.Revision
				}
			case 3:
				if _, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 5}); err != nil {
					t.Fatal(err)
				}
			case 4:
				if _, err := s.Count(t.Context(), rouse.Query{Prefix: "t"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		page, err := s.List(t.Context(), rouse.Query{Limit: 1000, States: []rouse.State{1, 2}})
		if err != nil {
			t.Fatal(err)
		}
		visible := int64(0)
		for _, r := range page.Rows {
			if r.Visible != rouse.Never {
				visible++
			}
		}
		all := int64(len(page.Rows))
		if got, want := indexes(t, server.Addr(), s, 0), [3]int64{all, all, visible}; got != want {
			t.Errorf("seed %d: rows, keys and due are %v, want %v", seed, got, want)
		}
	}
}

// TestAStoreOfFormat1IsUpgraded turns a store into what format 1 was, with a record in a batch.
func TestAStoreOfFormat1IsUpgraded(t *testing.T) {
	server := servers.StartRedis(t)
	addr, base := server.Addr(), baseOf("rouse", 0, 1)
	s := openTest(t, server.URL(), Options{})
	row := rowOf("a")
	record := rouse.Record{Namespace: row.Key.Namespace, Name: row.Key.Name, Ending: rouse.EndFired, Due: due, Ended: due + 77}
	made := create(t, s, "a")
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: row.Key, If: made.Revision, Log: []rouse.Record{record}}}); err != nil {
		t.Fatal(err)
	}
	create(t, s, "b")
	if n, err := s.Count(t.Context(), rouse.Query{Prefix: "b"}); err != nil || n != 1 { // also adds it to the indexes
		t.Fatal(n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := int64(rouse.Instant(9e15 - 1e6)) // ahead of the clock
	for _, key := range tell(t, addr, "keys", base+"marks:*").([]any) {
		tell(t, addr, "del", key)
	}
	hour := fmt.Sprint(unixHour(record.Ended))
	tell(t, addr, "hset", base+"ended:"+hour, encodeMember(&row.Key), string(timeBytes(record.Ended)))
	tell(t, addr, "del", base+"revisions", base+"journal", base+"journal:rows")
	tell(t, addr, "set", base+"revision", fmt.Sprintf("%d %d", last, 12345))
	tell(t, addr, "hset", metaKey("rouse"), metaFormat, 1)

	for range 2 {
		s = openTest(t, server.URL(), Options{})
		defer s.Close()
	}
	if got := tell(t, addr, "hget", metaKey("rouse"), metaFormat); got != fmt.Sprint(formatSpread) {
		t.Errorf("the format is %v", got)
	}
	if got := tell(t, addr, "get", base+"revisions"); got != fmt.Sprintf("%d 12345 %d", last, last+1) {
		t.Errorf("the revisions are %v", got)
	}
	b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10})
	if err != nil || len(b.Rows) != 1 || b.Rows[0].Key.Name != "b" {
		t.Errorf("%v: %v", b, err)
	}
	if res := create(t, s, "c"); res.Revision <= uint64(last) {
		t.Errorf("revision %d after %d", res.Revision, last)
	}
	page, err := s.Records(t.Context(), rouse.RecordQuery{Namespace: row.Key.Namespace, Name: "a", Limit: 10})
	if err != nil || len(page.Records) != 1 || page.Records[0].Ended != record.Ended {
		t.Errorf("the records are %v: %v", page, err)
	}
	// A format 1 script reads two numbers: a text without them makes it fail before it writes.
	old := newScript(`local last = redis.call('GET', KEYS[1]) or '0'
local space = string.find(last, ' ', 1, true)
local ahead = tonumber(string.sub(last, space + 1))
return 1 + ahead`)
	if _, err := evalScript(t.Context(), s.servers[0], old, []any{base + "revision"}, nil); err == nil {
		t.Error("a running node of an older version would go on writing")
	}
}
