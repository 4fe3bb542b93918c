package timers

import (
	"errors"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// TestGuardedTimersDecide: those for doors refuse strangers, also when they are made of the ones that allow
// everything.
func TestGuardedTimersDecide(t *testing.T) {
	ts := New(mem.New(), nil, nil, Options{Compile: schedule.Compile, Access: access.NewControl(nil)})
	key := rouse.Key{Namespace: "n", Name: "a"}
	if _, err := ts.Unguarded().Get(t.Context(), key); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("without access control: %v", err)
	}
	for _, guarded := range []Guarded{ts.Guarded(), ts.Unguarded().Guarded()} {
		if _, err := guarded.Get(t.Context(), key); !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("a stranger: %v", err)
		}
	}
}
