package access

import (
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/store/mem"
)

// seen is what a kind of one node has taken.
type seen map[string]string

func (s seen) take(n note.Note) {
	if n.Revision == 0 {
		delete(s, n.Name)
		return
	}
	var text string
	if err := n.Read(&text); err != nil {
		panic(err)
	}
	s[n.Name] = text
}

func TestSharedStateReachesOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		one, two := NewShared(store, slog.New(slog.DiscardHandler)), NewShared(store, slog.New(slog.DiscardHandler))
		here, there := seen{}, seen{}
		kind := one.Kind("things", here.take)
		two.Kind("things", there.take)
		if err := kind.Write(t.Context(), Change{"a", "1", rouse.NoRow}, Change{"b", "1", rouse.NoRow}); err != nil {
			t.Fatal(err)
		}
		if err := two.Load(t.Context()); err != nil || !maps.Equal(there, seen{"a": "1", "b": "1"}) || !maps.Equal(here, there) {
			t.Fatalf("%v, here %v, there %v", err, here, there)
		}
		go two.Run(t.Context())
		if err := kind.Write(t.Context(), Change{"a", "2", rouse.AnyRevision}, Change{"b", nil, rouse.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(RefreshEvery + time.Millisecond)
		synctest.Wait()
		if want := (seen{"a": "2"}); !maps.Equal(here, want) || !maps.Equal(there, want) {
			t.Errorf("here %v, there %v, want %v", here, there, want)
		}
		if err := kind.Write(t.Context(), Change{"a", "3", rouse.NoRow}); !errors.Is(err, rouse.ErrConflict) || here["a"] != "2" {
			t.Errorf("a write whose condition does not hold: %v, %v", err, here)
		}
		if err := rouse.CheckNamespace(Reserved); err == nil {
			t.Error("clients can name the reserved namespace")
		}
		if page, err := store.List(t.Context(), rouse.Query{Limit: 10}); err != nil || len(page.Rows) != 0 {
			t.Errorf("a list of all namespaces shows %v, %v", page.Rows, err)
		}
	})
}
