package crash

import (
	"path/filepath"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// stores are the kinds of durable store, with the value of --store for a data directory.
var stores = []struct {
	name  string
	place func(data string) string
}{
	{"pebble", func(data string) string { return "pebble:" + filepath.Join(data, "pebble") }},
	{"sqlite", func(data string) string { return "sqlite:" + filepath.Join(data, "timers.db") }},
}

// server is a rouse on an embedded store.
type server struct{ *harness.Process }

func newServer(t testing.TB, data, store string, flags ...string) *server {
	t.Helper()
	return &server{harness.NewProcess(t, "the server", data, store, flags...)}
}
