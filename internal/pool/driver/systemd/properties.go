package systemd

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
)

// property is a property of a unit, and the destination of its value.
type property struct {
	iface, name string
	value       any
}

// fetchProperties requests properties of a unit in a pipeline, without waiting for each answer.
func (s *session) fetchProperties(ctx context.Context, path dbus.ObjectPath, list []property) error {
	object := s.conn.Object(service, path)
	calls := make([]*dbus.Call, len(list))
	for i, p := range list {
		calls[i] = object.GoWithContext(ctx, propsIface+".Get", dbus.FlagNoAutoStart, make(chan *dbus.Call, 1),
			service+"."+p.iface, p.name)
	}
	for i, p := range list {
		call := <-calls[i].Done
		if call.Err != nil {
			return explainBusError(call.Err, s.address)
		}
		var v dbus.Variant
		if err := call.Store(&v); err != nil {
			return err
		}
		if err := v.Store(p.value); err != nil {
			return fmt.Errorf("the property %s of a unit: %w", p.name, err)
		}
	}
	return nil
}

// listUnits returns the units whose names match, by name.
func (s *session) listUnits(ctx context.Context, pattern string) (map[string]unit, error) {
	var list []unit
	if err := s.callSystemd(ctx, "ListUnitsByPatterns", &list, []string{}, []string{pattern}); err != nil {
		return nil, err
	}
	units := make(map[string]unit, len(list))
	for _, u := range list {
		units[u.Name] = u
	}
	return units, nil
}

// unitDetails returns further properties of a unit. It asks systemd only if they may have changed.
func (s *session) unitDetails(ctx context.Context, u unit) (details, error) {
	s.mu.Lock()
	was, ok := s.known[u.Path]
	if ok && was.unit == u && !s.stale[u.Path] {
		s.mu.Unlock()
		return was.more, nil
	}
	delete(s.stale, u.Path) // before the request, so that a signal during it counts
	s.mu.Unlock()
	var d details
	var id, after []byte
	var active string
	var changed uint64
	var restarts uint32
	err := s.fetchProperties(ctx, u.Path, []property{{"Unit", "InvocationID", &id},
		{"Unit", "StateChangeTimestamp", &changed},
		{"Service", "NRestarts", &restarts}, {"Service", "ExecMainCode", &d.code}, {"Service", "ExecMainStatus", &d.status},
		{"Service", "Result", &d.result}, {"Unit", "ActiveState", &active}, {"Unit", "InvocationID", &after}})
	if err != nil {
		s.markStale(u.Path)
		return d, err
	}
	d.invocation, d.restarts = hex.EncodeToString(id), int(restarts)
	if changed != 0 {
		d.changed = time.UnixMicro(int64(changed))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	same := bytes.Equal(id, after)
	d.running = same && active == "active"
	s.known[u.Path] = snapshot{u, d}
	if !same {
		s.stale[u.Path] = true // it was started in between
	}
	return d, nil
}

func (s *session) markStale(path dbus.ObjectPath) {
	s.mu.Lock()
	s.stale[path] = true
	s.mu.Unlock()
}

// keepOnly deletes the cached properties of units that no longer exist.
func (s *session) keepOnly(units map[string]unit) {
	there := make(map[dbus.ObjectPath]bool, len(units))
	for _, u := range units {
		there[u.Path] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.known {
		if !there[path] {
			delete(s.known, path)
		}
	}
	for path := range s.stale {
		if !there[path] {
			delete(s.stale, path)
		}
	}
}

// checkTemplate refuses a template whose instances do not read the variables of their workers. It inspects an
// instance that is about to start.
func (s *session) checkTemplate(ctx context.Context, n names, instance, file string) error {
	s.mu.Lock()
	checked := s.checked
	s.mu.Unlock()
	if checked {
		return nil
	}
	var path dbus.ObjectPath
	if err := s.callSystemd(ctx, "LoadUnit", &path, n.unitName(instance)); err != nil {
		return err
	}
	var load string
	if err := s.fetchProperties(ctx, path, []property{{"Unit", "LoadState", &load}}); err != nil {
		return err
	}
	switch load {
	case "loaded":
	case "not-found":
		return fmt.Errorf("systemd at %s knows no unit %s: install it where systemd looks, and have it reload", s.address,
			n.templateUnit())
	default:
		return fmt.Errorf("systemd cannot use the unit %s, which is %s: see systemctl status %s", n.templateUnit(), load,
			n.unitName(instance))
	}
	var read []struct {
		Path   string
		Ignore bool
	}
	if err := s.fetchProperties(ctx, path, []property{{"Service", "EnvironmentFiles", &read}}); err != nil {
		return err
	}
	for _, r := range read {
		if sameFile(r.Path, file) {
			s.mu.Lock()
			s.checked = true
			s.mu.Unlock()
			return nil
		}
	}
	return fmt.Errorf(
		"the unit %s does not read %s, which has the variables of the worker: put EnvironmentFile=%s into its [Service], and have systemd reload",
		n.templateUnit(), file, filepath.Join(filepath.Dir(file), "%i.env"))
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
