package timers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/store/mem"
)

// withRules starts timers in namespaces with rules for notices.
func withRules(t *testing.T, sink rouse.Sink, control *access.Control) (ts *Timers, book *quota.Book) {
	t.Helper()
	store := mem.New()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	book = quota.New(store, shared, quota.Options{Node: func() string { return "n" }, Now: store.Now, Access: control,
		CheckNotify: func(ctx context.Context, namespace string, rules []rouse.NotifyRule) error {
			return ts.Guarded().CheckNotifyRules(ctx, namespace, rules)
		}})
	ts = running(t, store, sink, Options{Access: control, Engine: engine.Options{NotifyRules: book.NotifyRules}})
	return ts, book
}

// TestNoticesOfRules: timers without notify of their own tell the target of the first rule of their namespace
// that matches, of failures, of their expectation, and of the recovery from both.
func TestNoticesOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		sink.answerWith("x:work", down)
		ts, book := withRules(t, sink, nil)
		put := func(rules ...rouse.NotifyRule) uint64 {
			t.Helper()
			n, err := book.PutNotify(t.Context(), "n", rules, rouse.AnyRevision)
			if err != nil {
				t.Fatal(err)
			}
			return n.Revision
		}
		billing := map[string]string{"team": "billing"}
		rules := []rouse.NotifyRule{
			{Labels: billing, Notify: rouse.Notify{Target: "x:pager-billing", After: 2, Format: rouse.FormatSlack}},
			{Notify: rouse.Notify{Target: "x:pager-all", Every: time.Hour}},
		}
		first := put(rules...)
		if again := put(rules...); again != first {
			t.Errorf("the same rules are written again, as %d after %d", again, first)
		}
		if n, err := book.Put(t.Context(), "n", rouse.Quotas{Timers: 100}, rouse.AnyRevision); err != nil || len(n.Notify) != 2 {
			t.Errorf("with a quota, the rules are %+v, %v", n.Notify, err)
		}
		spec := rouse.Spec{Schedule: "@every 10m", Target: "x:work"}
		made(t, ts, "any", spec)
		own := spec
		own.Notify = rouse.Notify{Target: "x:pager-own", Events: []string{"recovered"}}
		made(t, ts, "own", own)
		spec.Labels = billing
		made(t, ts, "bill", spec)
		spec.Labels, spec.Expect = map[string]string{"team": "other"}, rouse.Expect{Every: 25 * time.Minute}
		late := made(t, ts, "late", spec).Key

		time.Sleep(35 * time.Minute)
		sink.succeedAt("x:work")
		time.Sleep(2 * time.Hour)
		var got []string
		for _, n := range sink.takeNotices() {
			if text := cmpText(n); text != "" {
				got = append(got, fmt.Sprintf("%s: %s", n.target, text))
			}
		}
		slices.Sort(got)
		want := []string{
			"x:pager-all: any dead 0", "x:pager-all: any recovered 3", // dead twice more, and recovered, in its hour
			"x:pager-all: late dead 0", "x:pager-all: late overdue 0", "x:pager-all: late recovered 0", "x:pager-all: late recovered 3",
			"x:pager-billing: An occurrence of the timer n/bill has failed for good (rejected): down",
			"x:pager-billing: An occurrence of the timer n/bill has failed for good (rejected): down",
			"x:pager-billing: The timer n/bill has succeeded again.",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if tm, err := ts.Get(t.Context(), late); err != nil || tm.Notices.Alarmed || tm.Overdue != 0 {
			t.Errorf("left as %+v, overdue %v, %v", tm.Notices, tm.Overdue, err)
		}

		sink.answerWith("x:work", down)
		time.Sleep(11 * time.Minute)
		sink.takeNotices()
		put() // what was told before has no recovery then
		sink.succeedAt("x:work")
		time.Sleep(30 * time.Minute)
		for _, n := range sink.takeNotices() {
			if n.target != "x:pager-own" && n.Events == 0 {
				t.Errorf("without rules, %+v is told", n)
			}
		}
		if tm, err := ts.Get(t.Context(), late); err != nil || tm.Notices != (rouse.NoticeState{}) {
			t.Errorf("left as %+v, %v", tm.Notices, err)
		}
		if v := ts.Violations(); v.Total != 0 {
			t.Errorf("%+v", v)
		}
	})
}

// cmpText is what a notice tells.
func cmpText(n notice) string {
	if n.Event == "" {
		return n.Text
	}
	return fmt.Sprint(n.Name, " ", n.Event, " ", n.Events)
}

