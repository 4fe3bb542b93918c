package postgres

import (
	"fmt"
	"os"
	"sync/atomic"
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

// fresh returns options for a separate store in a shared database: a schema costs much less than a database.
func fresh() Options {
	o := unsafe
	o.Schema = fmt.Sprint("s", schemas.Add(1))
	return o
}

var schemas atomic.Int64

// TestContract has the server of ROUSE_POSTGRES_URL, if it is set: any that speaks PostgreSQL's protocol.
func TestContract(t *testing.T) {
	url := os.Getenv("ROUSE_POSTGRES_URL")
	if url == "" {
		url = servers.Postgres(t)
	}
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, url, fresh()) })
	storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) { return twice(t, url, fresh()) })
}

// twice opens a store, and returns a function that opens it again.
func twice(t *testing.T, url string, o Options) (rouse.Shared, func() rouse.Shared) {
	open := func() rouse.Shared { return openTest(t, url, o) }
	return open(), open
}

func TestSameAsTheModel(t *testing.T) {
	url := servers.Postgres(t)
	storetest.Compare(t, func(t *testing.T) rouse.Store { return openTest(t, url, fresh()) }, func() rouse.Store { return mem.New() })
}
