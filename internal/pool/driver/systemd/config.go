package systemd

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Locations of systemd, as alternatives to a D-Bus address.
const (
	System = "system" // the system instance
	User   = "user"   // the one of the user of this process
)

// Config configures the workers. Its tags are the settings of a file of pools.
type Config struct {
	Pool string `yaml:"-"`    // prefix of the names of instances
	Unit string `yaml:"unit"` // the template, such as core-worker@.service
	Bus  string `yaml:"bus"`  // System, User, or a D-Bus address; System if empty

	// Dir is the directory for the files with the variables of workers; if empty, %t/rouse/%p in systemd's
	// notation, such as /run/rouse/core-worker.
	Dir string `yaml:"dir"`

	// from SIGTERM to SIGKILL, if the unit's TimeoutStopSec is not shorter; never if zero
	Drain time.Duration `yaml:"drain_timeout"`
	// initial backoff before a worker that systemd no longer restarts is started again; 200ms if zero
	FirstPause   time.Duration `yaml:"first_pause"`
	LongestPause time.Duration `yaml:"longest_pause"` // maximum backoff; 1m if zero
	Stable       time.Duration `yaml:"stable_after"`  // a worker that ran so long resets the backoff; 10s if zero

	Log *slog.Logger `yaml:"-"` // slog.Default if nil
}

// unitNames validates the names of unit and pool.
func (c Config) unitNames() (names, error) {
	prefix, ok := strings.CutSuffix(c.Unit, "@.service")
	if !ok || prefix == "" || strings.ContainsFunc(prefix, func(r rune) bool {
		return r > 0x7f || !isAlphanumeric(byte(r)) && !strings.ContainsRune(":-_.", r)
	}) {
		return names{}, rouse.Refuse("unit", c.Unit, "is no template of services", "name one such as core-worker@.service")
	}
	n := names{prefix: prefix, pool: encodeName(c.Pool)}
	if n.longestKeyLength() < shortestRoom {
		return names{}, rouse.Refuse("unit", c.Unit, "is too long together with the name of the pool",
			"choose shorter names, as those of units have at most 255 bytes")
	}
	return n, nil
}

func (c Config) withSystemdDefaults(n names) (Config, error) {
	c.Bus = cmp.Or(c.Bus, System)
	if c.Bus != System && c.Bus != User && !strings.Contains(c.Bus, ":") {
		return c, rouse.Refuse("bus", c.Bus, "is no bus",
			"write system, user, or an address such as unix:path=/run/dbus/system_bus_socket")
	}
	if c.Dir == "" {
		c.Dir = filepath.Join(runtimeDir(c.Bus), "rouse", n.prefix)
	}
	if !filepath.IsAbs(c.Dir) {
		return c, rouse.Refuse("dir", c.Dir, "is no absolute path", "give one, as systemd reads the files in it")
	}
	if strings.ContainsAny(c.Dir, `*?[\%`) {
		return c, rouse.Refuse("dir", c.Dir, "is a pattern for systemd", "name one without any of *, ?, [, \\ and %")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"drain_timeout", &c.Drain, 0}, {"first_pause", &c.FirstPause, 200 * time.Millisecond},
		{"longest_pause", &c.LongestPause, time.Minute}, {"stable_after", &c.Stable, 10 * time.Second}} {
		if *d.value < 0 {
			return c, rouse.Refuse(d.name, d.value.String(), "is negative", "give a duration such as 30s")
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	c.Log = cmp.Or(c.Log, slog.Default()).With("pool", c.Pool)
	return c, nil
}

// busAddress returns the address of the bus: of the system, of the user, or as given.
func busAddress(bus string) string {
	first := func(candidates ...string) string {
		for _, c := range candidates {
			if path, ok := strings.CutPrefix(c, "unix:path="); ok {
				if _, err := os.Stat(path); err != nil {
					continue
				}
			}
			if c != "" {
				return c
			}
		}
		return candidates[1] // for the error message
	}
	switch bus {
	case System:
		return first(os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"), "unix:path=/run/dbus/system_bus_socket",
			"unix:path=/run/systemd/private")
	case User:
		dir := runtimeDir(User)
		return first(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path="+dir+"/bus", "unix:path="+dir+"/systemd/private")
	}
	return bus
}

// runtimeDir returns systemd's %t.
func runtimeDir(bus string) string {
	if bus == User || bus != System && os.Geteuid() != 0 {
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			return dir
		}
		return fmt.Sprintf("/run/user/%d", os.Geteuid())
	}
	return "/run"
}
