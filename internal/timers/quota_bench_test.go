package timers

import (
	"log/slog"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/store/mem"
)

// BenchmarkAdmission measures what quotas add to the create of one timer: without namespaces, in one without
// quotas, and in one with all of them.
func BenchmarkAdmission(b *testing.B) {
	store := mem.New()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	book := quota.New(store, shared, quota.Options{Node: func() string { return "n" }, Now: store.Now})
	for name, q := range map[string]rouse.Quotas{"free": {}, "bounded": {Timers: 1 << 40, Bytes: 1 << 40, DeadLetters: 1 << 40, Overlaps: 1 << 40, PoolGroups: 1 << 40,
		Creates: 1e9, Fires: 1e9, Reads: 1e9, MinInterval: 1, ScheduleCost: 2000}} {
		if _, err := book.Put(b.Context(), name, q, rouse.NoRow); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, namespace string
		quotas          Quotas
	}{{"off", "other", nil}, {"no namespace", "other", book}, {"no quotas", "free", book}, {"all quotas", "bounded", book}} {
		b.Run(c.name, func(b *testing.B) {
			a := admission{quotas: c.quotas, store: store}
			key := rouse.Key{Namespace: c.namespace, Name: "name"}
			row := rouse.Row{Key: key, Body: make([]byte, 300)}
			puts := []Put{{Key: key, Spec: rouse.Spec{Schedule: "@after 1h"}}}
			items := []*engine.Write{{Change: rouse.Change{Key: key, To: &row}}}
			results := make([]PutResult, 1)
			for b.Loop() {
				if err := a.checkRecurrence(c.namespace, &puts[0].Spec, 0, nil, true); err != nil {
					b.Fatal(err)
				}
				if kept, _, err := a.admitPuts(b.Context(), puts, items, []int{0}, results); err != nil || len(kept) != 1 {
					b.Fatal(kept, err)
				}
			}
		})
	}
}
