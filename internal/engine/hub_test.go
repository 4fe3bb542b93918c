package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/rousehq/rouse"
)

// TestFollowersBeginWhenNothingIsMissed: what ends as soon as a client was told that it follows reaches it.
func TestFollowersBeginWhenNothingIsMissed(t *testing.T) {
	h := &hub{}
	ctx, cancel := context.WithCancel(t.Context())
	var got []rouse.Record
	begin := func() error { h.publishRecords([]rouse.Record{{Name: "first"}}); return nil }
	err := h.serveFollower(ctx, begin, func(records []rouse.Record, _ uint64) error {
		got = records
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	refused := errors.New("refused")
	if err := h.serveFollower(t.Context(), func() error { return refused }, nil); !errors.Is(err, refused) || len(h.followers) != 0 {
		t.Errorf("a beginning that fails: %v, %d followers are left", err, len(h.followers))
	}
	h.closeFollowers()
	if err := h.serveFollower(t.Context(), func() error { t.Error("it begins after the end"); return nil }, nil); !errors.Is(err, rouse.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
