package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// fill schedules jobs of apps and of actors whose ids have common prefixes.
func fill(h *harness) {
	for _, id := range []string{"a", "ab"} {
		for _, name := range []string{"x", "xy", "z"} {
			h.put(app(id), name, due("1h"))
		}
	}
	for _, typ := range []string{"T", "TU"} {
		for _, id := range []string{"1", "12", "2"} {
			for _, name := range []string{"x", "xy"} {
				h.put(actor(typ, id), name, due("1h"))
			}
		}
	}
}

func TestLists(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		fill(h)
		elsewhere := app("a")
		elsewhere.Namespace = "elsewhere"
		h.put(elsewhere, "other", due("1h"))
		for _, c := range []struct {
			m    *schedulerv1.JobMetadata
			want []string
		}{
			{app("a"), []string{"x", "xy", "z"}},
			{app("other"), nil},
			{elsewhere, []string{"other"}},
			{actor("T", "1"), []string{"1/x", "1/xy"}},
			{actor("T", ""), []string{"1/x", "1/xy", "12/x", "12/xy", "2/x", "2/xy"}},
		} {
			if got := h.list(c.m); !slices.Equal(got, c.want) {
				t.Errorf("%v has %q, want %q", c.m, got, c.want)
			}
		}
	})
}

func TestDeleteMany(t *testing.T) {
	begins := func(m *schedulerv1.JobMetadata, prefix string) func(h *harness) error {
		return func(h *harness) error {
			_, err := h.DeleteByNamePrefix(h.t.Context(), &schedulerv1.DeleteByNamePrefixRequest{NamePrefix: prefix, Metadata: m})
			return err
		}
	}
	all := func(m *schedulerv1.JobMetadata, similar bool) func(h *harness) error {
		return func(h *harness) error {
			_, err := h.DeleteByMetadata(h.t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: m, IdPrefixMatch: proto.Bool(similar)})
			return err
		}
	}
	jobs := []string{"x", "xy", "z"}
	reminders := []string{"1/x", "1/xy", "12/x", "12/xy", "2/x", "2/xy"}
	for name, c := range map[string]struct {
		do      func(h *harness) error
		a, ab   []string
		one, tu []string // reminders of type T, and of type TU
	}{
		"an app":                     {all(app("a"), false), nil, jobs, reminders, reminders},
		"apps":                       {all(app("a"), true), nil, nil, reminders, reminders},
		"an actor":                   {all(actor("T", "1"), false), jobs, jobs, reminders[2:], reminders},
		"actors":                     {all(actor("T", "1"), true), jobs, jobs, reminders[4:], reminders},
		"a type":                     {all(actor("T", ""), false), jobs, jobs, nil, reminders},
		"a type, with a prefix":      {all(actor("T", ""), true), jobs, jobs, nil, reminders},
		"an app's by prefix":         {begins(app("a"), "xy"), []string{"x", "z"}, jobs, reminders, reminders},
		"an app's by no prefix":      {begins(app("a"), ""), nil, jobs, reminders, reminders},
		"an actor's by prefix":       {begins(actor("T", "1"), "x"), jobs, jobs, reminders[2:], reminders},
		"what is not there":          {all(app("other"), false), jobs, jobs, reminders, reminders},
		"what is not there, by name": {begins(app("a"), "nothing"), jobs, jobs, reminders, reminders},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, openPebble(t, t.TempDir()))
			fill(h)
			if err := c.do(h); err != nil {
				t.Fatal(err)
			}
			for _, l := range []struct {
				m    *schedulerv1.JobMetadata
				want []string
			}{{app("a"), c.a}, {app("ab"), c.ab}, {actor("T", ""), c.one}, {actor("TU", ""), c.tu}} {
				if got := h.list(l.m); !slices.Equal(got, l.want) {
					t.Errorf("%v has %q, want %q", l.m, got, l.want)
				}
			}
		})
	}
}

// More than one page, with some triggers being sent.
func TestManyPages(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		const n = page + page/2
		w := h.watch(jobsOf("a"))
		for i := range n {
			when := "1h"
			if i%10 == 0 {
				when = "1ms"
			}
			h.put(app("a"), fmt.Sprintf("j%05d", i), due(when))
		}
		for range n / 10 {
			w.next()
		}
		if got := len(h.list(app("a"))); got != n {
			t.Errorf("%d are listed, want %d", got, n)
		}
		if _, err := h.DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: app("a")}); err != nil {
			t.Fatal(err)
		}
		if got := len(h.list(app("a"))); got != 0 {
			t.Errorf("%d are listed after all were deleted", got)
		}
		w.cut()
		h.put(app("a"), "last", due("1ms"))
		h.watch(jobsOf("a")).want("last") // none of those that were deleted while being sent
	})
}
