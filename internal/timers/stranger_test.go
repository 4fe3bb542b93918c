package timers

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/quota"
)

// TestStrangersLearnNothingOfANamespace: an operation that would be refused by the settings of a namespace,
// such as its secrets, its longest timeout, its rates and whether it exists, is forbidden to callers of other
// namespaces.
func TestStrangersLearnNothingOfANamespace(t *testing.T) {
	spec := func(target string) rouse.Spec {
		return rouse.Spec{Schedule: "@every 1h", Target: target, Retry: rouse.Retry{Timeout: time.Minute},
			Calendar: rouse.CalendarRule{Off: []string{"holidays"}}}
	}
	put := func(mode Mode, validate bool) func(context.Context, *Timers, rouse.Key, rouse.Spec) error {
		return func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			results, err := ts.Put(ctx, []Put{{Key: key, Spec: s, Mode: mode, Validate: validate}})
			return errors.Join(err, firstError(results))
		}
	}
	operations := map[string]func(context.Context, *Timers, rouse.Key, rouse.Spec) error{
		"create":   put(CreateOnly, false),
		"upsert":   put(CreateOrReplace, false),
		"replace":  put(ReplaceOnly, false),
		"validate": put(CreateOnly, true),
		"coalesce": func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			s.Schedule, s.Calendar = "", rouse.CalendarRule{}
			_, err := ts.Coalesce(ctx, key, s, rouse.Coalesce{Quiet: time.Second})
			return err
		},
		"import": func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			results, err := ts.Import(ctx, []rouse.Timer{{Key: key, Spec: s}}, CreateOnly)
			return errors.Join(err, firstError(results))
		},
		"preview": func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			_, err := ts.Preview(ctx, key, s, 0, 1)
			return err
		},
		"reschedule": func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			_, err := ts.Reschedule(ctx, key, rouse.Spec{Schedule: s.Schedule}, 0, false)
			return err
		},
		"explain": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Explain(ctx, key, 0)
			return err
		},
	}
	for name, operation := range operations {
		synctest.Test(t, func(t *testing.T) {
			s := newJobStore()
			book := quota.New(s, access.NewShared(s, slog.New(slog.DiscardHandler)),
				quota.Options{Node: func() string { return "n" }, Now: s.Now})
			ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil), Quotas: book,
				Check: func(_ context.Context, namespace string, _ *rouse.Spec) error {
					if namespace == "bare" {
						return nil
					}
					return rouse.Refuse("webhook.headers", "{{secret:token}}", "is no secret of "+namespace, "set it")
				}})
			system := access.AsSystem(t.Context())
			strict := rouse.Quotas{MaxTimeout: time.Second, MinInterval: 2 * time.Hour, Creates: 1, Reads: 1}
			for n, quotas := range map[string]rouse.Quotas{"bare": {}, "strict": strict} {
				if _, err := book.Put(system, n, quotas, rouse.NoRow); err != nil {
					t.Fatal(err)
				}
			}
			stranger := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
				{Role: "operator", Scope: access.Scope{Namespaces: []string{"own"}}}}})
			for _, namespace := range []string{"bare", "strict", "absent", "strict", "strict"} {
				err := operation(stranger, ts, rouse.Key{Namespace: namespace, Name: "a"}, spec("stream:x"))
				if !errors.Is(err, rouse.ErrForbidden) {
					t.Errorf("%s in the namespace %s: %v", name, namespace, err)
				}
			}
		})
	}
}

func firstError(results []PutResult) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
