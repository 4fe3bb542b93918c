package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func TestMain(m *testing.M) {
	drivertest.Main()
	goleak.VerifyTestMain(m)
}

// patience is the timeout of tests. No result depends on it.
const patience = poll.Patience

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Until(t, what, holds)
}

// kubeconfig writes a kubeconfig for an API server.
func kubeconfig(t *testing.T, url, token string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"workers"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":%v}}],"users":[{"name":"u","user":{"token":%q}}]}`,
		url, strings.HasPrefix(url, "https:"), token)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// template returns a pod template with the contract's worker.
func template() map[string]any {
	return map[string]any{"spec": map[string]any{"terminationGracePeriodSeconds": 2,
		"containers": []any{map[string]any{"name": "worker", "image": "test", "command": []any{os.Args[0]}}}}}
}

// instances separates the tests of one namespace.
var instances atomic.Int64

func testConfig(kubeconfig string) Config {
	return Config{Pool: "p", Kubeconfig: kubeconfig, Instance: fmt.Sprintf("i%d", instances.Add(1)), Template: template(),
		Log: slog.New(slog.DiscardHandler)}
}

// newDriver returns a driver, which is closed at the end of the test.
func newDriver(t *testing.T, c Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// mortal is a driver that deletes its workers at its end, as the contract demands of workers that no other
// process manages.
type mortal struct {
	*Driver
	t *testing.T
}

func (m mortal) Close(ctx context.Context) error {
	list, err := m.List(ctx)
	for _, w := range list {
		if err := m.Drain(ctx, w.Key); err != nil {
			m.t.Error(err)
		}
	}
	for ; err == nil && len(list) > 0; list, err = m.List(ctx) {
		select {
		case <-ctx.Done():
			m.t.Errorf("there still is %+v", list)
			return m.Driver.Close(ctx)
		case <-m.Changed():
		}
	}
	if err != nil {
		m.t.Error(err)
	}
	return m.Driver.Close(ctx)
}

// holdToContract runs the contract of drivers. not contains cases that do not apply to a kind of workloads,
// with the reason.
func holdToContract(t *testing.T, kubeconfig, kind string, not map[string]string) {
	drivertest.Run(t, drivertest.Harness{Drain: 2 * time.Second, New: func(t *testing.T, env map[string]string) driver.Driver {
		for name, reason := range not {
			if strings.HasSuffix(t.Name(), "/"+name) {
				t.Skip(reason)
			}
		}
		env["GORACE"] = "atexit_sleep_ms=0" // otherwise the race detector delays the end of a process by a second
		c := testConfig(kubeconfig)
		c.Kind, c.Env = kind, env
		d, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return mortal{d, t}
	}})
}

// Parts of the contract that do not apply here.
var (
	notOfPods = map[string]string{"CrashesAreBounded": "a pod has one name in all its lives, so its worker has one id: see the scenario Crashes"}
	notOfSets = map[string]string{"CrashesAreBounded": notOfPods["CrashesAreBounded"], "FreshNextToDraining": "there are no two pods of one name: see the scenario StatefulSetsWait"}
)

func TestContract(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	config := kubeconfig(t, c.url, "")
	startKubelet(t, config, "workers")
	t.Run(Deployment, func(t *testing.T) { holdToContract(t, config, Deployment, notOfPods) })
	t.Run(StatefulSet, func(t *testing.T) { holdToContract(t, config, StatefulSet, notOfSets) })
}
