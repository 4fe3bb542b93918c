package storekit

import (
	"context"
	"errors"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
)

func TestCloseWaitsForCalls(t *testing.T) {
	var g Guard
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Begin(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a canceled context: %v", err)
	}
	if err := g.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	running, failure := true, errors.New("failed")
	closed := make(chan error)
	go func() {
		closed <- g.Close(func() error {
			if running {
				t.Error("Close did not wait for a call")
			}
			return failure
		})
	}()
	poll.Until(t, "Close waits", func() bool {
		if !g.TryRLock() {
			return true
		}
		g.RUnlock()
		return false
	})
	running = false
	g.RUnlock()
	if err := <-closed; err != failure {
		t.Errorf("Close returned %v", err)
	}
	if err := g.Close(func() error { t.Error("ended twice"); return failure }); err != nil {
		t.Errorf("the second Close returned %v", err)
	}
	if err := g.Begin(t.Context()); !errors.Is(err, rouse.ErrClosed) {
		t.Errorf("a call of a closed part: %v", err)
	}
}
