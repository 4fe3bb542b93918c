package front

import (
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// BenchmarkSync fills an empty index: one iteration is all rows.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			const rows = 100_000
			sql, redis := servers.Postgres(b), servers.StartRedis(b)
			o := fresh(unsafe)
			stores := make([]*Store, n)
			for i := range stores {
				stores[i] = ready(b, sql, redis.URL(), o, usual)
				defer stores[i].Close()
			}
			create(b, stores[0], "t", rows, rouse.At(time.Now().Add(time.Hour)))
			b.ResetTimer()
			for range b.N {
				id := stores[0].state.currentView().id
				if err := stores[0].index.client.FlushAll(b.Context()).Err(); err != nil {
					b.Fatal(err)
				}
				for _, s := range stores {
					s.suspendIndex(s.state.currentView(), errReplaced)
				}
				poll.Until(b, "the index is complete", func() bool { return mode(stores, WithIndex)() && stores[0].state.currentView().id != id })
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkClaim claims rows through the index, and from PostgreSQL alone.
func BenchmarkClaim(b *testing.B) {
	const rows, limit = 50_000, 1000
	s := ready(b, servers.Postgres(b), servers.Redis(b), fresh(unsafe), usual)
	defer s.Close()
	create(b, s, "t", rows, past)
	for _, c := range []struct {
		name  string
		store rouse.Timers
		w     rouse.Window
	}{
		{"idle/index", s, rouse.Window{Ahead: -24 * 365 * 20 * time.Hour}},
		{"idle/postgres", s.Store, rouse.Window{Ahead: -24 * 365 * 20 * time.Hour}},
		{"read/index", s, rouse.Window{}},
		{"read/postgres", s.Store, rouse.Window{}},
		{"hold/index", s, rouse.Window{Hold: time.Millisecond}},
		{"hold/postgres", s.Store, rouse.Window{Hold: time.Millisecond}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.w.Buckets, c.w.Limit = everyBucket, limit
			n := 0
			for range b.N {
				got, err := c.store.Claim(b.Context(), c.w)
				if err != nil {
					b.Fatal(err)
				}
				n += len(got.Rows)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkApply creates rows, with and without updates of the index.
func BenchmarkApply(b *testing.B) {
	s := ready(b, servers.Postgres(b), servers.Redis(b), fresh(unsafe), usual)
	defer s.Close()
	batches := 0
	for _, c := range []struct {
		name  string
		store rouse.Timers
	}{{"index", s}, {"postgres", s.Store}} {
		b.Run(c.name, func(b *testing.B) {
			const rows = 1000
			for range b.N {
				batches++
				create(b, c.store, fmt.Sprint("batch ", batches, "-"), rows, past)
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
