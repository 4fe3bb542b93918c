package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// A source whose copy was finished has a note of that, like the marker: its timers belong to another store,
// and would fire twice if it were served again. The note is written before the target's marker is removed, so
// that the two stores can never both be served.
var movedKey = rouse.Key{Namespace: "rouse", Name: "\x01moved"}

// own contains the keys of this package's rows, which are not copied.
var own = []rouse.Key{markerKey, probeKey, movedKey}

// moved is the content of the note, as JSON.
type moved struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// Moved returns the target of a finished copy from the store, and when it finished; "" if there was none.
func Moved(ctx context.Context, store rouse.Store) (to string, at time.Time, err error) {
	return side{store, Options{}.withDefaults().Timeout}.readMoved(ctx)
}

// Return allows a store whose timers were moved to be served again, with the timers that it had when they
// were copied.
func Return(ctx context.Context, store rouse.Store) error {
	_, err := side{store, Options{}.withDefaults().Timeout}.applyChanges(ctx,
		rouse.Change{Key: movedKey, If: rouse.AnyRevision})
	return err
}

func (s side) readMoved(ctx context.Context) (to string, at time.Time, err error) {
	rows, err := s.getRows(ctx, movedKey)
	if err != nil || rows[0].Revision == 0 {
		return "", at, err
	}
	var m moved
	if err := json.Unmarshal(rows[0].Body, &m); err != nil || m.To == "" {
		m.To = "another store"
	}
	return m.To, m.At, nil
}

// recordMoved records in the source that its timers belong to the target.
func (c *copying) recordMoved(ctx context.Context) error {
	now, err := c.from.store.Now(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(moved{To: c.o.To, At: now.Time()})
	if err != nil {
		return err
	}
	row := rouse.Row{Key: movedKey, Visible: rouse.Never, Due: rouse.Never, State: rouse.StateNote, Body: body}
	if _, err := c.from.applyChanges(ctx, rouse.Change{Key: movedKey, If: rouse.AnyRevision, To: &row}); err != nil {
		return fmt.Errorf("note in %s that its timers were moved: %w", c.o.From, err)
	}
	return nil
}

// checkLeft refuses to copy from a store whose timers were moved, unless this copy has moved them and must be
// finished.
func (c *copying) checkLeft(ctx context.Context, begun bool) error {
	to, at, err := c.from.readMoved(ctx)
	if err != nil || to == "" || begun {
		return err
	}
	return rouse.Refuse("from", c.o.From, fmt.Sprintf("was copied to %s at %s, where its timers have gone on", to,
		at.Format(time.RFC3339)),
		"copy from there; or serve this one again with --force, if it is to be the store again")
}
