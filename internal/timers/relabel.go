package timers

import (
	"context"
	"maps"

	"github.com/rousehq/rouse"
)

// Relabel gives a timer another target and other labels, and leaves all else of it as it is: its generation, its due time, and what is in
// progress, of which an attempt that is out stays where it went. With an ifRevision other than 0 it does so only if the timer has that
// revision, and returns an error that is rouse.ErrConflict if not.
func (ts *Timers) Relabel(ctx context.Context, key rouse.Key, ifRevision uint64, target string, labels map[string]string) (rouse.Timer, error) {
	if err := forTimers(key); err != nil {
		return rouse.Timer{}, err
	}
	defer ts.Engine.Freeze(key)() // where another node has it, this one takes it over first, and sends nothing by the version before
	var last rouse.Timer
	out, err := ts.edit(ctx, key, ifRevision, func(t *rouse.Timer) (rouse.Step, error) {
		t.Spec.Target, t.Spec.Labels, t.Updated = target, maps.Clone(labels), ts.Engine.Latest()
		last = *t
		return rouse.Step{To: t}, ts.checkSpec(&t.Spec)
	})
	last.Revision = out.revision
	return last, err
}
