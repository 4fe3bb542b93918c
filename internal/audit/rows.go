package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Store keeps the rows of events.
type Store interface {
	Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error)
	List(ctx context.Context, q rouse.Query) (rouse.Page, error)
	Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error)
}

// Rows keeps the events of all nodes in their store: a row has the lines of up to rowEvents events, and its
// name begins with the time of the last one, so that the newest come first. It is a Destination.
type Rows struct{ Store Store }

const (
	// prefix begins the names of the rows, in the namespace that no client can name.
	prefix = "\x01audit/"

	rowEvents = 128
	rowBytes  = 64 << 10
	// rowSpan bounds the time between the first and the last event of a row, so that a search by time knows
	// which rows it has to read.
	rowSpan = time.Second
	// writeRows bounds the rows of one write, readRows those of one read.
	writeRows = 16
	readRows  = 64
	trimRows  = 500
)

// Name implements Destination.
func (r *Rows) Name() string { return "store" }

// Close implements Destination.
func (r *Rows) Close() error { return nil }

// Write implements Destination. The same events have the same rows when they are written again.
func (r *Rows) Write(ctx context.Context, events []Written) (n int, err error) {
	for n < len(events) {
		var changes []rouse.Change
		to := n
		for to < len(events) && len(changes) < writeRows {
			size := rowOf(events[to:])
			changes = append(changes, rowChange(events[to:to+size]))
			to += size
		}
		if _, err := r.Store.Apply(ctx, changes); err != nil {
			return n, err
		}
		n = to
	}
	return n, nil
}

// rowOf returns how many of the events go into one row.
func rowOf(events []Written) (n int) {
	size := 0
	for n < min(len(events), rowEvents) && (n == 0 || size+len(events[n].Line) <= rowBytes &&
		events[n].Time.Sub(events[0].Time) <= rowSpan) {
		size += len(events[n].Line)
		n++
	}
	return n
}

func rowChange(events []Written) rouse.Change {
	var lines []byte
	for i := range events {
		lines = append(lines, events[i].Line...)
	}
	key := rowKey(timePrefix(events[len(events)-1].Time) + "/" + events[0].ID)
	return rouse.Change{Key: key, If: rouse.AnyRevision,
		To: &rouse.Row{Key: key, Bucket: rouse.BucketOf(key, 1), Visible: rouse.Never, Due: rouse.Never,
			State: rouse.StateNote, Body: lines}}
}

func rowKey(name string) rouse.Key {
	return rouse.Key{Namespace: rouse.ReservedNamespace, Name: prefix + name}
}

// timePrefix returns the beginning of the names of rows of a time: later ones are smaller.
func timePrefix(at rouse.Instant) string {
	return fmt.Sprintf("%016x", uint64(math.MaxInt64-int64(at)))
}

// rowTime returns the time of a row.
func rowTime(name string) rouse.Instant {
	digits, _, _ := strings.Cut(name, "/")
	n, _ := strconv.ParseUint(digits, 16, 64)
	return rouse.Instant(math.MaxInt64 - int64(n))
}

// row is a row of events as it was read.
type row struct {
	name   string
	events []Event // oldest first
}

func decodeRow(r *rouse.Row) (row, error) {
	out := row{name: strings.TrimPrefix(r.Key.Name, prefix)}
	for line := range bytes.Lines(r.Body) {
		e, err := Read(line)
		if err != nil {
			return out, fmt.Errorf("the audit events of %v cannot be read: %w: %w", rowTime(out.name), rouse.ErrCorrupt, err)
		}
		out.events = append(out.events, e)
	}
	return out, nil
}

// listEventRows returns up to limit rows with names after one and before another, in the order of names: the
// newest first. more is set if there are others.
func (r *Rows) listEventRows(ctx context.Context, after, before string, limit int) (rows []row, more bool, err error) {
	q := rouse.Query{Namespace: rouse.ReservedNamespace, Prefix: prefix, States: []rouse.State{rouse.StateNote},
		After: rowKey(after), Limit: limit + 1}
	for {
		page, err := r.Store.List(ctx, q)
		if err != nil {
			return nil, false, rouse.Unavailable(err)
		}
		for i := range page.Rows {
			switch {
			case page.Rows[i].Key.Name >= prefix+before:
				return rows, false, nil
			case len(rows) == limit:
				return rows, true, nil
			}
			row, err := decodeRow(&page.Rows[i])
			if err != nil {
				return nil, false, err
			}
			rows = append(rows, row)
		}
		if page.Next == nil {
			return rows, false, nil
		}
		q.After = *page.Next
	}
}

// last is a name after those of all rows.
const last = "~"

// trimEvery is how often events are deleted whose retention has ended.
const trimEvery = 10 * time.Minute

// TrimAfter deletes events whose retention has ended, until ctx ends. Every node does: a row that is gone is
// no error.
func (r *Rows) TrimAfter(ctx context.Context, retention time.Duration, now func() rouse.Instant, log *slog.Logger) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		if _, err := r.Trim(ctx, now().Add(-retention)); err != nil && ctx.Err() == nil {
			log.Warn("old audit events cannot be deleted, and stay until the next attempt", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Trim deletes the rows whose events are all from before a time.
func (r *Rows) Trim(ctx context.Context, before rouse.Instant) (n int, err error) {
	q := rouse.Query{Namespace: rouse.ReservedNamespace, Prefix: prefix, States: []rouse.State{rouse.StateNote},
		After: rowKey(timePrefix(before - 1)), Limit: trimRows}
	for {
		page, err := r.Store.List(ctx, q)
		if err != nil {
			return n, err
		}
		changes := make([]rouse.Change, len(page.Rows))
		for i := range page.Rows {
			changes[i] = rouse.Change{Key: page.Rows[i].Key, If: rouse.AnyRevision}
		}
		if len(changes) > 0 {
			if _, err := r.Store.Apply(ctx, changes); err != nil {
				return n, err
			}
			n += len(changes)
		}
		if page.Next == nil {
			return n, nil
		}
		q.After = *page.Next
	}
}
