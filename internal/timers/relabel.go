package timers

import (
	"cmp"
	"context"
	"maps"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Relabel replaces the target and labels of a timer, and keeps everything else: its generation, its due time,
// and the occurrence in progress. An attempt in flight stays with its old target. With an ifRevision other
// than 0, a timer with another revision is rouse.ErrConflict.
func (ts *Timers) Relabel(ctx context.Context, key rouse.Key, ifRevision uint64, target string,
	labels map[string]string) (rouse.Timer, error) {
	if err := forTimers(key); err != nil {
		return rouse.Timer{}, err
	}
	// where another node has it, this one takes it over first, and sends nothing by the version before
	defer ts.freezeAllowed(ctx, access.TimersCreate, key)()
	var last rouse.Timer
	if err := ts.access.Require(ctx, access.TimersCreate, key.Namespace, target, labels); err != nil {
		return rouse.Timer{}, err
	}
	out, err := ts.editRow(ctx, access.TimersCreate, key, ifRevision, nil, func(t *rouse.Timer) (rouse.Step, error) {
		t.Spec.Target, t.Spec.Labels, t.Updated = target, maps.Clone(labels), ts.Engine.Latest()
		err := cmp.Or(ts.checkSpec(&t.Spec), ts.placeTimer(t))
		last = *t
		return rouse.Step{To: t}, err
	})
	last.Revision = out.revision
	ts.access.Redact(ctx, &last)
	return last, err
}
