package postgres

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// unsafe are the options for the tests' shared server, which does not sync.
var unsafe = Options{AllowUnsafe: true}

func openTest(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, servers.Postgres(t), unsafe) })
}

func TestShared(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) { return twice(t, servers.Postgres(t)) })
}

// twice opens a store, and returns a function that opens it again.
func twice(t *testing.T, url string) (rouse.Shared, func() rouse.Shared) {
	open := func() rouse.Shared { return openTest(t, url, unsafe) }
	return open(), open
}

func TestSameAsTheModel(t *testing.T) {
	url := servers.Postgres(t)
	storetest.Compare(t, func(t *testing.T) rouse.Store {
		if err := Migrate(t.Context(), url, unsafe, 0); err != nil {
			t.Fatal(err)
		}
		return openTest(t, url, unsafe)
	}, func() rouse.Store { return mem.New() })
}
