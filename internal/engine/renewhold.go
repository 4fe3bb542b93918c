package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
)

// renewals renew the holds of attempts that are out.
type renewals struct {
	*env
	memory  *memory
	commits *commits
}

// renewLoop extends the holds of attempts that are out.
func (r *renewals) renewLoop(ctx context.Context) {
	for backoff.Sleep(ctx, r.opts.Hold/4) {
		items := r.buildRenewals(boottime.Now())
		if len(items) == 0 {
			continue
		}
		if err := r.renewHolds(ctx, items); err != nil && ctx.Err() == nil {
			r.opts.Events.emitFailed("renew", err)
		}
	}
}

// renewHolds writes renewals. If another node has changed a row, the row is read, so that the next renewal
// uses the new revision: it stays held as long as its attempt is out.
func (r *renewals) renewHolds(ctx context.Context, items []*Write) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Hold)
	defer cancel()
	results, err := r.commits.commitWrites(ctx, items)
	if err != nil {
		return err
	}
	var keys []rouse.Key
	for i, res := range results {
		if !res.Applied && res.Err == nil {
			keys = append(keys, items[i].Change.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := r.store.Get(ctx, keys)
	if err != nil {
		return err
	}
	r.memory.Lock()
	defer r.memory.Unlock()
	now := r.Now()
	for i := range rows {
		en, row := r.memory.window.entries.entryByKey(keys[i]), &rows[i]
		// otherwise settling finds out
		if en != nil && en.state == sending && row.Revision > en.row.Revision && row.Generation == en.row.Generation {
			r.memory.changeEntry(en, row, en.held, now)
		}
	}
	return nil
}

// buildRenewals returns the writes that renew the holds that end soon.
func (r *renewals) buildRenewals(now time.Time) (items []*Write) {
	r.memory.Lock()
	defer r.memory.Unlock()
	for en := range r.memory.window.entries.allEntries() {
		if en.state == sending && !en.orphan && !en.held.IsZero() && en.held.Sub(now) < r.opts.Hold*45/100 {
			row := en.row
			items = append(items, &Write{Change: rouse.Change{Key: row.Key, If: row.Revision, To: &row}, Renews: true})
		}
	}
	return items
}