// TestRulesTellNothingOfNotices: a notice that nothing takes has no notice about it, and neither has its dead
// letter.
func TestRulesTellNothingOfNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &pager{}
		sink.answerWith("x:work", down)
		sink.answerWith("x:pager", down)
		ts, book := withRules(t, sink, nil)
		if _, err := book.PutNotify(t.Context(), "n", []rouse.NotifyRule{{Notify: rouse.Notify{Target: "x:pager"}}}, 0); err != nil {
			t.Fatal(err)
		}
		made(t, ts, "a", rouse.Spec{Schedule: "@after 1h", Target: "x:work"})
		time.Sleep(3 * time.Hour)
		if n, err := ts.store.Count(t.Context(), rouse.Query{States: []rouse.State{rouse.StateDead}}); err != nil || n != 2 {
			t.Errorf("%d dead letters, %v: not the occurrence and its notice", n, err)
		}
	})
}

// TestRulesThatAreRefused: rules that mean nothing, or that could run in a circle, change nothing, and
// neither do those of a caller that may not create each timer of the namespace.
func TestRulesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, book := withRules(t, &pager{}, access.NewControl(nil))
		as := func(role string, s access.Scope) context.Context {
			return access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{{Role: role, Scope: s}}})
		}
		root := as("admin", access.Scope{Namespaces: []string{"*"}})
		to := func(target string) rouse.NotifyRule { return rouse.NotifyRule{Notify: rouse.Notify{Target: target}} }
		own := access.Scope{Namespaces: []string{"n"}}
		if _, err := book.PutNotify(as("writer", own), "n", []rouse.NotifyRule{to("x:pager")}, rouse.AnyRevision); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("in a namespace that does not exist: %v", err)
		}
		kept, err := book.PutNotify(root, "n", []rouse.NotifyRule{to("x:kept")}, rouse.AnyRevision)
		if err != nil {
			t.Fatal(err)
		}
		many := make([]rouse.NotifyRule, rouse.MaxNotifyRules+1)
		for i := range many {
			many[i] = to("x:pager")
			many[i].Labels = map[string]string{"a": fmt.Sprint(i)}
		}
		labelled := to("x:pager")
		labelled.Labels = map[string]string{"a=": "b"}
		for name, c := range map[string]struct {
			field string
			rules []rouse.NotifyRule
		}{
			"many":     {"rules", many},
			"twice":    {"rules[1].labels", []rouse.NotifyRule{to("x:pager"), to("x:other")}},
			"nowhere":  {"rules[0].target", []rouse.NotifyRule{to("")}},
			"no sink":  {"rules[0].target", []rouse.NotifyRule{to("no:target")}},
			"a timer":  {"rules[0].target", []rouse.NotifyRule{to("timer:a")}},
			"a check":  {"rules[0].target", []rouse.NotifyRule{to(rouse.CheckTarget)}},
			"no event": {"rules[0].events", []rouse.NotifyRule{{Notify: rouse.Notify{Target: "x:pager", Events: []string{"x"}}}}},
			"no late":  {"rules[0].late", []rouse.NotifyRule{{Notify: rouse.Notify{Target: "x:pager", Events: []string{"late"}}}}},
			"no label": {"rules[0].labels", []rouse.NotifyRule{labelled}},
		} {
			var inv *rouse.Invalid
			if _, err := book.PutNotify(root, "n", c.rules, rouse.AnyRevision); !errors.As(err, &inv) || inv.Problems[0].Field != c.field {
				t.Errorf("%s: %v", name, err)
			}
		}
		one := []rouse.NotifyRule{to("x:pager")}
		for name, ctx := range map[string]context.Context{
			"a reader":           as("reader", own),
			"another namespace":  as("writer", access.Scope{Namespaces: []string{"o"}}),
			"one target":         as("writer", access.Scope{Namespaces: []string{"n"}, Targets: []string{"x:pager"}}),
			"timers with labels": as("writer", access.Scope{Namespaces: []string{"n"}, Labels: map[string]string{"a": "b"}}),
		} {
			if _, err := book.PutNotify(ctx, "n", one, rouse.AnyRevision); !errors.Is(err, rouse.ErrForbidden) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := book.PutNotify(root, "n", one, kept.Revision+1); !errors.Is(err, rouse.ErrConflict) {
			t.Errorf("of another revision: %v", err)
		}
		if is, _, err := book.Get(root, "n"); err != nil || is.Revision != kept.Revision || is.Notify[0].Target != "x:kept" {
			t.Errorf("left as %+v, %v", is, err)
		}
		if n, err := book.PutNotify(as("writer", own), "n", one, kept.Revision); err != nil || n.Notify[0].Target != "x:pager" {
			t.Errorf("by a writer: %+v, %v", n, err)
		}
	})
}
