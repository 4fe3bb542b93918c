//go:build linux

package systemd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func TestMain(m *testing.M) {
	become()
	endWithSystemd()
	drivertest.Main()
	goleak.VerifyTestMain(m)
}

// endWithSystemd makes a worker end with its systemd, for example when a test is killed.
func endWithSystemd() {
	if os.Getenv("MANAGERPID") != "" {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	}
}

// template returns the name of a unit like that in docs/pools.md, whose workers are this program.
func (i *instance) template(env map[string]string, more ...string) string {
	prefix := fmt.Sprintf("core-worker%d", templates.Add(1))
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&lines, "Environment=%s\n", strconv.Quote(name+"="+env[name]))
	}
	i.write(prefix+"@.service", "[Unit]\nStartLimitIntervalSec=1min\nStartLimitBurst=2\n[Service]\n"+lines.String()+
		"EnvironmentFile=%t/rouse/%p/%i.env\nExecStart=/usr/bin/env WORKER_ID=%i.${INVOCATION_ID} "+os.Args[0]+"\n"+
		"Restart=on-failure\nRestartSec=20ms\nTimeoutStopSec=1min\nStandardOutput=null\nStandardError=null\n"+strings.Join(more, "\n"))
	return prefix + "@.service"
}

var templates atomic.Int64

// config returns the configuration of a driver for a template.
func (i *instance) config(bus, template string) Config {
	prefix, _, _ := strings.Cut(template, "@")
	return Config{Pool: "p", Unit: template, Bus: bus, Dir: filepath.Join(i.dir, "rouse", prefix), FirstPause: 20 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func open(t *testing.T, c Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// leaving is a driver that drains its workers when it is closed, as none may outlive a test.
type leaving struct{ *Driver }

func (l leaving) Close(ctx context.Context) error {
	for {
		list, err := l.List(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return l.Driver.Close(ctx)
		}
		for _, w := range list {
			if err := l.Drain(ctx, w.Key); err != nil {
				return err
			}
		}
		select {
		case <-l.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestContract(t *testing.T) {
	for _, way := range []string{"bus", "private"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			i := newInstance(t)
			address := i.private()
			if way == "bus" {
				address = i.bus()
			}
			drivertest.Run(t, drivertest.Harness{Drain: 8 * time.Second, New: func(t *testing.T, env map[string]string) driver.Driver {
				env["GORACE"] = "atexit_sleep_ms=0" // otherwise the race detector delays the end of a process by a second
				c := i.config(address, i.template(env))
				c.Drain = 8 * time.Second
				return leaving{open(t, c)}
			}})
		})
	}
}
