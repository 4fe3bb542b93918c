// Package migrate copies everything that a store holds into another one, of whatever kind: all rows of all states, with their
// generations, and all records. It needs no more of either than rouse.Store says, but that the target is a rouse.Raiser.
//
//	source ──► pages in the order of keys ──┐
//	                                        ├─► differences ─► batches of conditional writes ──► target
//	target ──► pages in the order of keys ──┘
//
// A copy is a number of passes. Each reads both stores from end to end, side by side, and makes the target the same as the source
// where it is not. So a pass needs to remember nothing: after a kill at any point the next run passes over what is there
// already, and what the source has changed, added or removed since, the next pass brings, removes and all. While the source
// serves, passes come close to it; when it was stopped, one more that finds nothing left to do is the verification.
//
// What the target must never do is use a generation or a fencing token again. Before anything is copied, its revisions are raised
// far above those of the source, and a row that is copied keeps its generation and gets a revision of the target. So fire ids
// stay what they were, and each token is greater than all that receivers saw.
//
// From its first write until it is done, the target has a marker: a row that is no timer, and that nothing but this package sees
// (marker.go). A target with rows and without a marker is not touched. Unfinished tells whether a store has one: such a store
// should not be served.
package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Options say how to copy. Zero fields have the defaults that their comments name.
type Options struct {
	From, To string // what the stores are called when something is said of them; without passwords

	// Origin says where the source lies: a run with the origin of the run before it goes on with the same source. Without it, or
	// with another one, the source has to be known by what it holds.
	Origin string

	// Final says that nobody writes to the source any more. The copy goes on until a pass finds nothing to do, which verifies it,
	// and the target is then free to be served. Without it, the copy comes as close as it gets and can be gone on with.
	Final bool

	// Dry writes nothing to either store: the report says what a pass would do.
	Dry bool

	Batch   int           // rows in one write, at most; default 500
	Passes  int           // at most; default 8
	Timeout time.Duration // of one call to a store; default 1 minute

	// Bucket is the bucket of a row in the target; nil leaves rows in the buckets that they have in the source.
	Bucket func(row *rouse.Row) uint32

	// Progress is called from time to time, by the goroutine that called Copy or Verify.
	Progress func(p Progress)
}

