package engine

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// A node that loses a bucket keeps its attempts there under holds (handover). The next owner counts those of
// timers with limits as its own until they end.

// awayLook is how often an owner looks whether attempts of others have ended.
const awayLook = 100 * time.Millisecond

// countAway gives places to the attempts that other nodes keep in buckets that this node has just gained.
func (r *reader) countAway(ctx context.Context, gained []uint32) error {
	if r.opts.Limits == nil {
		return nil
	}
	g := r.buckets.currentGrant()
	after := rouse.Position{Visible: r.Now()}
	for {
		batch, err := r.store.Claim(ctx, rouse.Window{Buckets: gained, After: after,
			Ahead: r.holds.holdReach(g) + r.opts.Hold + 2*holdGrain*time.Millisecond, Limit: pageRows, Bytes: pageBytes})
		if err != nil {
			return err
		}
		r.memory.Lock()
		for i := range batch.Rows {
			if row := &batch.Rows[i]; r.isAway(row) && r.memory.window.entries.entryByKey(row.Key) == nil {
				if t, err := r.opts.Read(row); err == nil {
					r.memory.gates.addAway(&t)
				}
			}
		}
		r.memory.Unlock()
		if !batch.More || len(batch.Rows) == 0 {
			return nil
		}
		after = batch.Rows[len(batch.Rows)-1].Position()
	}
}

// isAway reports whether another node has an attempt of the timer of a row with a limit.
func (r *reader) isAway(row *rouse.Row) bool {
	if row.State == rouse.StateNote || row.Visible <= r.Now() {
		return false
	}
	t, err := r.opts.Read(row)
	return err == nil && t.Spec.Limit != "" && r.holds.uncoverRow(new(*row), r.opts.Hold)
}

// releaseAway takes the places from attempts of other nodes that have ended. It reports whether some are
// left.
func (r *reader) releaseAway(ctx context.Context) (left bool, err error) {
	r.memory.Lock()
	keys := r.memory.gates.awayKeys()
	r.memory.Unlock()
	if len(keys) == 0 {
		return false, nil
	}
	rows, err := r.store.Get(ctx, keys)
	if err != nil {
		return true, err
	}
	r.memory.Lock()
	defer r.memory.Unlock()
	for i := range rows {
		if rows[i].Revision == 0 || !r.isAway(&rows[i]) || !r.buckets.ownsBucket(rows[i].Bucket) {
			r.memory.gates.removeAway(keys[i])
		}
	}
	r.memory.dispatchDeliveries()
	return len(r.memory.gates.away) > 0, nil
}

// addAway counts an attempt that another node has.
func (g *gates) addAway(t *rouse.Timer) {
	if g.away[t.Key] != nil {
		return
	}
	ga := g.ensureGate(limitName{t.Key.Namespace, t.Spec.Limit}, t.CountedKey(), g.Now(), g.Now())
	if ga == nil {
		return
	}
	if g.away == nil {
		g.away = map[rouse.Key]*gate{}
	}
	g.away[t.Key] = ga
	ga.countOther(1)
}

func (g *gates) removeAway(key rouse.Key) {
	if ga := g.away[key]; ga != nil {
		delete(g.away, key)
		ga.countOther(-1)
		g.noteReady(ga)
	}
}

// countOther counts attempts of other nodes.
func (ga *gate) countOther(n int32) {
	ga.running += n
	ga.limit.running += int(n)
	ga.limit.others += int(n)
}

// maxAwayKeys bounds the rows that are read at a time.
const maxAwayKeys = 1000

func (g *gates) awayKeys() (keys []rouse.Key) {
	for key := range g.away {
		if keys = append(keys, key); len(keys) == maxAwayKeys {
			break
		}
	}
	return keys
}
