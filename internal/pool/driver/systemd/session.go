package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// The D-Bus names of systemd.
const (
	service      = "org.freedesktop.systemd1"
	managerPath  = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerIface = service + ".Manager"
	propsIface   = "org.freedesktop.DBus.Properties"
	busIface     = "org.freedesktop.DBus"
)

// session is a connection to systemd, over a bus or its private socket.
type session struct {
	conn    *dbus.Conn
	address string
	end     context.CancelFunc // of the connection
	units   string             // how the paths of units begin that matter
	changed func()             // something may be another than it was; must not block

	mu      sync.Mutex
	stale   map[dbus.ObjectPath]bool     // units whose cached state is outdated
	known   map[dbus.ObjectPath]snapshot // cached properties
	checked bool                         // the template reads the variables of workers
}

// snapshot is the cached properties of a unit, and how it was listed then.
type snapshot struct {
	unit unit
	more details
}

// connectSystemd connects to systemd and subscribes to changes until the session is closed. ctx applies only
// to the connection attempt.
func connectSystemd(ctx context.Context, address, units string, changed func()) (*session, error) {
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	s := &session{address: address, end: end, units: units, changed: changed,
		stale: map[dbus.ObjectPath]bool{}, known: map[dbus.ObjectPath]snapshot{}}
	err := s.openBus(ctx, life)
	if !stop() { // open then fails only because its connection was closed
		err = fmt.Errorf("D-Bus at %s does not answer: %w", address, context.Cause(ctx))
	}
	if err != nil {
		end()
		return nil, err
	}
	return s, nil
}

func (s *session) openBus(ctx, life context.Context) error {
	var err error
	if s.conn, err = dbus.Dial(s.address, dbus.WithContext(life), dbus.WithSignalHandler(s)); err != nil {
		return fmt.Errorf("cannot reach D-Bus at %s: %w; is it running there, and may this user have it? The setting is bus",
			s.address, err)
	}
	if err := s.conn.Auth(nil); err != nil {
		return fmt.Errorf("D-Bus at %s does not let user %s in: %w", s.address, processUser(), err)
	}
	if strings.HasSuffix(s.address, "/systemd/private") { // systemd's private socket
		if err := s.pingPrivate(ctx); err != nil {
			return fmt.Errorf("systemd at %s does not answer: %w", s.address, err)
		}
	} else {
		if err := s.conn.Hello(); err != nil {
			return fmt.Errorf("D-Bus at %s: %w", s.address, err)
		}
		for _, rule := range [][]dbus.MatchOption{
			{dbus.WithMatchSender(service), dbus.WithMatchInterface(managerIface)},
			{dbus.WithMatchSender(service), dbus.WithMatchInterface(propsIface), dbus.WithMatchMember("PropertiesChanged")},
			{dbus.WithMatchSender(busIface), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
		} {
			if err := s.conn.AddMatchSignalContext(ctx, rule...); err != nil {
				return fmt.Errorf("D-Bus at %s: %w", s.address, err)
			}
		}
	}
	return s.callSystemd(ctx, "Subscribe", nil)
}

// pingPrivate makes the first call on systemd's private socket. Systemd does not process data that arrives
// together with the end of the authentication before more data arrives, so the call is repeated.
func (s *session) pingPrivate(ctx context.Context) error {
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		short, cancel := context.WithTimeout(ctx, wait)
		err := s.conn.Object(service, managerPath).CallWithContext(short, "org.freedesktop.DBus.Peer.Ping", 0).Err
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// connectionLost reports whether the connection has ended.
func (s *session) connectionLost() bool { return s.conn.Context().Err() != nil }

func (s *session) closeBus() { s.end(); _ = s.conn.Close() }

// DeliverSignal handles a signal of systemd. The connection calls it for one signal after another.
func (s *session) DeliverSignal(iface, name string, sig *dbus.Signal) {
	switch {
	case iface == propsIface:
		if !strings.HasPrefix(string(sig.Path), s.units) {
			return
		}
		s.mu.Lock()
		s.stale[sig.Path] = true
		s.mu.Unlock()
	case iface == managerIface && name == "Reloading":
		s.mu.Lock()
		s.checked = false
		s.mu.Unlock()
		return
	case iface == managerIface:
		if !s.concernsUnits(sig.Body) {
			return
		}
	case iface == busIface && name == "NameOwnerChanged":
		s.end() // systemd has restarted and lost its subscriptions
	default:
		return
	}
	s.changed()
}

// Terminate is called when the connection has ended for any reason.
func (s *session) Terminate() { s.changed() }

// concernsUnits reports whether a signal of the manager (UnitNew, UnitRemoved, JobNew, JobRemoved) is about
// one of the units.
func (s *session) concernsUnits(body []any) bool {
	for _, v := range body {
		if name, ok := v.(string); ok && strings.HasPrefix(objectPrefix(name), s.units) {
			return true
		}
	}
	return false
}

// callSystemd calls a method of systemd's manager.
func (s *session) callSystemd(ctx context.Context, method string, answer any, args ...any) error {
	call := s.conn.Object(service, managerPath).CallWithContext(ctx, managerIface+"."+method,
		dbus.FlagNoAutoStart, args...)
	if call.Err != nil || answer == nil {
		return explainBusError(call.Err, s.address)
	}
	return call.Store(answer)
}
