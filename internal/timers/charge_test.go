package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/quota"
)

// TestEveryReadIsCharged: a tenant reaches the quota of its namespace by each operation that reads, whether
// it names the namespace or asks for all of them; operators of the whole store are not bound by the quotas of
// namespaces that they do not name.
func TestEveryReadIsCharged(t *testing.T) {
	forAll := map[string]func(ctx context.Context, ts *Timers, namespace string) error{
		"search": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Search(ctx, rouse.Query{Namespace: namespace, Limit: 1})
			return err
		},
		"list": func(ctx context.Context, ts *Timers, namespace string) error {
			_, _, err := ts.List(ctx, rouse.Query{Namespace: namespace, Limit: 1})
			return err
		},
		"records": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Records(ctx, rouse.RecordQuery{Namespace: namespace, Limit: 1})
			return err
		},
		"aggregate": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Aggregate(ctx, rouse.RecordQuery{Namespace: namespace}, "", 0)
			return err
		},
		"simulate": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Simulate(ctx, rouse.Query{Namespace: namespace}, 0, ts.Now().Add(time.Hour), 1)
			return err
		},
		"forecast": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Forecast(ctx, rouse.Query{Namespace: namespace}, 0, ts.Now().Add(time.Hour), time.Minute, "", nil)
			return err
		},
		"dry run": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := bulk(ctx, ts, BulkRequest{Action: "pause", Query: rouse.Query{Namespace: namespace}, DryRun: true})
			return err
		},
		"what a server has": func(ctx context.Context, ts *Timers, namespace string) error { return ts.ChargeRead(ctx, namespace) },
	}
	forOne := map[string]func(ctx context.Context, ts *Timers, namespace string) error{
		"count": func(ctx context.Context, ts *Timers, namespace string) error { // of a part of all it is refused in another way
			_, err := ts.Count(ctx, rouse.Query{Namespace: namespace})
			return err
		},
		"get": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Get(ctx, rouse.Key{Namespace: namespace, Name: "t0000"})
			return err
		},
		"explain": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Explain(ctx, rouse.Key{Namespace: namespace, Name: "t0000"}, 0)
			return err
		},
		"outcomes": func(ctx context.Context, ts *Timers, namespace string) error {
			_, err := ts.Outcomes(ctx, []rouse.Key{{Namespace: namespace, Name: "t0000"}}, 1)
			return err
		},
	}
	const most = 50 // more than the quota allows at once
	for _, c := range []struct {
		scope, namespace string
		refused          bool
		operations       []map[string]func(ctx context.Context, ts *Timers, namespace string) error
	}{
		{"n", "n", true, []map[string]func(context.Context, *Timers, string) error{forAll, forOne}},
		{"n", "", true, []map[string]func(context.Context, *Timers, string) error{forAll}},
		{"n*", "", true, []map[string]func(context.Context, *Timers, string) error{forAll}},
		{"*", "n", true, []map[string]func(context.Context, *Timers, string) error{forAll, forOne}},
		{"*", "", false, []map[string]func(context.Context, *Timers, string) error{forAll}},
	} {
		for _, list := range c.operations {
			for name, read := range list {
				synctest.Test(t, func(t *testing.T) {
					s := newJobStore()
					book := quota.New(s, access.NewShared(s, slog.New(slog.DiscardHandler)), quota.Options{Node: func() string { return "n" }, Now: s.Now})
					ts := running(t, s, rejecting(), Options{Access: access.NewControl(nil), Quotas: book})
					if _, err := book.Put(t.Context(), "n", rouse.Quotas{Reads: 1}, rouse.NoRow); err != nil {
						t.Fatal(err)
					}
					manyTimers(t, ts, 1, hourly)
					ctx := access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: "operator", Scope: access.Scope{Namespaces: []string{c.scope}}}}})
					var err error
					for i := 0; i < most && err == nil; i++ {
						err = read(ctx, ts, c.namespace)
					}
					if errors.Is(err, rouse.ErrQuota) != c.refused || err != nil && !c.refused {
						t.Errorf("%s of namespace %q by a caller of %q: %v", name, cmp.Or(c.namespace, "-"), c.scope, err)
					}
				})
			}
		}
	}
}

