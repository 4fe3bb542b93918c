package migrate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rousehq/rouse"
)

// The marker of a target is a note, like calendars: a row that never needs attention, with a name that no
// timer and no calendar can have. Each run begins by rewriting it, and all its writes depend on its revision.
// So of two concurrent runs, the older one stops. And because records are written together with a new version
// of the marker, on the condition of the previous version, none is written twice, not even by a late write.
var (
	markerKey = rouse.Key{Namespace: "rouse", Name: "\x01migrate"}
	probeKey  = rouse.Key{Namespace: "rouse", Name: "\x01migrate-probe"}
)

const markerVersion = 1

// gap is how far above the source's revisions those of the target continue. It is far more than a source
// writes during a copy, so that a generation shows where it was given: above the floor, by the target.
const gap = 1 << 32

// marker is the marker's body, as JSON.
type marker struct {
	Version int    `json:"version"`
	From    string `json:"from"`
	Origin  string `json:"origin,omitempty"`
	High    uint64 `json:"high"`  // the highest revision of the source when the last run began
	Floor   uint64 `json:"floor"` // the revision that the target was raised to

	revision uint64 // of the row
}

func (m *marker) markerRow() (*rouse.Row, error) {
	body, err := json.Marshal(m)
	return &rouse.Row{Key: markerKey, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: body}, err
}

// readMarker returns the marker of a store; ok is false if it has none.
func readMarker(ctx context.Context, s side, name string) (m marker, ok bool, err error) {
	rows, err := s.getRows(ctx, markerKey)
	if err != nil || rows[0].Revision == 0 {
		return m, false, err
	}
	if err := json.Unmarshal(rows[0].Body, &m); err != nil || m.Version != markerVersion {
		return m, false,
			fmt.Errorf(
				"the copy into %s was begun by another version of rouse, and only that can go on with it; or copy into an empty store", name)
	}
	m.revision = rows[0].Revision
	return m, true, nil
}

// Unfinished reports whether a store is the target of an unfinished copy, and the name of its source.
func Unfinished(ctx context.Context, store rouse.Store) (from string, unfinished bool, err error) {
	m, ok, err := readMarker(ctx, side{store, Options{}.withDefaults().Timeout}, "this store")
	return m.From, ok, err
}

// prepareTarget checks that the target may be written to, raises its revisions and marks it. With Options.Dry
// it only checks.
func (c *copying) prepareTarget(ctx context.Context) error {
	if _, ok := c.to.store.(rouse.Raiser); !ok {
		return rouse.Refuse("to", c.o.To, "cannot be told where its revisions go on", "name a store of another kind")
	}
	if _, ok, err := readMarker(ctx, c.from, c.o.From); err != nil || ok {
		if err == nil {
			err = rouse.Refuse("from", c.o.From, "is itself the target of a copy that is not finished",
				"finish that one first, or name its source")
		}
		return err
	}
	m, ok, err := readMarker(ctx, c.to, c.o.To)
	if err != nil {
		return err
	}
	c.marker = m
	if ok {
		err = c.checkLineage(ctx)
	} else {
		err = c.checkEmpty(ctx)
	}
	if err == nil {
		err = c.checkLeft(ctx, ok)
	}
	if err != nil || c.o.Dry {
		return err
	}
	return c.renewMarker(ctx)
}

// checkEmpty refuses a target with content.
func (c *copying) checkEmpty(ctx context.Context) error {
	const cure = "name an empty store; if a copy into this one was finished, compare them with --verify-only"
	n, err := c.to.countRows(ctx)
	if err != nil {
		return err
	}
	shared, err := c.to.sharedRows(ctx)
	if err != nil {
		return err
	}
	if n -= shared; n > 0 {
		return rouse.Refuse("to", c.o.To, fmt.Sprintf("has %d rows, and no copy into it is under way", n), cure)
	}
	names, err := c.to.recordNamespaces(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		page, err := c.to.listRecordPage(ctx, rouse.RecordQuery{Namespace: name, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Records) > 0 {
			return rouse.Refuse("to", c.o.To, fmt.Sprintf("has records, of namespace %s, and no copy into it is under way",
				name), cure)
		}
	}
	return nil
}

// renewMarker reads the source's highest revision, raises those of the target above it, and writes the
// marker.
func (c *copying) renewMarker(ctx context.Context) error {
	probes := c.probes
	high, err := c.probeRevision(ctx)
	if err != nil {
		return fmt.Errorf("find the highest revision of %s: %w", c.o.From, err)
	}
	m := c.marker
	if high < m.High {
		return rouse.Refuse("from", c.o.From,
			fmt.Sprintf("ends at revision %d, and the copy has seen %d: it is older than what was copied, or another store",
				high, m.High),
			"name the store that the copy was begun from, or copy into an empty store")
	}
	// Without those of this run's probes: the source may be a copy, from a backup, of the store that is named
	// next, which has no such probes.
	m.Version, m.From, m.Origin, m.High = markerVersion, c.o.From, c.o.Origin, high-probes
	if high+gap/2 > m.Floor {
		m.Floor = high + gap
	}
	bounded, cancel := c.to.boundedContext(ctx)
	defer cancel()
	if err := c.to.store.(rouse.Raiser).Raise(bounded, m.Floor); err != nil {
		return fmt.Errorf("raise the revisions of %s: %w", c.o.To, err)
	}
	return c.writeMarker(ctx, m)
}

// probeRevision writes a row to the source and removes it: its revision is the highest of the source.
func (c *copying) probeRevision(ctx context.Context) (uint64, error) {
	row := rouse.Row{Key: probeKey, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: []byte("{}")}
	results, err := c.from.applyChanges(ctx, rouse.Change{Key: probeKey, If: rouse.AnyRevision, To: &row})
	if err != nil {
		return 0, err
	}
	_, err = c.from.applyChanges(ctx, rouse.Change{Key: probeKey, If: results[0].Revision})
	c.probes += 2
	return results[0].Revision, err
}

// writeMarker writes the marker, with records.
func (c *copying) writeMarker(ctx context.Context, m marker, log ...rouse.Record) error {
	row, err := m.markerRow()
	if err != nil {
		return err
	}
	if c.o.Bucket != nil {
		row.Bucket = c.o.Bucket(row)
	}
	results, err := c.to.applyChanges(ctx, rouse.Change{Key: markerKey, If: m.revision, To: row, Log: log})
	if err != nil {
		return err
	}
	if !results[0].Applied {
		return c.overtakenError()
	}
	c.marker = m
	c.marker.revision = results[0].Revision
	return nil
}

// finishCopy records in the source where its timers are, and removes the marker: the target becomes an
// ordinary store.
func (c *copying) finishCopy(ctx context.Context) error {
	if err := c.recordMoved(ctx); err != nil {
		return err
	}
	results, err := c.to.applyChanges(ctx, rouse.Change{Key: markerKey, If: c.marker.revision})
	if err != nil {
		return err
	}
	if !results[0].Applied {
		return c.overtakenError()
	}
	c.report.Finished = true
	return nil
}

// overtakenError returns the error that another run has taken over the copy.
func (c *copying) overtakenError() error {
	return fmt.Errorf("another copy into %s has begun: let one run at a time: %w", c.o.To, rouse.ErrConflict)
}

// targetInUseError returns the error that the target is in use, and no longer a copy.
func (c *copying) targetInUseError(k rouse.Key) error {
	return fmt.Errorf(
		"%s of %s was not written by this copy: the store is in use already, and continuing would undo later writes; "+
			"stop that, and copy into an empty store: %w", rowTitle(k), c.o.To, rouse.ErrConflict)
}
