package front

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

func TestSameAsTheModel(t *testing.T) {
	sql, index := servers.Postgres(t), servers.Redis(t)
	p := usual
	p.lag, p.net = time.Minute, time.Hour // only rows that were deleted at any revision are repaired
	storetest.Compare(t, func(t *testing.T) rouse.Store { return repairedStore{ready(t, sql, index, fresh(unsafe), p)} },
		func() rouse.Store { return mem.New() })
}

// repairedStore is a store whose holds come after all repairs: these lock rows, and a hold passes over rows
// that are locked.
type repairedStore struct{ *Store }

func (s repairedStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	if w.Hold > 0 && !poll.Holds(poll.Patience, func() bool { n, _ := s.pending.countPendingKeys(); return n == 0 }) {
		return rouse.Batch{}, errors.New("keys are left to be repaired")
	}
	return s.Store.Claim(ctx, w)
}

// TestSameAsPostgres: a claim through the index returns the same as PostgreSQL, for every window.
func TestSameAsPostgres(t *testing.T) {
	s := ready(t, servers.Postgres(t), servers.Redis(t), fresh(unsafe), usual)
	defer s.Close()
	const n = 3000
	changes := make([]rouse.Change, n)
	var after []rouse.Position
	for i := range changes {
		at := past + rouse.Instant(i*i%37) // many at the same time
		k := rouse.Key{Namespace: []string{"a", "b", "c\x01"}[i%3], Name: fmt.Sprint(i * 7919 % n), Fire: []string{"", "f"}[i%2]}
		bucket := uint32(i % 8)
		if i%3 > 0 { // two are full, one of them earlier
			bucket = 1
			if at > past+12 || i%7 == 0 {
				bucket = 6
			}
		}
		changes[i] = rouse.Change{Key: k, To: &rouse.Row{Key: k, Bucket: bucket, Visible: at, Due: at, State: rouse.StateScheduled, Body: make([]byte, i%9)}}
		after = append(after, rouse.Position{Visible: at, Key: k})
	}
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := rouse.Window{
			Buckets:    slices.Compact(slices.Sorted(slices.Values(rapid.SliceOf(rapid.Uint32Range(0, 9)).Draw(t, "buckets")))),
			Limit:      rapid.SampledFrom([]int{1, 2, 17, 100, 999, 5000}).Draw(t, "limit"),
			Bytes:      rapid.SampledFrom([]int{0, 0, 1, 50, 1000}).Draw(t, "bytes"),
			Namespaces: rapid.SampledFrom([][]string{nil, {"b"}, {"a", "c\x01"}, {"d"}}).Draw(t, "namespaces"),
		}
		if rapid.Bool().Draw(t, "after one") {
			w.After = after[rapid.IntRange(0, n-1).Draw(t, "after")]
			w.After.Visible += rapid.SampledFrom([]rouse.Instant{0, 0, 1, -1}).Draw(t, "moved")
		}
		if rapid.Bool().Draw(t, "until") {
			now, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.Ahead = (past + 20).Sub(now) - time.Hour // earlier than all rows
		}
		got, err := s.Claim(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Store.Claim(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Rows) != len(want.Rows) || got.More && len(got.Rows) == 0 {
			t.Fatalf("%d rows, more %v, want %d, more %v", len(got.Rows), got.More, len(want.Rows), want.More)
		}
		for i := range got.Rows {
			if got.Rows[i].Position() != want.Rows[i].Position() || got.Rows[i].Revision != want.Rows[i].Revision {
				t.Fatalf("row %d is %+v, want %+v", i, got.Rows[i], want.Rows[i])
			}
		}
		if len(want.Rows) == w.Limit && !got.More && !want.More {
			t.Fatal("more is not set")
		}
	})
}

// TestLateUpdates: the index accepts nothing older than its entries, and nothing for an index with another
// id.
func TestLateUpdates(t *testing.T) {
	ctx := t.Context()
	o := fresh(unsafe).withDefaults()
	ix, err := newIndex(servers.Redis(t), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.closeIndex()
	if _, err := ix.openOrCreate(ctx, 1, 0); err != nil {
		t.Fatal(err)
	}
	k := rouse.Key{Namespace: "ns", Name: "a"}
	at := func(revision uint64, bucket uint32, visible rouse.Instant) []postgres.Entry {
		return []postgres.Entry{{Key: k, Bucket: bucket, Visible: visible, Revision: revision}}
	}
	have := func(what string, revision uint64, bucket uint32, visible rouse.Instant) {
		t.Helper()
		e, err := ix.lookupEntries(ctx, 1, []rouse.Key{k})
		if err != nil || e[0].Revision != revision || e[0].Visible != visible {
			t.Errorf("%s: %+v, %v", what, e, err)
		}
		_, pages, err := ix.readDueEntries(ctx, 1, 1000, 10, []spot{{bucket: 0}, {bucket: 1}, {bucket: 1 << 31}})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range []uint32{0, 1, 1 << 31} {
			if n := len(pages[i].entries); n == 1 != (b == bucket && revision > 0) {
				t.Errorf("%s: bucket %d has %d entries", what, b, n)
			}
		}
	}
	const large = 1<<62 + 1 // Lua's numbers cannot distinguish it from adjacent ones
	for _, c := range []struct {
		what     string
		say      []postgres.Entry
		revision uint64
		bucket   uint32
		visible  rouse.Instant
	}{
		{"first", at(large, 1, 100), large, 1, 100},
		{"older", at(large-1, 0, 50), large, 1, 100},
		{"the same, elsewhere", at(large, 1, 110), large, 1, 110},
		{"newer, in another bucket", at(large+1, 1<<31, 200), large + 1, 1 << 31, 200},
		{"removed by a caller that saw an older one", at(large, 0, rouse.Never), large + 1, 1 << 31, 200},
		{"removed", at(large+1, 0, rouse.Never), 0, 0, 0},
		{"again", at(large+2, 0, 300), large + 2, 0, 300},
	} {
		if err := ix.putEntries(ctx, 1, c.say, ""); err != nil {
			t.Fatal(err)
		}
		have(c.what, c.revision, c.bucket, c.visible)
	}
	repair := func(what string, seen string, say []postgres.Entry, want int) {
		t.Helper()
		if n, err := ix.repairEntries(ctx, 1, say, []string{seen}); err != nil || n != want {
			t.Errorf("%s: repaired %d, %v", what, n, err)
		}
	}
	repair("gone, from a caller that saw no entry", "", at(0, 0, 0), 0)
	have("it stays", large+2, 0, 300)
	repair("gone, from a caller that saw an older entry", valueOf(large, 0), at(0, 0, 0), 0)
	have("it stays", large+2, 0, 300)
	repair("its revision went back", valueOf(large+2, 0), at(7, 1, 30), 1)
	have("the store was restored", 7, 1, 30)
	repair("newer than what was seen", valueOf(5, 0), at(8, 1, 31), 1)
	have("newer", 8, 1, 31)
	repair("gone", valueOf(8, 1), at(0, 0, 0), 0)
	have("gone", 0, 0, 0)

	if err := ix.putEntries(ctx, 2, at(large, 0, 1), ""); err == nil {
		t.Error("an index with another id accepts an entry")
	}
	if now, err := ix.openOrCreate(ctx, 3, 2); err != nil || now.id != 1 {
		t.Errorf("an index with another id was discarded: %+v, %v", now, err)
	}
	if now, err := ix.openOrCreate(ctx, 3, 1); err != nil || now.id != 3 || now.level != 10 {
		t.Errorf("discarded and created again: %+v, %v", now, err)
	}
}
