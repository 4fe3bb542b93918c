package migrate

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
)

// pageBytes limits the bodies of a page that is read, estimated from the previous page; batchBytes limits
// those of a batch that is written.
const (
	pageBytes  = 4 << 20
	batchBytes = 4 << 20
	firstPage  = 64 // rows: their size is still unknown
)

// readRows reads all rows of a store in the order of their keys, except those of this package.
func (s side) readRows(ctx context.Context, name string, most int) *ahead[rouse.Row] {
	q := rouse.Query{States: everyState, Limit: min(firstPage, most)}
	return readAhead(ctx, func(ctx context.Context) ([]rouse.Row, bool, error) {
		page, err := s.listRowPage(ctx, q)
		if err != nil {
			return nil, false, fmt.Errorf("list rows of %s: %w", name, err)
		}
		rows, size, last := make([]rouse.Row, 0, len(page.Rows)), 0, q.After
		for i := range page.Rows {
			r := &page.Rows[i]
			if r.Key.Compare(last) <= 0 { // rows that were skipped by mistake would be removed from the target
				return nil, false, fmt.Errorf("%s lists %s after %s: it does not keep the order of keys", name, rowTitle(r.Key),
					rowTitle(last))
			}
			last = r.Key
			size += len(r.Body)
			if !slices.Contains(own, r.Key) {
				rows = append(rows, *r)
			}
		}
		if n := len(page.Rows); n > 0 {
			q.Limit = min(max(pageBytes/max(size/n, 1), 16), most)
		}
		if page.Next == nil {
			return rows, false, nil
		}
		if page.Next.Compare(last) < 0 || page.Next.Compare(q.After) <= 0 {
			return nil, false, fmt.Errorf("the list of %s goes back from %s to %s", name, rowTitle(last), rowTitle(*page.Next))
		}
		q.After = *page.Next
		return rows, true, nil
	})
}

// copyRows makes the target's rows equal to the source's. It returns the namespaces that have rows.
func (c *copying) copyRows(ctx context.Context, pass int) (namespaces map[string]bool, err error) {
	total, err := c.from.countRows(ctx)
	if err != nil {
		return nil, err
	}
	namespaces = map[string]bool{}
	source, target := c.from.readRows(ctx, c.o.From, c.o.Batch), c.to.readRows(ctx, c.o.To, c.o.Batch)
	defer source.stopReading()
	defer target.stopReading()
	for {
		want, err := source.peekItem()
		if err != nil {
			return nil, err
		}
		have, err := target.peekItem()
		if err != nil {
			return nil, err
		}
		if want == nil && have == nil {
			break
		}
		order := -1 // the source's is first
		if want == nil {
			order = 1
		} else if have != nil {
			order = want.Key.Compare(have.Key)
		}
		if order >= 0 {
			target.advanceItem()
			namespaces[have.Key.Namespace] = true
		}
		if order <= 0 {
			source.advanceItem()
			namespaces[want.Key.Namespace] = true
			c.report.Rows++
			if c.report.Rows%128 == 0 {
				c.o.Progress(Progress{Pass: pass, Done: c.report.Rows, Total: max(total, c.report.Rows)})
			}
		}
		switch {
		case order < 0:
			err = c.copyRow(ctx, want, nil)
		case order > 0:
			err = c.copyRow(ctx, nil, have)
		default:
			err = c.copyRow(ctx, want, have)
		}
		if err != nil {
			return nil, err
		}
	}
	c.o.Progress(Progress{Pass: pass, Done: c.report.Rows, Total: max(total, c.report.Rows)})
	return namespaces, c.flushRows(ctx)
}

