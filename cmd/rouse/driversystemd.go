package main

import (
	"log/slog"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/systemd"
)

// systemdEntry is the driver systemd of a pool.
type systemdEntry struct {
	Unit         string        `yaml:"unit"`
	Bus          string        `yaml:"bus"`
	Dir          string        `yaml:"dir"`
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	FirstPause   time.Duration `yaml:"first_pause"`
	LongestPause time.Duration `yaml:"longest_pause"`
	StableAfter  time.Duration `yaml:"stable_after"`
}

func (s *systemdEntry) newDriver(pool string, log *slog.Logger) (driver.Driver, error) {
	return systemd.New(systemd.Config{Pool: pool, Unit: s.Unit, Bus: s.Bus, Dir: s.Dir, Drain: s.DrainTimeout, FirstPause: s.FirstPause,
		LongestPause: s.LongestPause, Stable: s.StableAfter, Log: log})
}
