// Package migrate copies the whole content of a store into another one, of any kind: all rows of all states,
// with their generations, and all records. It uses only rouse.Store, except that the target must be a
// rouse.Raiser.
//
//	source ──► pages in the order of keys ──┐
//	                                        ├─► differences ─► batches of conditional writes ──► target
//	target ──► pages in the order of keys ──┘
//
// A copy consists of passes. Each pass reads both stores from end to end in parallel, and makes the target
// equal to the source where they differ. So a pass needs no state: after a kill at any point, the next run
// skips rows that have been copied, and transfers those that the source has changed, added or removed since.
// While the source serves, passes approach it; once it is stopped, a pass that finds no difference is the
// verification.
//
// The target must never reuse a generation or a fencing token. Before anything is copied, its revisions are
// raised far above those of the source; a copied row keeps its generation and gets a revision of the target.
// So fire ids do not change, and each token is greater than all that receivers have seen.
//
// From its first write until the end of the copy, the target has a marker: a row that is not a timer, and
// that only this package reads (marker.go). A target with rows and without a marker is not changed.
// Unfinished reports whether a store has a marker: such a store must not be served.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Options configure a copy. Zero fields mean the defaults named in their comments.
type Options struct {
	From, To string // names of the stores for messages; without passwords

	// Origin is the address of the source: a run with the same origin as the previous one continues with that
	// source. Without it, or with another one, the source must be recognized by its content.
	Origin string

	// Final means that the source is no longer written to. The copy continues until a pass finds no
	// difference, which verifies it, and the target can then be served. Without it, the copy comes as close
	// as possible and can be continued.
	Final bool

	// Dry writes to neither store: the report contains the changes that a pass would make.
	Dry bool

	Batch   int           // limit of rows in one write; default 500
	Passes  int           // limit; default 8
	Timeout time.Duration // of one call to a store; default 1 minute

	// Bucket returns the bucket of a row in the target; nil keeps the buckets of the source.
	Bucket func(row *rouse.Row) uint32

	// Progress is called from time to time, by the goroutine that called Copy or Verify.
	Progress func(p Progress)
}

