package front

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// TestMain keeps go-redis from logging every connection that a test breaks.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// unsafe are the options for the tests' shared server, which does not sync. The timeout allows for a busy
// machine.
var unsafe = Options{SQL: postgres.Options{AllowUnsafe: true, MaxConns: 4}, Timeout: 5 * time.Second}

// quick is a pace for tests.
var quick = func() pace {
	p := usual
	p.beat, p.copy, p.net, p.overdue, p.again = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	p.beats, p.lag, p.given = time.Second, 200*time.Millisecond, 2*time.Second
	return p
}()

func openTest(t testing.TB, sql, index string, o Options, p pace) *Store {
	t.Helper()
	s, err := openWithPace(t.Context(), sql, index, o, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ready opens a store and waits until it has its index.
func ready(t testing.TB, sql, index string, o Options, p pace) *Store {
	t.Helper()
	s := openTest(t, sql, index, o, p)
	poll.Until(t, "the index is complete", func() bool { return s.Stats().Mode == WithIndex })
	return s
}

// fresh returns options for a separate store in a shared database.
func fresh(o Options) Options {
	name := fmt.Sprint("s", schemas.Add(1))
	o.Prefix, o.SQL.Schema = "rouse:"+name, name
	return o
}

var schemas atomic.Int64

func TestContract(t *testing.T) {
	sql, index := servers.Postgres(t), servers.Redis(t)
	storetest.Run(t, func(t *testing.T) rouse.Store { return ready(t, sql, index, fresh(unsafe), usual) })
	storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) {
		o := fresh(unsafe)
		return ready(t, sql, index, o, usual), func() rouse.Shared { return ready(t, sql, index, o, usual) }
	})
}

// nowhere is an address without a Redis.
const nowhere = "redis://127.0.0.1:1/0"

func TestContractWithoutIndex(t *testing.T) {
	sql := servers.Postgres(t)
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, sql, nowhere, fresh(unsafe), usual) })
	storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) {
		o := fresh(unsafe)
		return openTest(t, sql, nowhere, o, usual), func() rouse.Shared { return openTest(t, sql, nowhere, o, usual) }
	})
}
