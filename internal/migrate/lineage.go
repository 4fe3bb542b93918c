package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
)

// How many rows of the target are looked at for one that shows where it came from, and for how many of them the source's records
// are asked.
const (
	witnesses     = 1000
	askedRecords  = 64
	recordsOfName = 20
)

// checkLineage refuses to go on with a copy if nothing shows that it was begun from this source. A store has no name of its own, and
// a copy may be begun from a running server and finished from its directory: so a source that lies elsewhere than before is
// known by what it holds. One timer that both have, created at the same time with the same generation, is proof enough; or one
// that the source has fired and forgotten but for its record.
func (c *copying) checkLineage(ctx context.Context) error {
	if c.o.Origin != "" && c.o.Origin == c.marker.Origin {
		return nil
	}
	var sample []rouse.Row
	target := c.to.readRows(ctx, c.o.To, c.o.Batch)
	defer target.close()
	for len(sample) < witnesses {
		r, err := target.head()
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		sample = append(sample, *r)
		target.take()
	}
	if len(sample) == 0 { // nothing can be lost
		return nil
	}
	keys := make([]rouse.Key, len(sample))
	for i := range sample {
		keys[i] = sample[i].Key
	}
	rows, err := c.from.get(ctx, keys...)
	if err != nil {
		return err
	}
	for i := range sample {
		if related(&sample[i], &rows[i]) {
			return nil
		}
	}
	for i := range sample[:min(len(sample), askedRecords)] {
		r := &sample[i]
		page, err := c.from.history(ctx, rouse.RecordQuery{Namespace: r.Key.Namespace, Name: r.Key.Name, Limit: recordsOfName})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Records, func(rec rouse.Record) bool { return rec.Generation == r.Generation }) {
			return nil
		}
	}
	return rouse.Refuse("from", c.o.From, fmt.Sprintf("has nothing in common with what was copied to %s, which was begun from %s", c.o.To, c.marker.From),
		"name the store that the copy was begun from, or copy into an empty store")
}

// related says whether two rows of a key are of the same making.
func related(a, b *rouse.Row) bool {
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
