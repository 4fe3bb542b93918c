package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
)

// Limits of the search for a row that shows where the target came from: the rows of the target that it reads,
// and the rows for which it reads the source's records.
const (
	witnesses     = 1000
	askedRecords  = 64
	recordsOfName = 20
)

// checkLineage refuses to continue a copy without evidence that it came from this source. A store has no name
// of its own, and a copy may be started from a running server and finished from its directory: so a source
// with another address is recognized by its content. One timer in both stores, created at the same time with
// the same generation, is sufficient; or a timer of which the source has only the record of a fire left.
func (c *copying) checkLineage(ctx context.Context) error {
	if c.o.Origin != "" && c.o.Origin == c.marker.Origin {
		return nil
	}
	var sample []rouse.Row
	target := c.to.readRows(ctx, c.o.To, c.o.Batch)
	defer target.stopReading()
	for len(sample) < witnesses {
		r, err := target.peekItem()
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		sample = append(sample, *r)
		target.advanceItem()
	}
	if len(sample) == 0 { // nothing can be lost
		return nil
	}
	keys := make([]rouse.Key, len(sample))
	for i := range sample {
		keys[i] = sample[i].Key
	}
	rows, err := c.from.getRows(ctx, keys...)
	if err != nil {
		return err
	}
	for i := range sample {
		if isSameLineage(&sample[i], &rows[i]) {
			return nil
		}
	}
	for i := range sample[:min(len(sample), askedRecords)] {
		r := &sample[i]
		page, err := c.from.listRecordPage(ctx, rouse.RecordQuery{Namespace: r.Key.Namespace, Name: r.Key.Name,
			Limit: recordsOfName})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Records, func(rec rouse.Record) bool { return rec.Generation == r.Generation }) {
			return nil
		}
	}
	return rouse.Refuse("from", c.o.From,
		fmt.Sprintf("has nothing in common with what was copied to %s, which was begun from %s", c.o.To, c.marker.From),
		"name the store that the copy was begun from, or copy into an empty store")
}

// isSameLineage reports whether two rows of a key come from the same create.
func isSameLineage(a, b *rouse.Row) bool {
	if b.Revision == 0 || a.Generation != b.Generation {
		return false
	}
	if a.State == rouse.StateNote || b.State == rouse.StateNote {
		return a.State == b.State && string(a.Body) == string(b.Body)
	}
	x, err := rouse.DecodeTimer(a)
	if err != nil {
		return string(a.Body) == string(b.Body)
	}
	y, err := rouse.DecodeTimer(b)
	return err == nil && x.Created == y.Created
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