func (o Options) withDefaults() Options {
	if o.From == "" {
		o.From = "the source"
	}
	if o.To == "" {
		o.To = "the target"
	}
	if o.Batch <= 0 {
		o.Batch = 500
	}
	if o.Passes <= 0 {
		o.Passes = 8
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// Progress is how far a pass has come.
type Progress struct {
	Pass    int  // from 1 on; 0 for Verify
	Records bool // it goes through records now; before that, through rows
	Done    int64
	Total   int64 // 0: not known
}

// Counts are what a pass did, or would do, to the target.
type Counts struct {
	RowsWritten    int64 `json:"rows_written"`
	RowsRemoved    int64 `json:"rows_removed"`
	RecordsWritten int64 `json:"records_written"`
}

func (c Counts) sum() int64 { return c.RowsWritten + c.RowsRemoved + c.RecordsWritten }

// Report is what a copy, or a comparison, found.
type Report struct {
	Rows    int64 `json:"rows"`    // of the source, as the last pass saw them
	Records int64 `json:"records"` // of the source
	Forgot  int64 `json:"forgot"`  // records that the target has and the source has forgotten, since they were copied or before

	Total  Counts `json:"total"` // by all passes
	Last   Counts `json:"last"`  // by the last pass: how far the target was behind when it began
	Passes int    `json:"passes"`

	// Same says that the last pass found both stores alike: all rows in all fields but their revisions, and all records that the
	// source has, as often as it has them.
	Same bool `json:"same"`

	// Finished says that the copy is done: the target has no marker any more.
	Finished bool `json:"finished"`

	// Different counts what differs where it was looked for: after a final copy that could not be finished, and by Verify.
	// Differences tells of the first few.
	Different   int64    `json:"different"`
	Differences []string `json:"differences,omitempty"`

	Namespaces []NamespaceReport `json:"namespaces"` // in their order

	// Hidden says that the source cannot tell which namespaces have records: those were copied that have rows.
	Hidden bool `json:"hidden,omitempty"`
}

// NamespaceReport counts the records of a namespace.
type NamespaceReport struct {
	Namespace string `json:"namespace"`
	Source    int64  `json:"source_records"`
	Target    int64  `json:"target_records"`
	Forgot    int64  `json:"forgot"` // of the target's: those that the source does not have any more
}

// mostDifferences is how many differences are told.
const mostDifferences = 10

// near is how few changes a pass finds when another one would hardly find fewer: the share of the rows that it may be, and a
// number that is few by itself.
const (
	nearShare = 1000
	nearFew   = 100
)

// Copy copies from into to. An error leaves the target as a copy that is not finished: the same call goes on with it.
//
// It writes one row to the source, and removes it at once: the revision of that row is the source's highest.
func Copy(ctx context.Context, from, to rouse.Store, o Options) (Report, error) {
	c := begin(from, to, o)
	err := c.copy(ctx)
	return c.report, err
}

func (c *copying) copy(ctx context.Context) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	for pass := 1; pass <= c.o.Passes; pass++ {
		if err := c.pass(ctx, pass); err != nil {
			return err
		}
		behind := c.report.Last.sum()
		switch {
		case c.o.Dry:
			return nil
		case c.report.Same && c.o.Final:
			return c.finish(ctx)
		case behind == 0, !c.o.Final && behind <= max(nearFew, c.report.Rows/nearShare):
			return nil
		}
		if err := c.renew(ctx); err != nil {
			return err
		}
	}
	if !c.o.Final {
		return nil
	}
	c.looking = true // what keeps them from being the same?
	return c.pass(ctx, 0)
}

// Verify compares the stores and writes to neither. What the source has and the target has not, or has otherwise, and what rows
// the target has beside, are differences.
func Verify(ctx context.Context, from, to rouse.Store, o Options) (Report, error) {
	c := begin(from, to, o)
	c.looking = true
	err := c.pass(ctx, 0)
	return c.report, err
}

// copying is a copy on its way. It belongs to one goroutine.
type copying struct {
	o        Options
	from, to side
	marker   marker // of the target, while it is copied into
	looking  bool   // for differences, to tell them: nothing is written
	report   Report

	batch []rouse.Change // of rows, yet to be written
	bytes int            // of their bodies
	logs  []rouse.Record // yet to be written
}

func begin(from, to rouse.Store, o Options) *copying {
	o = o.withDefaults()
	return &copying{o: o, from: side{from, o.Timeout}, to: side{to, o.Timeout}}
}

// pass goes through both stores once.
func (c *copying) pass(ctx context.Context, number int) error {
	r := &c.report
	r.Rows, r.Records, r.Forgot, r.Namespaces, r.Different, r.Differences, r.Same = 0, 0, 0, nil, 0, nil, false
	r.Last = Counts{}
	c.batch, c.logs, c.bytes = nil, nil, 0
	namespaces, err := c.rows(ctx, number)
	if err != nil {
		return fmt.Errorf("copy rows: %w", err)
	}
	if err := c.records(ctx, number, namespaces); err != nil {
		return fmt.Errorf("copy records: %w", err)
	}
	if !c.looking {
		r.Passes = number
	}
	r.Total.RowsWritten += r.Last.RowsWritten
	r.Total.RowsRemoved += r.Last.RowsRemoved
	r.Total.RecordsWritten += r.Last.RecordsWritten
	r.Same = r.Last.sum() == 0 && r.Different == 0
	return nil
}

// differ notes a difference.
func (c *copying) differ(format string, args ...any) {
	if c.report.Different++; len(c.report.Differences) < mostDifferences {
		c.report.Differences = append(c.report.Differences, fmt.Sprintf(format, args...))
	}
}
