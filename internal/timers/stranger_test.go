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
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/quota"
)

// TestStrangersLearnNothingOfANamespace: an operation that would be refused by the settings of a namespace,
// such as its secrets and limits, its longest timeout, its rates and whether it exists, is forbidden to
// callers of other namespaces.
func TestStrangersLearnNothingOfANamespace(t *testing.T) {
	spec := func(target string) rouse.Spec {
		return rouse.Spec{Schedule: "@every 1h", Target: target, Retry: rouse.Retry{Timeout: time.Minute},
			Calendar: rouse.CalendarRule{Off: []string{"holidays"}}, Limit: "payments"}
	}
	put := func(mode Mode, validate bool) func(context.Context, *Timers, rouse.Key, rouse.Spec) error {
		return func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			results, err := ts.Put(ctx, []Put{{Key: key, Spec: s, Mode: mode, Validate: validate}})
			return errors.Join(err, firstError(results))
		}
	}
	revision := func(validate bool) func(context.Context, *Timers, rouse.Key, rouse.Spec) error {
		return func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			results, err := ts.Put(ctx, []Put{{Key: key, Spec: s, Mode: ReplaceOnly, IfRevision: 1, Validate: validate}})
			return errors.Join(err, firstError(results))
		}
	}
	operations := map[string]func(context.Context, *Timers, rouse.Key, rouse.Spec) error{
		"create":              put(CreateOnly, false),
		"upsert":              put(CreateOrReplace, false),
		"replace":             put(ReplaceOnly, false),
		"validate":            put(CreateOnly, true),
		"validate a replace":  put(ReplaceOnly, true),
		"replace a revision":  revision(false),
		"validate a revision": revision(true),
		"search": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Search(ctx, rouse.Query{Namespace: key.Namespace, Limit: 1})
			return err
		},
		"list": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, _, err := ts.List(ctx, rouse.Query{Namespace: key.Namespace, Limit: 1})
			return err
		},
		"records": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Records(ctx, rouse.RecordQuery{Namespace: key.Namespace, Limit: 1})
			return err
		},
		"simulate": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Simulate(ctx, rouse.Query{Namespace: key.Namespace}, 0, 1_900_000_000_000, 1)
			return err
		},
		"forecast": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			from := ts.Now()
			_, err := ts.Forecast(ctx, rouse.Query{Namespace: key.Namespace}, from, from.Add(time.Hour), time.Minute, "", nil)
			return err
		},
		"get": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Get(ctx, key)
			return err
		},
		"delete": func(ctx context.Context, ts *Timers, key rouse.Key, _ rouse.Spec) error {
			_, err := ts.Delete(ctx, key, 0)
			return err
		},
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
		"patch": func(ctx context.Context, ts *Timers, key rouse.Key, s rouse.Spec) error {
			_, err := ts.Patch(ctx, key, PatchRequest{Change: func(rouse.Spec) (rouse.Spec, error) { return s, nil }})
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
			shared := access.NewShared(s, slog.New(slog.DiscardHandler))
			book := quota.New(s, shared, quota.Options{Node: func() string { return "n" }, Now: s.Now})
			limits := limit.New(shared, limit.Options{Now: s.Now, Unable: func() string { return "" }})
			ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil), Quotas: book,
				Check: func(ctx context.Context, namespace string, s *rouse.Spec) error {
					if err := limits.CheckUse(ctx, namespace, s); err != nil {
						return err
					}
					if namespace == "bare" || s.Retry.Timeout < time.Minute {
						return nil
					}
					return rouse.Refuse("webhook.headers", "{{secret:token}}", "is no secret of "+namespace, "set it")
				}})
			system := access.AsSystem(t.Context())
			own := rouse.Spec{Schedule: "@every 3h", Target: "stream:x", Retry: rouse.Retry{Timeout: time.Second}}
			for _, n := range []string{"bare", "strict"} {
				if _, err := book.Put(system, n, rouse.Quotas{}, rouse.NoRow); err != nil {
					t.Fatal(err)
				}
				if err := put(CreateOnly, false)(system, ts, rouse.Key{Namespace: n, Name: "there"}, own); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := limits.Put(system, rouse.Limit{Namespace: "strict", Name: "payments", Concurrency: 1}, rouse.NoRow); err != nil {
				t.Fatal(err)
			}
			strict := rouse.Quotas{MaxTimeout: time.Second, MinInterval: 2 * time.Hour, Creates: 1, Reads: 1}
			if _, err := book.Put(system, "strict", strict, rouse.AnyRevision); err != nil {
				t.Fatal(err)
			}
			stranger := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
				{Role: "admin", Scope: access.Scope{Namespaces: []string{"own"}}}}})
			for _, namespace := range []string{"bare", "strict", "absent", "strict", "strict"} {
				for _, timer := range []string{"a", "there"} {
					err := operation(stranger, ts, rouse.Key{Namespace: namespace, Name: timer}, spec("stream:x"))
					if !errors.Is(err, rouse.ErrForbidden) {
						t.Errorf("%s of %s in the namespace %s: %v", name, timer, namespace, err)
					}
				}
			}
			owner := access.With(t.Context(), &access.Principal{ID: "key:y", Grants: []access.Grant{
				{Role: "admin", Scope: access.Scope{Namespaces: []string{"strict"}}}}})
			if err := put(CreateOnly, false)(owner, ts, rouse.Key{Namespace: "strict", Name: "own"}, own); err != nil {
				t.Errorf("after %s by a stranger the owner's create is refused: %v", name, err)
			}
			if _, err := ts.Search(owner, rouse.Query{Namespace: "strict", Limit: 1}); err != nil {
				t.Errorf("after %s by a stranger the owner's search is refused: %v", name, err)
			}
		})
	}
}

