package timers

import (
	"context"
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Redrive gives the dead letter that key.Fire names a new set of attempts, with the same fire id, and returns
// the target that it goes to. A dead letter has the target, payload and policies that its timer had when it
// died; with current, it takes those that its timer has now. If it is in flight already, Redrive does
// nothing.
func (ts *Timers) Redrive(ctx context.Context, key rouse.Key, current bool) (target string, err error) {
	if err := forFires(key); err != nil {
		return "", err
	}
	t, err := ts.editTimer(ctx, access.DeadRedrive, key,
		newRepeatable(ctx, rouse.Key{Namespace: key.Namespace, Name: key.Name + " " + key.Fire}, "redrive", current),
		func(t *rouse.Timer) (rouse.Step, error) {
			if t.Live {
				return rouse.Step{Keep: true}, nil
			}
			to := t.Redrive(ts.Engine.Latest())
			if current {
				if err := takeCurrentSpec(ctx, ts, &to); err != nil {
					return rouse.Step{}, err
				}
			}
			if ts.admission.quotas != nil {
				was, is := t.Row(), to.Row()
				if err := ts.admission.admitRedrive(ctx, key.Namespace, &was, &is); err != nil {
					return rouse.Step{}, err
				}
			}
			return rouse.Step{To: &to}, nil
		})
	return t.Spec.Target, err
}

// takeCurrentSpec gives a dead letter the present spec of its timer, without the schedule. A notice takes the
// target of notices only. The caller needs the verb for the timer, too.
func takeCurrentSpec(ctx context.Context, ts *Timers, dead *rouse.Timer) error {
	key := rouse.Key{Namespace: dead.Key.Namespace, Name: dead.Key.Name}
	t, err := ts.getAllowed(ctx, access.DeadRedrive, key)
	cure := fmt.Sprintf("leave it out to redrive it to %s, as it died, or create the timer again", dead.Spec.Target)
	switch {
	case errors.Is(err, rouse.ErrNotFound):
		return rouse.Refuse("with_current_spec", "true",
			fmt.Sprintf("needs the timer %q, which does not exist any more", key.Name), cure)
	case err != nil:
		return err
	case dead.Notice != 0 && t.Spec.TargetOf(dead.Notice, ts.notifyBy(&t)) == "":
		return rouse.Refuse("with_current_spec", "true",
			fmt.Sprintf("needs a target for notices, and the timer %q has none for %v any more", key.Name, dead.Notice), cure)
	case dead.Notice != 0:
		dead.Spec.Target = t.Spec.TargetOf(dead.Notice, ts.notifyBy(&t))
	default:
		when := dead.Spec
		dead.Spec = t.Spec
		dead.Spec.SetWhen(&when)
	}
	return ts.placeTimer(dead)
}
