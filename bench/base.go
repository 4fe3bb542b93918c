package bench

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Base is the database that nodes share, accessed without a node. It is empty when it is opened.
type Base interface {
	URL() string   // as nodes take it; with a password, if there is one
	About() string // its kind, and the settings that its speed depends on

	// Asked returns how many calls it was asked in all: transactions, scripts.
	Asked(ctx context.Context) (int64, error)

	// CPU returns the time that its processes have used so far; 0 where that is not known, as they are on
	// another machine.
	CPU(ctx context.Context) time.Duration

	// Wrote returns how many bytes its processes have written to disk; 0 where that is not known.
	Wrote(ctx context.Context) int64

	// Close removes everything written since it was opened, and ends the server if it was started here.
	Close() error

	clearDatabase(ctx context.Context) error // removes all that was written
	asRawBase() rawBase
}

// rawBase runs the measurements without rouse. Each batch of rows is written in one transaction.
type rawBase interface {
	// createRows writes the batches of each writer, through a connection each.
	createRows(ctx context.Context, writers [][]rawBatch) (time.Duration, error)

	// pipelineRows writes, reads and removes the batches of each writer, through a connection each. It
	// returns how many it removed. With leased, a read is a write that hides the rows from the other writers,
	// which all read the same; without, each has a bucket of its own.
	pipelineRows(ctx context.Context, writers [][]rawBatch, leased bool) (int64, time.Duration, error)
}

// rawBatch is rows in columns, in the order of their keys.
type rawBatch struct {
	first   int64 // the visible time of the first row; each one after it has the next millisecond
	members []string
	bodies  [][]byte
}

// OpenBase opens a database to measure on: the URL of an empty PostgreSQL (postgres://…) or Redis (redis://…;
// several with commas between them), or the word postgres or redis, which starts one of one's own, with its
// data in a directory below dir ("": a temporary one). A PostgreSQL is empty if it has neither a schema rouse
// nor rouse_bench, and a Redis if the database that the URL names has no keys.
func OpenBase(ctx context.Context, store, dir string) (Base, error) {
	kind, err := baseKind(store)
	if err != nil {
		return nil, err
	}
	var own *ownServer
	if store == kind {
		if own, err = startOwn(ctx, kind, dir); err != nil {
			return nil, err
		}
		store = own.url
	}
	var b Base
	if kind == "postgres" {
		b, err = openPostgres(ctx, store, own)
	} else {
		b, err = openRedis(ctx, store, own)
	}
	if err != nil {
		return nil, errors.Join(err, own.closeOwnServer())
	}
	return b, nil
}

// baseKind returns the kind of base of a store, postgres or redis, if nodes share it.
func baseKind(store string) (string, error) {
	scheme, _, isURL := strings.Cut(store, "://")
	switch scheme {
	case "postgres", "redis":
		return scheme, nil
	case "postgresql":
		if isURL {
			return "postgres", nil
		}
	case "rediss":
		if isURL {
			return "redis", nil
		}
	}
	if isURL {
		scheme += "://…" // a URL may have a password
	}
	return "", rouse.Refuse("store", scheme, "is nothing that bench measures",
		"use pebble or sqlite; postgres or redis, which starts a server for the run; or the URL of an empty one, postgres://… or redis://…")
}

// CheckStore reports whether scenarios can be run with a store.
func CheckStore(store string) error {
	if store == "pebble" || store == "sqlite" {
		return nil
	}
	_, err := baseKind(store)
	return err
}

// patience bounds requests to a base outside the measurement, and how long a started server may take to be
// ready.
const patience = 60 * time.Second

// shownURL is a URL without its user, password and parameters.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the store"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// treeCPU returns the CPU time of a process of this machine, and of those that it has started.
func treeCPU(pid int) time.Duration {
	used := cpuOf(statFields(pid), true)
	for _, child := range childrenOf(pid) {
		used += cpuOf(statFields(child), false)
	}
	return used
}

// treeIO is a figure of /proc/PID/io, of a process of this machine and of those that it has started. The
// kernel adds those that have ended to their parent.
func treeIO(pid int, figure string) int64 {
	sum := numbersOf(pid, "io")[figure]
	for _, child := range childrenOf(pid) {
		sum += numbersOf(child, "io")[figure]
	}
	return sum
}

func childrenOf(pid int) (children []int) {
	list, _ := os.ReadDir("/proc") // none on other systems
	for _, e := range list {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			if f := statFields(id); len(f) > 1 && f[1] == strconv.Itoa(pid) {
				children = append(children, id)
			}
		}
	}
	return children
}
