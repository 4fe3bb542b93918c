//go:build linux

package systemd

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// pretender is a fake systemd on a real D-Bus, controlled by a test. It runs nothing, and needs neither
// systemd nor root.
type pretender struct {
	t       *testing.T
	conn    *dbus.Conn
	address string
	dir     string // of the driver's files

	mu     sync.Mutex
	calls  []string
	units  map[string]unit
	more   map[string]details
	names  map[dbus.ObjectPath]string
	fails  map[string]*dbus.Error // by method
	hangs  chan struct{}          // StartUnit answers when it is closed; at once if it is nil
	births int
}

// newBus starts a D-Bus, or skips the test.
func newBus(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:path="+filepath.Join(t.TempDir(), "bus"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("there is no dbus-daemon here (package dbus): ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

func newPretender(t *testing.T) *pretender {
	t.Helper()
	p := &pretender{t: t, address: newBus(t), dir: filepath.Join(t.TempDir(), "w"), units: map[string]unit{}, more: map[string]details{},
		names: map[dbus.ObjectPath]string{}, fails: map[string]*dbus.Error{}}
	p.appear()
	return p
}

// appear acquires systemd's name on the bus.
func (p *pretender) appear() {
	p.t.Helper()
	conn, err := dbus.Connect(p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	err = errors.Join(conn.Export(p, managerPath, managerIface), conn.ExportSubtree(getter{p}, managerPath+"/unit", propsIface))
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	if _, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil {
		p.t.Fatal(err)
	}
}

// config returns the configuration of a driver for this fake.
func (p *pretender) config() Config {
	return Config{Pool: "p", Unit: "w@.service", Bus: p.address, Dir: p.dir, FirstPause: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// call records a call, and returns its error if it is to fail.
func (p *pretender) call(method string, args ...any) *dbus.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, strings.TrimSpace(method+" "+fmt.Sprintln(args...)))
	return p.fails[method]
}

// fail makes a method fail from now on.
func (p *pretender) fail(method, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails[method] = dbus.NewError(name, []any{"in other words"})
}

// called returns the calls of a method.
func (p *pretender) called(method string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, c := range p.calls {
		if name, args, _ := strings.Cut(c, " "); name == method {
			list = append(list, args)
		}
	}
	return list
}

// set sets the state of a unit and signals the change.
func (p *pretender) set(name, active, sub, job string, change func(*details)) {
	p.mu.Lock()
	at := dbus.ObjectPath(objectPrefix(name))
	p.names[at] = name
	p.units[name] = unit{Name: name, Load: "loaded", Active: active, Sub: sub, Path: at, JobType: job, JobPath: "/"}
	d := p.more[name]
	if change != nil {
		change(&d)
	}
	p.more[name] = d
	conn := p.conn
	p.mu.Unlock()
	_ = conn.Emit(at, propsIface+".PropertiesChanged", service+".Unit", map[string]dbus.Variant{}, []string{})
}

// remove unloads a unit, as systemd does after its end.
func (p *pretender) remove(name string) {
	p.mu.Lock()
	delete(p.units, name)
	conn := p.conn
	p.mu.Unlock()
	_ = conn.Emit(managerPath, managerIface+".UnitRemoved", name, dbus.ObjectPath(objectPrefix(name)))
}

func (p *pretender) Subscribe() *dbus.Error { return p.call("Subscribe") }

func (p *pretender) LoadUnit(name string) (dbus.ObjectPath, *dbus.Error) {
	p.mu.Lock()
	p.names[dbus.ObjectPath(objectPrefix(name))] = name
	p.mu.Unlock()
	return dbus.ObjectPath(objectPrefix(name)), p.call("LoadUnit", name)
}

func (p *pretender) ListUnitsByPatterns(_, patterns []string) ([]unit, *dbus.Error) {
	err := p.call("ListUnitsByPatterns", patterns)
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []unit
	for name, u := range p.units {
		if ok, _ := path.Match(patterns[0], name); ok {
			list = append(list, u)
		}
	}
	return list, err
}

func (p *pretender) StartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := p.call("StartUnit", name, mode); err != nil {
		return "/", err
	}
	p.mu.Lock()
	hangs := p.hangs
	p.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	p.set(name, "active", "running", "", func(d *details) {
		p.births++
		*d = details{invocation: fmt.Sprintf("%032x", p.births), result: "success"}
	})
	return "/", nil
}

func (p *pretender) StopUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := p.call("StopUnit", name, mode); err != nil {
		return "/", err
	}
	p.set(name, "deactivating", "stop-sigterm", "stop", nil)
	return "/", nil
}

func (p *pretender) KillUnit(name, who string, signal int32) *dbus.Error {
	err := p.call("KillUnit", name, who, signal)
	p.remove(name)
	return err
}

func (p *pretender) ResetFailedUnit(name string) *dbus.Error {
	err := p.call("ResetFailedUnit", name)
	p.remove(name)
	return err
}

// getter serves the properties of units.
type getter struct{ p *pretender }

// Get returns one property.
func (o getter) Get(msg dbus.Message, iface, name string) (dbus.Variant, *dbus.Error) {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	at, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	id := p.names[at]
	u, d := p.units[id], p.more[id]
	invocation, _ := hex.DecodeString(d.invocation)
	_, instance, _ := strings.Cut(strings.TrimSuffix(id, ".service"), "@")
	value, ok := map[string]any{"Unit.InvocationID": invocation, "Unit.StateChangeTimestamp": uint64(1e15), "Unit.ActiveState": u.Active,
		"Unit.LoadState": "loaded", "Service.NRestarts": uint32(d.restarts), "Service.ExecMainCode": d.code, "Service.ExecMainStatus": d.status,
		"Service.Result": d.result, "Service.EnvironmentFiles": []environmentFile{{filepath.Join(p.dir, instance+".env"), false}},
	}[strings.TrimPrefix(iface, service+".")+"."+name]
	if !ok {
		return dbus.Variant{}, dbus.MakeFailedError(errors.New("there is no such property"))
	}
	return dbus.MakeVariant(value), nil
}

type environmentFile struct {
	Path   string
	Ignore bool
}
