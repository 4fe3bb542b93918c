package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

// TestFollowersBeginWhenNothingIsMissed: what ends as soon as a client was told that it follows reaches it.
func TestFollowersBeginWhenNothingIsMissed(t *testing.T) {
	h := &hub{}
	ctx, cancel := context.WithCancel(t.Context())
	var got []rouse.Record
	begin := func() error { h.publishRecords([]rouse.Record{{Name: "first"}}); return nil }
	err := h.serveFollower(ctx, allRecords, begin, func(records []rouse.Record, _ uint64) error {
		got = records
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	refused := errors.New("refused")
	if err := h.serveFollower(t.Context(), allRecords, func() error { return refused }, nil); !errors.Is(err, refused) || len(h.followers) != 0 {
		t.Errorf("a beginning that fails: %v, %d followers are left", err, len(h.followers))
	}
	h.closeFollowers()
	if err := h.serveFollower(t.Context(), allRecords, func() error { t.Error("it begins after the end"); return nil }, nil); !errors.Is(err, rouse.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func allRecords(*rouse.Record) bool { return true }

// TestFollowersLoseOnlyTheirOwnRecords: what others have written neither fills the queue of a follower nor
// counts as dropped.
func TestFollowersLoseOnlyTheirOwnRecords(t *testing.T) {
	h := &hub{}
	mine := func(r *rouse.Record) bool { return r.Namespace == "mine" }
	begin := func() error {
		for range followerQueue + 3 {
			h.publishRecords([]rouse.Record{{Namespace: "theirs"}, {Namespace: "mine"}, {Namespace: "theirs"}})
		}
		return nil
	}
	enough := errors.New("enough")
	err := h.serveFollower(t.Context(), mine, begin, func(records []rouse.Record, dropped uint64) error {
		theirs := slices.ContainsFunc(records, func(r rouse.Record) bool { return !mine(&r) })
		if len(records) != followerQueue || dropped != 3 || theirs {
			t.Errorf("%d records, those of others among them: %v, and %d dropped", len(records), theirs, dropped)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	quiet, cancel := context.WithCancel(t.Context())
	begin = func() error {
		h.publishRecords([]rouse.Record{{Namespace: "theirs"}})
		if len(h.followers) != 1 {
			t.Errorf("%d followers", len(h.followers))
		}
		for f := range h.followers {
			if len(f.signal) != 0 {
				t.Error("a record of others wakes the follower")
			}
		}
		cancel()
		return nil
	}
	if err := h.serveFollower(quiet, mine, begin, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
