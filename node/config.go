package node

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/sqlite"
)

// Config is what a node is made of: plain values, checked by Check. The command line fills it; docs/configuration.md says what
// each setting means.
type Config struct {
	Listen   string // address of the API; default 127.0.0.1:7411
	Admin    string // address of metrics, health and profiles; "" for none
	Data     string // directory of everything that the node keeps
	Store    string // "" is pebble in Data; pebble:DIR, sqlite:FILE or mem:
	Insecure bool   // serve anybody who reaches a Listen that is not on loopback

	AllowPrivate bool   // callbacks to loopback and private addresses
	SecretFile   string // webhook secrets, one a line, newest first; "" is webhook.secret in Data

	Grace           time.Duration // for deliveries in progress, and for requests, when the node stops
	Ahead           time.Duration // how far ahead timers are read into memory
	Window          int           // timers in memory
	WindowBytes     int64         // of timers in memory
	MaxDeliveries   int           // deliveries at a time
	HostConcurrency int           // requests at a time to one host
	HistoryAge      time.Duration // records are kept so long
	HistoryMax      int64         // and so many of them

	Version string // shown by the API and in metrics
}

// Check returns everything that is wrong with the configuration.
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		bad("listen %q is no address: give HOST:PORT, such as 127.0.0.1:7411", c.Listen)
	case !c.Insecure && !loopback(host):
		bad("listen %q can be reached from other machines, and anybody who reaches it may use it: listen on 127.0.0.1, or allow it with insecure", c.Listen)
	}
	if c.Admin != "" {
		if _, _, err := net.SplitHostPort(c.Admin); err != nil {
			bad("admin %q is no address: give HOST:PORT, such as 127.0.0.1:7412, or nothing", c.Admin)
		}
	}
	if c.Data == "" {
		bad("data is empty: name a directory")
	}
	if _, _, err := c.store(); err != nil {
		errs = append(errs, err)
	}
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{{"window", int64(c.Window), 1000}, {"window-bytes", c.WindowBytes, 1 << 20}, {"max-deliveries", int64(c.MaxDeliveries), 1},
		{"host-concurrency", int64(c.HostConcurrency), 1}, {"history-max", c.HistoryMax, 0}} {
		if n.value < n.least {
			bad("%s is %d: give at least %d", n.name, n.value, n.least)
		}
	}
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"grace", c.Grace, 0, time.Hour}, {"ahead", c.Ahead, time.Second, time.Hour}, {"history-age", c.HistoryAge, time.Hour, 10 * 365 * 24 * time.Hour}} {
		if d.value < d.least || d.value > d.most {
			bad("%s is %v: give %v to %v", d.name, d.value, d.least, d.most)
		}
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// store splits Store into its scheme and what follows.
func (c *Config) store() (scheme, rest string, err error) {
	if c.Store == "" {
		return "pebble", filepath.Join(c.Data, "pebble"), nil
	}
	scheme, rest, _ = strings.Cut(c.Store, ":")
	switch {
	case (scheme == "pebble" || scheme == "sqlite") && rest != "", scheme == "mem" && rest == "":
		return scheme, rest, nil
	}
	return "", "", fmt.Errorf("store %q is not offered: give pebble:DIR, sqlite:FILE or mem:, or nothing for pebble in the data directory", c.Store)
}

// open opens the store.
func (c *Config) open() (rouse.Store, error) {
	scheme, rest, err := c.store()
	if err != nil {
		return nil, err
	}
	switch scheme {
	case "pebble":
		return pebble.Open(rest, pebble.Options{})
	case "sqlite":
		return sqlite.Open(rest, sqlite.Options{})
	}
	return mem.New(), nil
}
