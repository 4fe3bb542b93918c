package redis

import (
	"strconv"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// sees returns what a Store finds in the journal since a token.
func sees(t *testing.T, s *Store, since uint64) map[string]uint64 {
	t.Helper()
	c := &claim{s: s, w: rouse.Window{Buckets: bucketsUntil(4), Limit: 1000, Since: since}}
	if done, err := c.readSince(t.Context()); err != nil || !done {
		t.Fatalf("the journal was read: %v, %v", done, err)
	}
	out := map[string]uint64{}
	for _, r := range c.batch.Rows {
		if out[r.Key.Name] != 0 {
			t.Errorf("%s was found twice", r.Key.Name)
		}
		out[r.Key.Name] = r.Revision
	}
	return out
}

func tokenOf(t *testing.T, s *Store) uint64 {
	t.Helper()
	b, err := s.Claim(t.Context(), rouse.Window{Buckets: bucketsUntil(4), Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b.Token
}

func putIf(name string, revision uint64, later rouse.Instant) []rouse.Change {
	r := rowOf(name)
	r.Visible += later
	return []rouse.Change{{Key: r.Key, If: revision, To: r}}
}

func TestAValueDoesNotReadItsOwnWritesBackAndOthersDo(t *testing.T) {
	for name, o := range map[string]Options{"one shard": {}, "three shards": {Shards: 3}} {
		t.Run(name, func(t *testing.T) {
			url := servers.Redis(t)
			a, b := openTest(t, url, o), openTest(t, url, o)
			defer a.Close()
			defer b.Close()
			for i := range 9 { // so that each shard has a journal
				create(t, a, string(rune('0'+i)))
			}
			since := tokenOf(t, a)
			mine := create(t, a, "mine")
			if got := sees(t, a, since); len(got) != 0 {
				t.Errorf("the writer finds %v", got)
			}
			if got := sees(t, b, since); len(got) != 1 || got["mine"] != mine.Revision {
				t.Errorf("another finds %v, want mine with %d", got, mine.Revision)
			}
			res, err := b.Apply(t.Context(), putIf("mine", mine.Revision, 5))
			if err != nil || !res[0].Applied {
				t.Fatal(res, err)
			}
			if got := sees(t, a, since); len(got) != 1 || got["mine"] != res[0].Revision {
				t.Errorf("after another's write the first finds %v, want mine with %d", got, res[0].Revision)
			}
			// A row that was written twice at one place is found once.
			if res, err = b.Apply(t.Context(), putIf("mine", res[0].Revision, 5)); err != nil || !res[0].Applied {
				t.Fatal(res, err)
			}
			if got := sees(t, a, since); len(got) != 1 || got["mine"] != res[0].Revision {
				t.Errorf("after another's two writes the first finds %v, want mine with %d", got, res[0].Revision)
			}
			// A refused write is recorded as well; the row's earlier write must still be found.
			if res, err := b.Apply(t.Context(), putIf("mine", mine.Revision, 9)); err != nil || res[0].Applied {
				t.Fatal(res, err)
			}
			if got := sees(t, a, since); len(got) != 1 || got["mine"] != res[0].Revision {
				t.Errorf("after another's refused write the first finds %v, want mine with %d", got, res[0].Revision)
			}
		})
	}
}

// A Store finds its own Apply calls until they have returned without an error, and forever if they fail.
func TestAValueFindsWhatItDoesNotKnowToHaveWritten(t *testing.T) {
	s := openTest(t, servers.Redis(t), Options{})
	defer s.Close()
	create(t, s, "first")
	since := tokenOf(t, s)
	begin := func(name string) stamp {
		t.Helper()
		st := s.writes.beginWrite()
		if res, err := s.applyToShards(t.Context(), st, putIf(name, rouse.NoRow, 0)); err != nil || !res[0].Applied {
			t.Fatal(res, err)
		}
		return st
	}
	one, other := begin("one"), begin("other")
	create(t, s, "known")
	finds := func(when string, want ...string) {
		t.Helper()
		got := sees(t, s, since)
		for _, name := range want {
			if got[name] == 0 {
				t.Errorf("%s: %s is not found, but %v", when, name, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v is found, want %v", when, got, want)
		}
	}
	finds("two are on their way", "one", "other")
	s.writes.endWrite(other, true)
	finds("one is on its way", "one")
	s.writes.endWrite(one, false)
	finds("one has failed", "one", "other", "known") // the new writer number has written none of them
	create(t, s, "later")
	finds("the new writer writes", "one", "other", "known")
	late := stamp{writer: one.writer, call: one.call}
	if res, err := s.applyToShards(t.Context(), late, putIf("late", rouse.NoRow, 0)); err != nil || !res[0].Applied {
		t.Fatal(res, err)
	}
	finds("the failed one lands once more", "one", "other", "known", "late")
}

func TestAnotherFindsAllRowsOfALargeChange(t *testing.T) {
	url := servers.Redis(t)
	a, b := openTest(t, url, Options{}), openTest(t, url, Options{})
	defer a.Close()
	defer b.Close()
	create(t, a, "first")
	since := tokenOf(t, b)
	change := putIf("many", rouse.NoRow, 0)
	for i := range 9000 {
		row := *rowOf("many")
		row.Key.Fire = strconv.Itoa(i)
		change[0].Also = append(change[0].Also, row)
	}
	if res, err := a.Apply(t.Context(), change); err != nil || !res[0].Applied {
		t.Fatal(res, err)
	}
	c := &claim{s: b, w: rouse.Window{Buckets: []uint32{0}, Limit: 10_000, Since: since}}
	if done, err := c.readSince(t.Context()); err != nil || !done || len(c.batch.Rows) != 9001 {
		t.Errorf("%d rows, by the journal: %v, %v", len(c.batch.Rows), done, err)
	}
}

func TestAnAnswerThatIsLostMakesAValueFindItsWrite(t *testing.T) {
	server := servers.StartRedis(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := openTest(t, proxy.URL(server.URL()), Options{})
	defer s.Close()
	create(t, s, "known")
	since := tokenOf(t, s)
	direct := openTest(t, server.URL(), Options{})
	defer direct.Close()
	proxy.CutToClient()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Apply(t.Context(), putIf("unknown", rouse.NoRow, 0))
		failed <- err
	}()
	var landed uint64
	eventually(t, "the write has landed", func() error {
		got, err := direct.Revisions(t.Context(), []rouse.Key{rowOf("unknown").Key})
		if err == nil && got[0] == 0 {
			err = errDamaged
		}
		landed = got[0]
		return err
	})
	proxy.Reset()
	proxy.Heal()
	if err := <-failed; err == nil {
		t.Fatal("the call whose answer was lost has no error")
	}
	eventually(t, "the way is open again", func() error {
		_, err := s.Now(t.Context())
		return err
	})
	if got := sees(t, s, since); got["unknown"] != landed {
		t.Errorf("it finds %v, want the write of revision %d", got, landed)
	}
}

func TestARefusalForWantOfMemoryIsNoReasonToReadEverythingBack(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	before, _, _ := s.writes.knownWrites()
	tell(t, server.Addr(), "config", "set", "maxmemory", "1mb")
	if _, err := s.Apply(t.Context(), putIf("new", rouse.NoRow, 0)); err != rouse.ErrFull { //nolint:errorlint // this very one
		t.Fatal(err)
	}
	if after, _, open := s.writes.knownWrites(); string(after) != string(before) || len(open) != 0 {
		t.Errorf("the writer is another, with %d calls on their way", len(open)/8)
	}
}
