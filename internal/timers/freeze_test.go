package timers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// TestStrangersHoldNoTimer: a change keeps the attempts of its timer from starting, but only if its caller
// has rights in the namespace. A timer that comes due while a stranger is being refused fires.
func TestStrangersHoldNoTimer(t *testing.T) {
	spec := rouse.Spec{Schedule: "@every 1m", Target: "stream:x"}
	put := func(p Put) func(context.Context, *Timers, rouse.Key) error {
		return func(ctx context.Context, ts *Timers, key rouse.Key) error {
			p.Key = key
			results, err := ts.Put(ctx, []Put{p})
			return errors.Join(err, firstError(results))
		}
	}
	for name, operation := range map[string]func(context.Context, *Timers, rouse.Key) error{
		"replace":            put(Put{Spec: spec, Mode: ReplaceOnly}),
		"upsert":             put(Put{Spec: spec, Mode: CreateOrReplace}),
		"replace a revision": put(Put{Spec: spec, Mode: ReplaceOnly, IfRevision: 1}),
		"import": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			results, err := ts.Import(ctx, []rouse.Timer{{Key: key, Spec: spec}}, CreateOrReplace)
			return errors.Join(err, firstError(results))
		},
		"reschedule": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Reschedule(ctx, key, rouse.Spec{Schedule: "@every 2m"}, 0, false)
			return err
		},
		"patch": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Patch(ctx, key, PatchRequest{Change: func(s rouse.Spec) (rouse.Spec, error) {
				s.Schedule = "@every 2m"
				return s, nil
			}})
			return err
		},
		"relabel": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Relabel(ctx, key, 0, "stream:y", nil)
			return err
		},
		"coalesce": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Coalesce(ctx, key, rouse.Spec{Target: "stream:x"}, rouse.Coalesce{Quiet: time.Second})
			return err
		},
		"resume": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Resume(ctx, key)
			return err
		},
		"skip": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Skip(ctx, key, 1, "")
			return err
		},
		"delete": func(ctx context.Context, ts *Timers, key rouse.Key) error {
			_, err := ts.Delete(ctx, key, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &fired{of: map[string]int{}}
				var refused, held atomic.Int64
				ts := running(t, newJobStore(), sink, Options{Access: access.NewControl(func(access.Reason) {
					before := sink.count()
					time.Sleep(90 * time.Second)
					if refused.Add(1); sink.count() == before {
						held.Add(1)
					}
				})})
				key := rouse.Key{Namespace: "theirs", Name: "there"}
				if err := put(Put{Spec: spec})(access.AsSystem(t.Context()), ts, key); err != nil {
					t.Fatal(err)
				}
				stranger := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
					{Role: "admin", Scope: access.Scope{Namespaces: []string{"own"}}}}})
				if err := operation(stranger, ts, key); !errors.Is(err, rouse.ErrForbidden) || refused.Load() == 0 || held.Load() > 0 {
					t.Errorf("%v; the timer was held during %d of %d refusals", err, held.Load(), refused.Load())
				}
			})
		})
	}
}