func (o Options) withDefaults() Options {
	o.From = cmp.Or(o.From, "the source")
	o.To = cmp.Or(o.To, "the target")
	o.Batch = cmp.Or(max(o.Batch, 0), 500)
	o.Passes = cmp.Or(max(o.Passes, 0), 8)
	o.Timeout = cmp.Or(max(o.Timeout, 0), time.Minute)
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// Progress describes how far a pass has come.
type Progress struct {
	Pass    int  // from 1; 0 for Verify
	Records bool // it reads records now; before that, rows
	Done    int64
	Total   int64 // 0: unknown
}

// Counts are the changes that a pass made, or would make, to the target.
type Counts struct {
	RowsWritten    int64 `json:"rows_written"`
	RowsRemoved    int64 `json:"rows_removed"`
	RecordsWritten int64 `json:"records_written"`
}

func (c Counts) totalChanges() int64 { return c.RowsWritten + c.RowsRemoved + c.RecordsWritten }

// Report is the result of a copy or a comparison.
type Report struct {
	Rows    int64 `json:"rows"`    // of the source, in the last pass
	Records int64 `json:"records"` // of the source
	Forgot  int64 `json:"forgot"`  // records of the target that the source has deleted, since they were copied or before

	Total  Counts `json:"total"` // by all passes
	Last   Counts `json:"last"`  // by the last pass: how far the target was behind when it began
	Passes int    `json:"passes"`

	// Same means that the last pass found no difference: all rows are equal in all fields except their
	// revisions, and the target has all records of the source, the same number of times.
	Same bool `json:"same"`

	// Finished means that the copy is complete: the target has no marker any more.
	Finished bool `json:"finished"`

	// Different is the number of differences, if they were counted: after a final copy that could not be
	// finished, and by Verify. Differences describes the first few.
	Different   int64    `json:"different"`
	Differences []string `json:"differences,omitempty"`

	Namespaces []NamespaceReport `json:"namespaces"` // sorted
}

// NamespaceReport counts the records of a namespace.
type NamespaceReport struct {
	Namespace string `json:"namespace"`
	Source    int64  `json:"source_records"`
	Target    int64  `json:"target_records"`
	Forgot    int64  `json:"forgot"` // records of the target that the source does not have any more
}

// mostDifferences limits the differences that are described.
const mostDifferences = 10

// near is the number of changes at which another pass would hardly find fewer: a share of the rows, and an
// absolute number.
const (
	nearShare = 1000
	nearFew   = 100
)

// Copy copies from into to. An error leaves the target as an unfinished copy: the same call continues it.
//
// It writes one row to the source, and removes it at once: the revision of that row is the source's highest.
func Copy(ctx context.Context, from, to rouse.Store, o Options) (Report, error) {
	c := newCopying(from, to, o)
	err := c.copyStores(ctx)
	return c.report, err
}

func (c *copying) copyStores(ctx context.Context) error {
	if err := c.prepareTarget(ctx); err != nil {
		return err
	}
	for pass := 1; pass <= c.o.Passes; pass++ {
		if err := c.runPass(ctx, pass); err != nil {
			return err
		}
		behind := c.report.Last.totalChanges()
		switch {
		case c.o.Dry:
			return nil
		case c.report.Same && c.o.Final:
			return c.finishCopy(ctx)
		case behind == 0, !c.o.Final && behind <= max(nearFew, c.report.Rows/nearShare):
			return nil
		}
		if err := c.renewMarker(ctx); err != nil {
			return err
		}
	}
	if !c.o.Final {
		return nil
	}
	c.looking = true // find the rows that differ
	return c.runPass(ctx, 0)
}

// Verify compares the stores and writes to neither. Differences are rows that the target lacks or has
// otherwise, and its additional rows.
func Verify(ctx context.Context, from, to rouse.Store, o Options) (Report, error) {
	c := newCopying(from, to, o)
	c.looking = true
	err := c.runPass(ctx, 0)
	return c.report, err
}

// copying is a running copy. It belongs to one goroutine.
type copying struct {
	o        Options
	from, to side
	marker   marker // of the target, during the copy
	probes   uint64 // revisions of the source that probeRevision has used
	looking  bool   // only describe differences: nothing is written
	report   Report

	batch []rouse.Change // of rows, to be written
	bytes int            // of their bodies
	logs  []rouse.Record // to be written
}

func newCopying(from, to rouse.Store, o Options) *copying {
	o = o.withDefaults()
	return &copying{o: o, from: side{from, o.Timeout}, to: side{to, o.Timeout}}
}

// runPass reads both stores once.
func (c *copying) runPass(ctx context.Context, number int) error {
	r := &c.report
	r.Rows, r.Records, r.Forgot, r.Namespaces, r.Different, r.Differences, r.Same = 0, 0, 0, nil, 0, nil, false
	r.Last = Counts{}
	c.batch, c.logs, c.bytes = nil, nil, 0
	namespaces, err := c.copyRows(ctx, number)
	if err != nil {
		return fmt.Errorf("copy rows: %w", err)
	}
	if err := c.copyRecords(ctx, number, namespaces); err != nil {
		return fmt.Errorf("copy records: %w", err)
	}
	if !c.looking {
		r.Passes = number
	}
	r.Total.RowsWritten += r.Last.RowsWritten
	r.Total.RowsRemoved += r.Last.RowsRemoved
	r.Total.RecordsWritten += r.Last.RecordsWritten
	r.Same = r.Last.totalChanges() == 0 && r.Different == 0
	return nil
}

// recordDifference records a difference.
func (c *copying) recordDifference(format string, args ...any) {
	if c.report.Different++; len(c.report.Differences) < mostDifferences {
		c.report.Differences = append(c.report.Differences, fmt.Sprintf(format, args...))
	}
}
