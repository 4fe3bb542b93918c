package redis

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// A failover to a server that lacks the last writes, and whose clock is an hour behind: receivers have seen
// the revisions of the lost writes as fencing tokens.
func TestRevisionsDoNotGoBackWithTheClock(t *testing.T) {
	for name, o := range map[string]Options{"one shard": {}, "shards": {Shards: 3}} {
		t.Run(name, func(t *testing.T) {
			server := servers.StartRedis(t)
			s := openTest(t, server.URL(), o)
			defer s.Close()
			other := openTest(t, server.URL(), o)
			defer other.Close()
			now, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Raise(t.Context(), uint64(now.Add(time.Hour))*1000); err != nil { // the clock of the first server
				t.Fatal(err)
			}
			last := create(t, s, "a").Revision
			held, err := other.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10, Hold: time.Nanosecond})
			if err != nil || len(held.Rows) != 1 || held.Rows[0].Revision <= last {
				t.Fatalf("%+v after %d: %v", held, last, err)
			}
			last = held.Rows[0].Revision
			if _, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10}); err != nil {
				t.Fatal(err)
			}
			fail := func() {
				for i := range s.shards {
					tell(t, server.Addr(), "set", s.shards[i].base+"revisions", "1 0 2")
				}
			}
			fail()
			// The process knows the revision of the other's hold from its own claim.
			r := rowOf("a")
			res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: r}})
			if err != nil || res[0].Revision <= last {
				t.Errorf("revision %d after %d: %v", res[0].Revision, last, err)
			}
			last = max(last, res[0].Revision)
			fail()
			b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10, Hold: time.Hour})
			if err != nil || len(b.Rows) != 1 || b.Rows[0].Revision <= last {
				t.Errorf("a hold: %+v after %d: %v", b, last, err)
			}
		})
	}
}

// A call that creates and deletes a row has used its revision, even where the clock has not reached it.
func TestTheRevisionOfARowThatIsGoneIsNotGivenAgain(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	tell(t, server.Addr(), "set", s.shards[0].base+"revisions", fmt.Sprintf("%d 0 1", uint64(rouse.At(time.Now().Add(time.Hour)))*1000))
	r := rowOf("a")
	seen := map[uint64]bool{}
	for range 3 {
		res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: r}, {Key: r.Key, If: rouse.AnyRevision}})
		if err != nil || !res[0].Applied || !res[1].Applied || seen[res[0].Revision] {
			t.Fatalf("%+v after %v: %v", res, seen, err)
		}
		seen[res[0].Revision] = true
	}
}

// The journal does not grow after the clock was set back: entries from the future are deleted like old ones.
func TestTheJournalIsTrimmedAfterTheClockWasSetBack(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	for i := range 60 {
		create(t, s, fmt.Sprint("before", i))
	}
	heads := s.shards[0].base + "journal"
	shift := func(at uint64) string {
		return string(binary.BigEndian.AppendUint64(nil, at))
	}
	for i, head := range tell(t, server.Addr(), "lrange", heads, "0", "-1").([]any) {
		text := head.(string)
		at := binary.BigEndian.Uint64([]byte(text[8:])) + uint64(time.Hour/time.Microsecond)
		tell(t, server.Addr(), "lset", heads, i, text[:8]+shift(at)+text[16:])
	}
	for i := range 30 {
		create(t, s, fmt.Sprint("after", i))
	}
	for _, key := range []string{heads, heads + ":rows"} {
		if n := tell(t, server.Addr(), "llen", key).(int64); n != 30 {
			t.Errorf("%s has %d entries; those from before the clock was set back are 60, those after it 30", key, n)
		}
	}
	if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 100}); err != nil || len(b.Rows) != 90 {
		t.Errorf("%d rows of 90: %v", len(b.Rows), err)
	}
}
