package limit_test

import (
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
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/store/mem"
)

// open returns the limits of a node on a store, which follow it until the test ends.
func open(t *testing.T, store rouse.Store, edit ...func(*limit.Options)) *limit.Book {
	t.Helper()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	o := limit.Options{Now: store.Now, Unable: func() string { return "" }, Alone: func() bool { return false }, Log: slog.New(slog.DiscardHandler)}
	for _, f := range edit {
		f(&o)
	}
	b := limit.New(shared, o)
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	go shared.Run(t.Context())
	go b.Run(t.Context())
	return b
}

func mustPut(t *testing.T, b *limit.Book, l rouse.Limit) rouse.Limit {
	t.Helper()
	l, err := b.Put(t.Context(), l, rouse.AnyRevision)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustBe(t *testing.T, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// mustRefuse fails unless an error refuses a field, with its value, what is wrong with it, and a cure.
func mustRefuse(t *testing.T, err error, field, value, wrong string) {
	t.Helper()
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok || len(inv.Problems) != 1 {
		t.Fatalf("%v refuses no field", err)
	}
	if p := inv.Problems[0]; p.Field != field || p.Value != value || !strings.Contains(p.Wrong, wrong) || p.Cure == "" {
		t.Errorf("%+v, want the field %s with %q: %s", p, field, value, wrong)
	}
}

func TestLimitsAreWrittenAndRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := open(t, mem.New()), t.Context()
		want := rouse.Limit{Namespace: "ns", Name: "mails", Concurrency: 3, Rate: rouse.LimitRate{Count: 5, Per: time.Minute, Burst: 2},
			PerKey: true, Order: rouse.OrderByDue, Paused: true}
		made, err := b.Put(ctx, want, rouse.NoRow)
		if err != nil {
			t.Fatal(err)
		}
		want.Updated, want.Revision = made.Updated, made.Revision
		if made != want || made.Revision == 0 || made.Updated == 0 {
			t.Errorf("made %+v, want %+v", made, want)
		}
		_, err = b.Put(ctx, want, rouse.NoRow)
		mustBe(t, rouse.ErrConflict, err)
		if again, err := b.Put(ctx, want, made.Revision); err != nil || again != made {
			t.Errorf("the same again is %+v, %v", again, err)
		}
		time.Sleep(time.Second)
		changed := want
		changed.Concurrency, changed.Rate, changed.Order = 4, rouse.LimitRate{}, ""
		less := changed
		less.PerKey, less.Paused = false, false // it stays as it is
		is, err := b.Put(ctx, less, made.Revision)
		changed.Updated, changed.Revision = made.Updated.Add(time.Second), is.Revision
		if err != nil || is != changed || is.Revision == made.Revision {
			t.Errorf("changed to %+v, %v, want %+v", is, err, changed)
		}
		_, err = b.Put(ctx, want, made.Revision)
		mustBe(t, rouse.ErrConflict, err)
		if got, err := b.Get(ctx, "ns", "mails"); err != nil || got != changed {
			t.Errorf("read %+v, %v", got, err)
		}
		mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "api", Concurrency: 1})
		_, err = b.Put(ctx, rouse.Limit{Namespace: "ns", Name: "api", Concurrency: 1, PerKey: true}, rouse.AnyRevision)
		mustRefuse(t, err, "per_key", "true", "is not what limit api was made with")
		mustPut(t, b, rouse.Limit{Namespace: "other", Name: "zoo", Concurrency: 1})
		list, err := b.List(ctx, "ns", "", 10)
		if err != nil || len(list) != 2 || list[0].Name != "api" || list[1] != is {
			t.Errorf("listed %+v, %v", list, err)
		}
		if list, err = b.List(ctx, "ns", "api", 10); err != nil || len(list) != 1 || list[0].Name != "mails" {
			t.Errorf("listed after api %+v, %v", list, err)
		}
		if b.Count("ns") != 2 || b.Count("none") != 0 {
			t.Errorf("there are %d and %d limits", b.Count("ns"), b.Count("none"))
		}
		if err := b.Delete(ctx, "ns", "mails"); err != nil {
			t.Error(err)
		}
		mustBe(t, rouse.ErrNotFound, b.Delete(ctx, "ns", "mails"))
		_, err = b.Get(ctx, "ns", "mails")
		mustBe(t, rouse.ErrNotFound, err)
		if b.Count("ns") != 1 {
			t.Errorf("there are %d limits", b.Count("ns"))
		}
		changed.Name = "mails"
		mustPut(t, b, changed) // per key it is no more: the one of before is gone
	})
}

