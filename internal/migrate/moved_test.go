package migrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
)

// checkLeft: after a finished copy, the source has the note, and the target does not; on request, the source
// can be served again.
func checkLeft(t *testing.T, from, to rouse.Store) {
	t.Helper()
	if where, at, err := migrate.Moved(t.Context(), from); where == "" || at.IsZero() || err != nil {
		t.Errorf("the source was moved to %q at %v, %v", where, at, err)
	}
	if where, _, err := migrate.Moved(t.Context(), to); where != "" || err != nil {
		t.Errorf("the target was moved to %q, %v", where, err)
	}
	if _, err := migrate.Copy(t.Context(), from, open(t, "mem"), migrate.Options{}); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("it was copied again: %v", err)
	}
	if err := migrate.Return(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	if where, _, err := migrate.Moved(t.Context(), from); where != "" || err != nil {
		t.Errorf("after its return the source was moved to %q, %v", where, err)
	}
}

// noDelete is a target whose marker cannot be removed.
type noDelete struct {
	rouse.Store
	rouse.Raiser
}

func (s noDelete) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if len(changes) == 1 && changes[0].To == nil {
		return nil, errors.New("killed")
	}
	return s.Store.Apply(ctx, changes)
}

// TestACopyThatEndsAtItsLastStepIsFinishedLater: until then neither store can be served.
func TestACopyThatEndsAtItsLastStepIsFinishedLater(t *testing.T) {
	from, to := open(t, "mem"), open(t, "mem")
	fill(t, from)
	if _, err := migrate.Copy(t.Context(), from, noDelete{to, to.(rouse.Raiser)}, migrate.Options{Final: true}); err == nil {
		t.Fatal("it was finished")
	}
	where, _, err := migrate.Moved(t.Context(), from)
	_, unfinished, err2 := migrate.Unfinished(t.Context(), to)
	if where == "" || !unfinished || err != nil || err2 != nil {
		t.Fatalf("moved to %q, unfinished %v, %v, %v", where, unfinished, err, err2)
	}
	if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil || !r.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	alike(t, from, to)
}
