package server

import (
	"errors"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/transport"
)

// sheds are the limits of concurrent requests, each with the words for its log line and error.
var sheds = map[string]string{
	"writes":      "timers are being written",
	"reads":       "lists are being read",
	"bulks":       "bulk changes",
	"simulations": "simulations",
	"followers":   "followers",
	"calls":       "requests wait for their answers",
	"logins":      "people are signing in",
	"open":        "calls without credentials",
}

const (
	limitConns      = "connections"
	limitAdminConns = "admin-connections"
	limitStore      = "store" // the store is unavailable
)

// Limits are the names with which Options.Refused is called.
var Limits = append(slices.Sorted(maps.Keys(sheds)), limitStore, limitConns, limitConns+transport.PerAddress,
	limitAdminConns,
	limitAdminConns+transport.PerAddress, transport.LimitMemory, transport.LimitReceive, transport.LimitHandshake)

// overloadError is the error of a request that was refused because a limit of sheds was reached.
func overloadError(limit string) error { return transport.NewOverload(limit, sheds[limit]) }

// noteFailure reports a request that failed because the store was unavailable or a limit was reached.
func noteFailure(refused *transport.Refusals, err error) {
	var full *transport.Overload
	switch {
	case errors.As(err, new(*rouse.StoreError)):
		refused.NoteRefusal(limitStore, "requests failed: the store is unavailable", "err", rouse.Shorten(err.Error(), 160))
	case errors.As(err, &full) && full.Limit != transport.LimitMemory: // memory is reported where it is taken
		refused.NoteRefusal(full.Limit, "requests refused: too many "+full.What+" at a time")
	}
}