// TestAPauseIsWrittenOnce: what is as it was asked for is not written, and no node hears of it.
func TestAPauseIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := open(t, mem.New()), t.Context()
		made := mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "a", Concurrency: 7})
		paused, err := b.Pause(ctx, "ns", "a", true)
		if err != nil || !paused.Paused || paused.Concurrency != 7 || paused.Revision == made.Revision {
			t.Errorf("paused %+v, %v", paused, err)
		}
		version := b.Version()
		if again, err := b.Pause(ctx, "ns", "a", true); err != nil || again != paused || b.Version() != version {
			t.Errorf("paused again %+v, %v, version %d, want %+v and %d", again, err, b.Version(), paused, version)
		}
		if resumed, err := b.Pause(ctx, "ns", "a", false); err != nil || resumed.Paused || resumed.Revision == paused.Revision {
			t.Errorf("resumed %+v, %v", resumed, err)
		}
		_, err = b.Pause(ctx, "ns", "none", true)
		mustBe(t, rouse.ErrNotFound, err)
	})
}

// TestNodesSeeChangesWithinASecond: once a node knows a limit; the first one of a store it sees within two.
func TestNodesSeeChangesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		one, two := open(t, store), open(t, store)
		mustPut(t, one, rouse.Limit{Namespace: "ns", Name: "first", Concurrency: 1})
		time.Sleep(access.RefreshEvery)
		synctest.Wait()
		if two.Count("ns") != 1 {
			t.Error("another node does not see the first limit")
		}
		seen := func(what string, want rouse.Limit) {
			t.Helper()
			version := two.Version()
			time.Sleep(time.Second)
			synctest.Wait()
			changed := two.Version() != version
			if l, _ := two.Limit("ns", "a"); l != want || !changed {
				t.Errorf("%s: another node has %+v, and its version changed: %t", what, l, changed)
			}
		}
		l := mustPut(t, one, rouse.Limit{Namespace: "ns", Name: "a", Concurrency: 2})
		seen("made", l)
		l.Concurrency = 1
		l = mustPut(t, one, l)
		seen("changed", l)
		l, err := one.Pause(t.Context(), "ns", "a", true)
		if err != nil {
			t.Fatal(err)
		}
		seen("paused", l)
		if err := one.Delete(t.Context(), "ns", "a"); err != nil {
			t.Fatal(err)
		}
		seen("deleted", rouse.Limit{})
		if two.Count("ns") != 1 {
			t.Errorf("another node counts %d limits", two.Count("ns"))
		}
	})
}

// TestANodeLooksForALimit: one that another node has just made is found at once when a timer names it, and
// one that does not exist bounds nothing. Until it was looked for, it is not known.
func TestANodeLooksForALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		one, two := open(t, store), open(t, store)
		made := mustPut(t, one, rouse.Limit{Namespace: "ns", Name: "made", Concurrency: 2})
		used := mustPut(t, one, rouse.Limit{Namespace: "ns", Name: "used", Concurrency: 1})
		if err := two.CheckUse(t.Context(), "ns", &rouse.Spec{Limit: "used"}); err != nil {
			t.Errorf("a node refuses a limit that another one has just made: %v", err)
		}
		if l, known := two.Limit("ns", "used"); !known || l != used {
			t.Errorf("a limit that a spec was checked with is %+v, %t", l, known)
		}
		for name, want := range map[string]rouse.Limit{"made": made, "none": {}} {
			version := two.Version()
			if l, known := two.Limit("ns", name); known || l.Revision != 0 {
				t.Errorf("%s is known before it was looked for: %+v", name, l)
			}
			synctest.Wait()
			if l, known := two.Limit("ns", name); !known || l != want || two.Version() == version {
				t.Errorf("%s is %+v, %t, with version %d after %d", name, l, known, two.Version(), version)
			}
		}
		later := mustPut(t, one, rouse.Limit{Namespace: "ns", Name: "none", Concurrency: 1})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l, known := two.Limit("ns", "none"); !known || l != later {
			t.Errorf("a limit that was made after it was looked for is %+v, %t", l, known)
		}
	})
}

func TestSpecsGoWithTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, mem.New())
		mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "together", Concurrency: 1})
		mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "apart", Concurrency: 1, PerKey: true})
		check := func(namespace string, s rouse.Spec) error { return b.CheckUse(t.Context(), namespace, &s) }
		for _, ok := range []rouse.Spec{{}, {Limit: "together"}, {Limit: "apart", LimitKey: "acme"}} {
			if err := check("ns", ok); err != nil {
				t.Errorf("%+v: %v", ok, err)
			}
		}
		mustRefuse(t, check("ns", rouse.Spec{Limit: "none"}), "limit", "none", "does not exist in namespace ns")
		mustRefuse(t, check("other", rouse.Spec{Limit: "together"}), "limit", "together", "does not exist in namespace other")
		mustRefuse(t, check("ns", rouse.Spec{Limit: "apart"}), "limit_key", "", "is missing")
		mustRefuse(t, check("ns", rouse.Spec{Limit: "together", LimitKey: "acme"}), "limit_key", "acme", "does not go with limit together")
	})
}

func TestLimitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, mem.New())
		for i := range rouse.MaxLimits {
			mustPut(t, b, rouse.Limit{Namespace: "ns", Name: fmt.Sprint("l", i), Concurrency: 1})
		}
		_, err := b.Put(t.Context(), rouse.Limit{Namespace: "ns", Name: "more", Concurrency: 1}, rouse.AnyRevision)
		mustBe(t, rouse.ErrFull, err)
		mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "l0", Concurrency: 2})
		mustPut(t, b, rouse.Limit{Namespace: "other", Name: "more", Concurrency: 1})
	})
}

// TestLimitsNeedNodesThatCountTogether: where they cannot, none is made; those that are there can go.
func TestLimitsNeedNodesThatCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		mustPut(t, open(t, store), rouse.Limit{Namespace: "ns", Name: "old", Concurrency: 1})
		b := open(t, store, func(o *limit.Options) { o.Unable = func() string { return "the strategy of its nodes is claim" } })
		_, err := b.Put(t.Context(), rouse.Limit{Namespace: "ns", Name: "a", Concurrency: 1}, rouse.AnyRevision)
		mustRefuse(t, err, "limit", "a", "the strategy of its nodes is claim")
		if err := b.Delete(t.Context(), "ns", "old"); err != nil {
			t.Error(err)
		}
	})
}

// TestAResetIsStored: it changes nothing else, each one is later than the one before, also by a clock that
// stands still, and a replacement of the limit keeps it.
func TestAResetIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := open(t, mem.New()), t.Context()
		made := mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "a", Rate: rouse.LimitRate{Count: 1, Per: time.Minute}})
		first, err := b.Reset(ctx, "ns", "a")
		want := made
		want.Reset, want.Revision, want.Updated = first.Updated, first.Revision, first.Updated
		if err != nil || first != want || first.Reset == 0 {
			t.Errorf("reset %+v, %v, want %+v", first, err, want)
		}
		second, err := b.Reset(ctx, "ns", "a")
		if err != nil || second.Reset <= first.Reset || second.Revision == first.Revision {
			t.Errorf("reset again %+v, %v", second, err)
		}
		if got, _ := b.Limit("ns", "a"); got != second {
			t.Errorf("the engine has %+v", got)
		}
		if got := mustPut(t, b, rouse.Limit{Namespace: "ns", Name: "a", Concurrency: 2}); got.Reset != second.Reset {
			t.Errorf("replaced: %+v", got)
		}
		_, err = b.Reset(ctx, "ns", "a")
		mustRefuse(t, err, "rate", "", "is missing: limit a has none to reset")
		_, err = b.Reset(ctx, "ns", "none")
		mustBe(t, rouse.ErrNotFound, err)
	})
}