// TestPreviewTellsSettingsToWritersOnly: how often timers of a namespace may come due is told to callers that
// may write timers there, or read its settings.
func TestPreviewTellsSettingsToWritersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		shared := access.NewShared(s, slog.New(slog.DiscardHandler))
		book := quota.New(s, shared, quota.Options{Node: func() string { return "n" }, Now: s.Now})
		control := access.NewControl(nil)
		roles := access.NewRoles(shared, control, access.NewKeys(shared, control, slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
		ts := running(t, s, rejecting(), Options{Access: control, Quotas: book})
		system := access.AsSystem(t.Context())
		if _, err := book.Put(system, "strict", rouse.Quotas{MinInterval: 2 * time.Hour}, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
		for role, verb := range map[string]access.Verb{"looks": access.TimersRead, "creates": access.TimersCreate, "moves": access.TimersReschedule, "settings": access.NamespacesRead} {
			if err := roles.Put(system, access.Role{Name: role, Verbs: []access.Verb{verb}}); err != nil {
				t.Fatal(err)
			}
		}
		in := func(role, namespace string) access.Grant {
			return access.Grant{Role: role, Scope: access.Scope{Namespaces: []string{namespace}}}
		}
		for what, c := range map[string]struct {
			more access.Grant
			told bool
		}{
			"only reads timers":          {in("looks", "strict"), false},
			"creates timers elsewhere":   {in("admin", "own"), false},
			"creates timers":             {in("creates", "strict"), true},
			"reschedules timers":         {in("moves", "strict"), true},
			"reads settings":             {in("settings", "strict"), true},
			"has a role of rouse's own":  {in("reader", "strict"), true},
			"reads settings elsewhere":   {in("settings", "own"), false},
			"reads settings of all":      {in("settings", "*"), true},
			"reads settings of a prefix": {in("settings", "st*"), true},
		} {
			ctx := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{in("looks", "strict"), c.more}})
			p, err := ts.Preview(ctx, rouse.Key{Namespace: "strict"}, rouse.Spec{Schedule: "@every 1h"}, 0, 1)
			if (err != nil) != c.told || err == nil && len(p.Next) != 1 {
				t.Errorf("a caller that %s: %+v, %v", what, p, err)
			}
		}
	})
}

func firstError(results []PutResult) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
