package job

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

func of(r Ref) *schedulerv1.JobMetadata {
	m := &schedulerv1.JobMetadata{Namespace: r.Namespace, AppId: r.App, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
	if r.Actor {
		m.AppId = "other"
		m.Target.Type = &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: r.Type, Id: r.ID}}
	}
	return m
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		ref             Ref
		namespace, name string
		target          string
	}{
		{Ref{Namespace: "default", App: "orders", Name: "nightly"}, "dapr.default", "job/orders/nightly", "dapr:job/orders"},
		{Ref{Namespace: "default", Actor: true, Type: "Cart", ID: "7", Name: "expire"}, "dapr.default", "actor/Cart/7/expire", "dapr:actor/Cart"},
		{Ref{Namespace: "a||b", App: "x||y", Name: ""}, "dapr_55jx3wieyfpjh6yuupmgpchcrszghqxdvr6dg6yfwz6dlgkrsjma", "job/x||y/", "dapr:job/x||y"},
		{Ref{Namespace: "n", App: "a b", Name: " .. "}, "dapr.n", `job/a\20b/\20..\20`, `dapr:job/a\20b`},
		{Ref{Namespace: "n", App: "ü\u202e€", Name: "名"}, "dapr.n", `job/ü\E2\80\AE€/名`, `dapr:job/ü\E2\80\AE€`},
	} {
		key := c.ref.Key()
		if len(c.namespace) < 50 && key.Namespace != c.namespace || key.Name != c.name || c.ref.Target() != c.target {
			t.Errorf("%+v has the key %+v and the target %s", c.ref, key, c.ref.Target())
		}
		if rouse.CheckNamespace(key.Namespace) != nil || rouse.CheckName(key.Name) != nil || CheckTarget(c.ref.Target()) != nil {
			t.Errorf("%+v has a key or a target that is refused", c.ref)
		}
		if got, err := Of(c.ref.Name, of(c.ref)); err != nil || got != c.ref {
			t.Errorf("%+v became %+v, %v", c.ref, got, err)
		}
	}
}

func TestRefusedNames(t *testing.T) {
	long := strings.Repeat("x", MaxKey-len("app||n||a||"))
	if _, err := Of(long, of(Ref{Namespace: "n", App: "a"})); err != nil {
		t.Errorf("the longest key: %v", err)
	}
	for name, c := range map[string]struct {
		name string
		m    *schedulerv1.JobMetadata
	}{
		"no metadata":  {"n", nil},
		"no namespace": {"n", of(Ref{App: "a"})},
		"no app":       {"n", of(Ref{Namespace: "n"})},
		"no target":    {"n", &schedulerv1.JobMetadata{Namespace: "n", AppId: "a", Target: &schedulerv1.JobTargetMetadata{}}},
		"no targets":   {"n", &schedulerv1.JobMetadata{Namespace: "n", AppId: "a"}},
		"slash":        {"a/b", of(Ref{Namespace: "n", App: "a"})},
		"backslash":    {`a\b`, of(Ref{Namespace: "n", App: "a"})},
		"hash":         {"a#b", of(Ref{Namespace: "n", App: "a"})},
		"question":     {"a?b", of(Ref{Namespace: "n", App: "a"})},
		"newline":      {"a\nb", of(Ref{Namespace: "n", App: "a"})},
		"NUL":          {"a\x00b", of(Ref{Namespace: "n", App: "a"})},
		"C1":           {"a\u0085b", of(Ref{Namespace: "n", App: "a"})},
		"in the app":   {"n", of(Ref{Namespace: "n", App: "a/b"})},
		"in the ns":    {"n", of(Ref{Namespace: "n/m", App: "a"})},
		"in the type":  {"n", of(Ref{Namespace: "n", Actor: true, Type: "a/b"})},
		"in the id":    {"n", of(Ref{Namespace: "n", Actor: true, Type: "a", ID: "#"})},
		"too long":     {long + "x", of(Ref{Namespace: "n", App: "a"})},
	} {
		var inv *rouse.Invalid
		if _, err := Of(c.name, c.m); !errors.As(err, &inv) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// part generates a part of a ref: short and of few characters, so that refs are often similar, or long.
func part(t *rapid.T, label string) string {
	alphabet := []rune{'a', 'b', '|', ' ', '~', '.', 'é', '\u2028', '2', '0', '\u200b', '\u0301', '\u212b', '\ufdd0', '\u2003'}
	if rapid.IntRange(0, 9).Draw(t, label+" is long") == 0 {
		return strings.Repeat(string(rapid.SampledFrom(alphabet).Draw(t, label+" of")), rapid.IntRange(40, 160).Draw(t, label+" length"))
	}
	return rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 6, -1).Draw(t, label)
}

func drawRef(t *rapid.T) Ref {
	r := Ref{Namespace: "n" + part(t, "namespace"), Actor: rapid.Bool().Draw(t, "actor"), Name: part(t, "name")}
	if r.Actor {
		r.Type, r.ID = "t"+part(t, "type"), part(t, "id")
	} else {
		r.App = "a" + part(t, "app")
	}
	return r
}

// Different refs have different keys, whatever their parts are, and a scan finds the jobs that match.
func TestKeysDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refs := rapid.SliceOfN(rapid.Custom(drawRef), 2, 20).Draw(t, "refs")
		refs = slices.DeleteFunc(refs, func(r Ref) bool {
			_, err := Of(r.Name, of(r))
			return err != nil
		})
		byKey := map[rouse.Key]Ref{}
		for _, r := range refs {
			key := r.Key()
			if other, taken := byKey[key]; taken && other != r {
				t.Fatalf("%+v and %+v have the key %+v", r, other, key)
			}
			byKey[key] = r
			if err := errors.Join(rouse.CheckNamespace(key.Namespace), rouse.CheckName(key.Name), CheckTarget(r.Target())); err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
		}
		for _, within := range refs {
			for _, m := range []Match{All, Begins, Similar} {
				for _, r := range refs {
					if within.Meant(m, r) && (r.Key().Namespace != Namespace(within.Namespace) || !strings.HasPrefix(r.Key().Name, within.Scan(m))) {
						t.Fatalf("%+v is meant by %+v (%d), whose scan for %q does not find %q", r, within, m, within.Scan(m), r.Key().Name)
					}
				}
			}
		}
	})
}