// TestStrangersLearnNothingOfLimits: whether a limit exists is no different for callers without a right.
func TestStrangersLearnNothingOfLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, mem.New(), func(o *limit.Options) {
			o.Access, o.Unable = access.NewControl(nil), func() string { return "a reason" }
		})
		as := func(role, namespace string) context.Context {
			return access.With(t.Context(), &access.Principal{ID: "key:x", Grants: []access.Grant{
				{Role: role, Scope: access.Scope{Namespaces: []string{namespace}}}}})
		}
		calls := map[string]func(ctx context.Context, name string) error{
			"put": func(ctx context.Context, name string) error {
				_, err := b.Put(ctx, rouse.Limit{Namespace: "ns", Name: name, Concurrency: 1}, rouse.NoRow)
				return err
			},
			"pause":  func(ctx context.Context, name string) error { _, err := b.Pause(ctx, "ns", name, true); return err },
			"reset":  func(ctx context.Context, name string) error { _, err := b.Reset(ctx, "ns", name); return err },
			"delete": func(ctx context.Context, name string) error { return b.Delete(ctx, "ns", name) },
			"get":    func(ctx context.Context, name string) error { _, err := b.Get(ctx, "ns", name); return err },
			"list":   func(ctx context.Context, _ string) error { _, err := b.List(ctx, "ns", "", 1); return err },
		}
		for what, call := range calls {
			for _, name := range []string{"none", "there"} {
				mustBe(t, rouse.ErrForbidden, call(as("admin", "other"), name))
			}
			if what != "get" && what != "list" {
				mustBe(t, rouse.ErrForbidden, call(as("reader", "ns"), "there"))
			}
		}
		_, err := b.Get(as("reader", "ns"), "ns", "none")
		mustBe(t, rouse.ErrNotFound, err)
		mustRefuse(t, calls["put"](as("operator", "ns"), "a"), "limit", "a", "a reason")
	})
}

// TestLimitsOfTargets: nodes know them without a timer that names one, may have them with any strategy, and
// learn when those that wait already are to be held.
func TestLimitsOfTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := func(l *rouse.Limit) (int, float64) { return l.Concurrency / 2, 0.5 }
		unable := func(o *limit.Options) { o.Unable, o.Share = func() string { return "a reason" }, share }
		b := open(t, mem.New(), unable)
		const name = "target:api.example.com"
		if l, known := b.Limit("ns", name); !known || l.Revision != 0 || b.HasTargets("ns") {
			t.Errorf("before it is made: %+v, %t", l, known)
		}
		holds := b.Holds()
		changed := func(what string, want bool) {
			t.Helper()
			if now := b.Holds(); (now != holds) != want {
				t.Errorf("%s: those that wait are held: %t", what, now != holds)
			}
			holds = b.Holds()
		}
		made := mustPut(t, b, rouse.Limit{Namespace: "ns", Name: name, Concurrency: 8})
		changed("made", true)
		if l, known := b.Limit("ns", name); l != made || !known || !b.HasTargets("ns") || b.HasTargets("other") {
			t.Errorf("%+v, %t", l, known)
		}
		if most, part := b.Share("ns", name); most != 4 || part != 0.5 {
			t.Errorf("a share of %d and %v", most, part)
		}
		if list := b.Targets(); len(list) != 1 || list[0] != made || b.Count("ns") != 1 {
			t.Errorf("%+v", list)
		}
		mustPut(t, b, rouse.Limit{Namespace: "ns", Name: name, Concurrency: 9})
		changed("with more", false)
		for _, paused := range []bool{true, false} {
			if _, err := b.Pause(t.Context(), "ns", name, paused); err != nil {
				t.Error(err)
			}
			changed(fmt.Sprint("paused ", paused), paused)
		}
		if err := b.Delete(t.Context(), "ns", name); err != nil || b.HasTargets("ns") || b.Targets() != nil {
			t.Errorf("deleted: %v", err)
		}
	})
}