// copyRow makes one row of the target equal to the source's. Either may be nil: it does not exist.
func (c *copying) copyRow(ctx context.Context, want, have *rouse.Row) error {
	k, change := rouse.Key{}, rouse.Change{If: rouse.NoRow}
	if have != nil {
		k, change.If = have.Key, have.Revision
		// A generation above the floor was given by the target itself. That of an occurrence can be of the
		// store that it was imported from.
		if !c.looking && c.marker.Floor != 0 && k.Fire == "" && have.Generation > c.marker.Floor {
			return c.targetInUseError(k)
		}
	}
	if want == nil {
		if c.looking {
			c.recordDifference("%s is in %s only", rowTitle(k), c.o.To)
			return nil
		}
		c.report.Last.RowsRemoved++
		change.Key = k
		return c.queueChange(ctx, change)
	}
	to := *want
	if c.o.Bucket != nil {
		to.Bucket = c.o.Bucket(&to)
	}
	wrong := rowDifference(&to, have)
	if wrong == "" {
		return nil
	}
	if c.looking {
		c.recordDifference("%s %s", rowTitle(to.Key), wrong)
		return nil
	}
	c.report.Last.RowsWritten++
	if to.Criticality == 0 && to.State != rouse.StateNote {
		// Some stores do not keep the criticality and return 0. A timer that cannot be decoded is copied
		// unchanged.
		if t, err := rouse.DecodeTimer(&to); err == nil {
			to.Criticality = t.Spec.Criticality
		}
	}
	change.Key, change.To = to.Key, &to
	return c.queueChange(ctx, change)
}

// rowDifference describes how a row of the target is wrong; "" if it is not. Of revisions only the order
// counts: the token of the next attempt must be greater than all before.
func rowDifference(want, have *rouse.Row) string {
	switch {
	case have == nil:
		return "is missing"
	case want.Generation != have.Generation:
		return fmt.Sprintf("has generation %d, not %d", have.Generation, want.Generation)
	case want.State != have.State:
		return fmt.Sprintf("is %v, not %v", have.State, want.State)
	case want.Visible != have.Visible:
		return fmt.Sprintf("is visible at %v, not at %v", have.Visible, want.Visible)
	case want.Due != have.Due:
		return fmt.Sprintf("is due at %v, not at %v", have.Due, want.Due)
	case want.Bucket != have.Bucket:
		return fmt.Sprintf("is in bucket %d, not in %d", have.Bucket, want.Bucket)
	case !maps.Equal(want.Labels, have.Labels):
		return "has other labels"
	case !bytes.Equal(want.Body, have.Body):
		return "has another body"
	case have.Revision <= want.Revision:
		return fmt.Sprintf("has revision %d, not one above %d", have.Revision, want.Revision)
	}
	return ""
}

// queueChange adds a change to the batch, and writes the batch when it is full.
func (c *copying) queueChange(ctx context.Context, change rouse.Change) error {
	if c.o.Dry {
		return nil
	}
	c.batch = append(c.batch, change)
	if change.To != nil {
		c.bytes += len(change.To.Body)
	}
	if len(c.batch) < c.o.Batch && c.bytes < batchBytes {
		return nil
	}
	return c.flushRows(ctx)
}

// flushRows writes the batch. Each change depends on the row of the target that was read.
func (c *copying) flushRows(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	fence := rouse.Change{Key: markerKey, If: c.marker.revision, Keep: true}
	results, err := c.to.applyChanges(ctx, append([]rouse.Change{fence}, c.batch...)...)
	if err != nil {
		return fmt.Errorf("write to %s: %w", c.o.To, err)
	}
	if !results[0].Applied {
		return c.overtakenError()
	}
	for i, r := range results[1:] {
		if !r.Applied {
			return c.targetInUseError(c.batch[i].Key)
		}
	}
	c.batch, c.bytes = nil, 0
	return nil
}

// rowTitle returns the name of a row for messages.
func rowTitle(k rouse.Key) string {
	s := fmt.Sprintf("row %q of namespace %q", k.Name, k.Namespace)
	if k.Fire != "" {
		s += fmt.Sprintf(", fire %q", k.Fire)
	}
	return s
}
