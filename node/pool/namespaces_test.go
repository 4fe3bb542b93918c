package pool_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
)

// TestNamespacesByDefault: with access control namespaces are apart in pools on the store, and shared in
// those at brokers, whose other managers and workers do not know of access control. A pinned key without a
// namespace is refused with what to do.
func TestNamespacesByDefault(t *testing.T) {
	opened := errors.New("it was opened")
	for _, c := range []struct {
		name        string
		access      string
		broker      bool
		set, pinned string
		is          string // at a broker: whether namespaces are apart
		refused     bool   // because of what is pinned
	}{
		{"a broker with access control", "keys", true, "", "a", pool.Shared, false},
		{"a broker that is set", "keys", true, pool.Apart, "n/a", pool.Apart, false},
		{"the store", "keys", false, "", "a", "", true},
		{"the store with names", "keys", false, "", "n/a", "", false},
		{"the store that is set", "keys", false, pool.Shared, "a", "", false},
		{"the store without access control", "", false, "", "a", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := pool.Setup{Config: pool.Config{Name: "core", Delays: pool.Delays{Unbind: time.Second, Stop: time.Second},
				Namespaces: c.set, Pinned: []string{c.pinned}}, Open: func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil }}
			is := ""
			if c.broker {
				of.Requests = func(m *pool.Manager, _ pool.CallerOptions) (pool.Controller, pool.Caller, error) {
					is = m.Config().Namespaces
					return nil, nil, opened
				}
			}
			n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(n *node.Config) {
				n.Access, n.Pools, n.Log = c.access, []pool.Setup{of}, slog.New(slog.DiscardHandler)
			})
			if n != nil {
				defer n.Close()
			}
			switch {
			case c.refused:
				for _, part := range []string{"pinned", `"a"`, `"core"`, "NAMESPACE/KEY", "namespaces: shared"} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%v; want %s in it", err, part)
					}
				}
			case c.broker && (!errors.Is(err, opened) || is != c.is):
				t.Errorf("the namespaces are %q, %v", is, err)
			case !c.broker && err != nil:
				t.Error(err)
			}
		})
	}
}
