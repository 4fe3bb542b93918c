package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// TestACheckpointEndsWithItsContext ends the context while the copy is being written. If the copy is faster,
// it must be complete.
func TestACheckpointEndsWithItsContext(t *testing.T) {
	top := t.TempDir()
	s := openTest(t, top)
	defer s.Close()
	body := []byte(strings.Repeat("x", 16<<10))
	for at := range 20 {
		var changes []rouse.Change
		for i := range 100 {
			c := newTimer(fmt.Sprintf("t%02d-%03d", at, i))
			c.To.Body = body
			changes = append(changes, c)
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(top, "copy")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Checkpoint(ctx, dir) }()
	for {
		info, err := os.Stat(filepath.Join(dir, CheckpointFile))
		if err == nil && info.Size() > 0 || len(done) > 0 {
			break
		}
		runtime.Gosched()
	}
	cancel()
	err := <-done
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, left := os.Stat(dir)
	if (err == nil) != (left == nil) {
		t.Errorf("the copy ended with %v, and of it there is: %v", err, left)
	}
	if left == nil {
		if rows, _, err := Tally(t.Context(), filepath.Join(dir, CheckpointFile)); err != nil || rows[rouse.StateScheduled] != 2000 {
			t.Errorf("the copy has %v, %v", rows, err)
		}
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{newTimer("after")}); err != nil {
		t.Errorf("the store after it: %v", err)
	}
}

// TestATallyChangesNothing: it changes neither the file nor its directory.
func TestATallyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, filepath.Join(dir, CheckpointFile))
	before := storetest.Tree(t, dir)
	rows, records, err := Tally(t.Context(), filepath.Join(dir, CheckpointFile))
	if err != nil || len(rows) != 1 || rows[rouse.StateScheduled] != 2000 || records != 0 {
		t.Errorf("%v, %d, %v", rows, records, err)
	}
	if after := storetest.Tree(t, dir); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the directory was %v and is %v", before, after)
	}
	if _, _, err := Tally(t.Context(), filepath.Join(dir, "nothing")); err == nil {
		t.Error("a tally of nothing")
	}
}