// TestKeysNeedRoom: requests that change a timer which exists, each with an Idempotency-Key of its own, are
// refused when their namespace has no more room for the notes of their keys. The same without a key, a
// repetition, and a delete go on.
func TestKeysNeedRoom(t *testing.T) {
	key := rouse.Key{Namespace: "n", Name: "t0000"}
	once := rouse.Spec{Schedule: "@after 1h", Target: "x:y"}
	for name, do := range map[string]func(ctx context.Context, ts *Timers, i int) error{
		"pause":  func(ctx context.Context, ts *Timers, _ int) error { _, err := ts.Pause(ctx, key, "", 0); return err },
		"resume": func(ctx context.Context, ts *Timers, _ int) error { _, err := ts.Resume(ctx, key); return err },
		"skip":   func(ctx context.Context, ts *Timers, _ int) error { _, err := ts.Skip(ctx, key, 1, ""); return err },
		"run":    func(ctx context.Context, ts *Timers, _ int) error { _, _, err := ts.RunNow(ctx, key); return err },
		"reschedule": func(ctx context.Context, ts *Timers, i int) error {
			_, err := ts.Reschedule(ctx, key, rouse.Spec{Schedule: fmt.Sprintf("@every %dh", 1+i%2)}, 0, false)
			return err
		},
		"patch": func(ctx context.Context, ts *Timers, i int) error {
			_, err := ts.Patch(ctx, key, PatchRequest{Change: func(s rouse.Spec) (rouse.Spec, error) {
				s.Schedule = fmt.Sprintf("@every %dh", 1+i%2)
				return s, nil
			}})
			return err
		},
		"debounce": func(ctx context.Context, ts *Timers, _ int) error {
			_, err := ts.Coalesce(ctx, rouse.Key{Namespace: "n", Name: "d"}, rouse.Spec{Target: "x:y"}, rouse.Coalesce{Quiet: time.Hour})
			return err
		},
		"replace": func(ctx context.Context, ts *Timers, _ int) error {
			res, err := ts.Put(ctx, []Put{{Key: rouse.Key{Namespace: "n", Name: "p"}, Spec: once, Mode: CreateOrReplace}})
			return cmp.Or(err, errorOf(res))
		},
		"bulk": func(ctx context.Context, ts *Timers, _ int) error {
			_, err := bulk(ctx, ts, BulkRequest{Action: "skip", Query: rouse.Query{Namespace: "n", Prefix: "none"}})
			return err
		},
		"another operation": func(ctx context.Context, ts *Timers, _ int) error {
			return ts.DoOnce(ctx, "n", []any{"it"}, func(context.Context) error { return nil })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newJobStore()
			book := quota.New(s, access.NewShared(s, slog.New(slog.DiscardHandler)), quota.Options{Node: func() string { return "n" }, Now: s.Now})
			ts := running(t, s, &fired{of: map[string]int{}}, Options{Quotas: book})
			if _, err := book.Put(t.Context(), "n", rouse.Quotas{Bytes: 10_000}, rouse.NoRow); err != nil {
				t.Fatal(err)
			}
			manyTimers(t, ts, 1, hourly)
			if err := do(t.Context(), ts, 0); err != nil {
				t.Fatal(name, err)
			}
			var err error
			i := 0
			for ; i < 1000 && err == nil; i++ {
				time.Sleep(5 * time.Second)
				err = do(asking(t, "me", fmt.Sprint(i)), ts, i)
			}
			if !errors.Is(err, rouse.ErrQuota) || !strings.Contains(err.Error(), "without one") || i < 10 {
				t.Fatalf("%s: request %d: %v", name, i, err)
			}
			notes, err := s.Count(t.Context(), rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateNote}})
			if err != nil || notes > 2*int64(i+2) { // a bulk change has its job, too
				t.Errorf("%s: %d requests were admitted, %d notes, %v", name, i-1, notes, err)
			}
			for what, ctx := range map[string]context.Context{"without a key": t.Context(), "repeated": asking(t, "me", "0")} {
				if err := do(ctx, ts, 0); err != nil {
					t.Errorf("%s %s: %v", name, what, err)
				}
			}
			if _, err := ts.Delete(asking(t, "me", "delete"), key, 0); err != nil {
				t.Errorf("a delete: %v", err)
			}
		})
	}
}

// TestAnswersOfTargetsAreNotFoundByBulkChanges without the right to see them, by a dry run and by a change.
func TestAnswersOfTargetsAreNotFoundByBulkChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, newJobStore(), rejecting(), Options{Access: access.NewControl(nil)})
		deadLetters(t, ts, 8, 4)
		operator := access.Grant{Role: "operator", Scope: access.Scope{Namespaces: []string{"n"}}}
		as := func(more ...access.Grant) context.Context {
			return access.With(t.Context(), &access.Principal{ID: "key:x", Grants: append(more, operator)})
		}
		for _, dry := range []bool{true, false} {
			for _, c := range []struct {
				what    string
				ctx     context.Context
				matched uint64
				refused bool
			}{
				{"an operator", as(), 0, true},
				{"one that may see what a target answered", as(access.Grant{Role: "writer", Scope: access.Scope{Namespaces: []string{"n"}, Targets: []string{"odd:1"}}}), 2, false},
				{"one that may see all", as(access.Grant{Role: "writer", Scope: access.Scope{Namespaces: []string{"n"}}}), 8, false},
			} {
				for _, namespace := range []string{"n", ""} {
					r := BulkRequest{Action: "redrive", Query: rouse.Query{Namespace: namespace}, ErrorContains: "no:", DryRun: dry}
					var p BulkProgress
					err := ts.Bulk(c.ctx, r, func(last BulkProgress) error { p = last; return nil })
					if p.Matched != c.matched || errors.Is(err, rouse.ErrForbidden) != c.refused || err != nil && !c.refused {
						t.Errorf("%s, dry run %v, namespace %q: %d found, %v; want %d", c.what, dry, namespace, p.Matched, err, c.matched)
					}
					time.Sleep(time.Minute) // what was redriven is dead again
				}
			}
		}
	})
}