// Names that are too long for a timer stay distinct, and are found.
func TestLongKeys(t *testing.T) {
	long := strings.Repeat("é", 150)
	keys := map[rouse.Key]bool{}
	for _, name := range []string{long, long + "a", long + "b"} {
		r := Ref{Namespace: "n", Actor: true, Type: "t", ID: "i", Name: name}
		keys[r.Key()] = true
		if len(r.Key().Name) > rouse.MaxName || !strings.HasPrefix(r.Key().Name, r.Scan(Begins)) {
			t.Errorf("%q, with %d bytes, is scanned for as %q", r.Key().Name, len(r.Key().Name), r.Scan(Begins))
		}
	}
	if len(keys) != 3 {
		t.Errorf("3 names have %d keys", len(keys))
	}
}

func TestMeant(t *testing.T) {
	job := func(app, name string) Ref { return Ref{Namespace: "n", App: app, Name: name} }
	actor := func(typ, id, name string) Ref { return Ref{Namespace: "n", Actor: true, Type: typ, ID: id, Name: name} }
	all := []Ref{job("a", "x"), job("a", "xy"), job("ab", "x"), actor("a", "1", "x"), actor("a", "12", "xy"), actor("a", "2", "z"), actor("ab", "1", "x")}
	for _, c := range []struct {
		within Ref
		match  Match
		want   []int
	}{
		{job("a", ""), All, []int{0, 1}},
		{job("a", "xy"), Begins, []int{1}},
		{job("a", ""), Begins, []int{0, 1}},
		{job("a", ""), Similar, []int{0, 1, 2}},
		{actor("a", "", ""), All, []int{3, 4, 5}},
		{actor("a", "1", ""), All, []int{3}},
		{actor("a", "1", ""), Similar, []int{3, 4}},
		{actor("a", "", ""), Similar, []int{3, 4, 5}},
		{actor("a", "12", "x"), Begins, []int{4}},
		{actor("a", "12", "z"), Begins, nil},
	} {
		var got []int
		for i, r := range all {
			if c.within.Meant(c.match, r) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v, %d means %v, want %v", c.within, c.match, got, c.want)
		}
	}
}
