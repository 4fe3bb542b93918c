package postgres

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// The benchmarks write rows of about 200 bytes in batches, and for comparison the same rows with a plain
// statement (raw): an unnest into a table with the same columns and indexes. The difference is the overhead
// of this package. Each iteration is one row. The server syncs; it is started for the benchmarks, or given by
// ROUSE_BENCH_POSTGRES.
//
//	go test -run '^$' -bench . -benchtime 200000x ./store/postgres

const benchBatch = 1000

var benchClock rouse.Instant = 1_750_000_000_000

// benchRows creates rows that are due one after another.
func benchRows() []rouse.Row {
	rows := make([]rouse.Row, benchBatch)
	for i := range rows {
		body := make([]byte, 160)
		for j := 0; j < len(body)/2; j += 8 {
			binary.LittleEndian.PutUint64(body[j:], rand.Uint64())
		}
		benchClock++
		rows[i] = rouse.Row{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("%020x", rand.Uint64())}, Bucket: rand.Uint32N(256), Visible: benchClock,
			Due: benchClock, State: rouse.StateScheduled, Body: body}
	}
	return rows
}

// inBatches measures do, called with batches.
func inBatches(b *testing.B, do func(rows []rouse.Row)) {
	n := 0
	b.ResetTimer()
	for n < b.N {
		b.StopTimer()
		rows := benchRows()
		b.StartTimer()
		do(rows)
		n += len(rows)
	}
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

func openBench(b *testing.B) *Store {
	b.Helper()
	url := os.Getenv("ROUSE_BENCH_POSTGRES")
	if url == "" {
		url = servers.StartPostgres(b, "shared_buffers=256MB", "max_wal_size=2GB").URL()
	}
	if err := Migrate(b.Context(), url, Options{}, 0); err != nil {
		b.Fatal(err)
	}
	s := openTest(b, url, Options{})
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func benchCreates(rows []rouse.Row) []rouse.Change {
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, To: &rows[i]}
	}
	return changes
}

func benchApply(b *testing.B, s *Store, changes []rouse.Change) {
	b.Helper()
	results, err := s.Apply(b.Context(), changes)
	if err != nil || !results[0].Applied {
		b.Error(results, err)
	}
}

func settles(rows []rouse.Row, log bool) []rouse.Change {
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, If: rows[i].Revision}
		if log {
			changes[i].Log = []rouse.Record{{Namespace: rows[i].Key.Namespace, Name: rows[i].Key.Name, Ending: rouse.EndFired, Due: rows[i].Due, Attempts: 1,
				Code: 200, Sent: rows[i].Due, Ended: rows[i].Due}}
		}
	}
	return changes
}

func allBuckets() []uint32 {
	out := make([]uint32, 256)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

func BenchmarkCreate(b *testing.B) {
	s := openBench(b)
	b.Run("store", func(b *testing.B) {
		inBatches(b, func(rows []rouse.Row) { benchApply(b, s, benchCreates(rows)) })
	})
	b.Run("raw", func(b *testing.B) {
		raw := newRaw(b, s)
		inBatches(b, raw.create)
	})
}

// BenchmarkOwned creates due rows, reads them behind a cursor, and deletes them, with and without a record
// for each: one node that does one step after the other, and two nodes that own half of the buckets each.
func BenchmarkOwned(b *testing.B) {
	for _, nodes := range []int{1, 2} {
		for _, log := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/records=%v", nodes, log), func(b *testing.B) {
				s := openBench(b)
				work := make([][]rouse.Row, (b.N+benchBatch-1)/benchBatch)
				for i := range work {
					work[i] = benchRows()
					for j := range work[i] {
						work[i][j].Bucket = uint32(i % nodes)
					}
				}
				b.ResetTimer()
				var wg sync.WaitGroup
				for node := range nodes {
					wg.Go(func() {
						var after rouse.Position
						for i := node; i < len(work); i += nodes {
							benchApply(b, s, benchCreates(work[i]))
							batch, err := s.Claim(b.Context(), rouse.Window{Buckets: []uint32{uint32(node)}, After: after, Ahead: time.Hour, Limit: benchBatch})
							if err != nil || len(batch.Rows) != benchBatch {
								b.Error(len(batch.Rows), err)
								return
							}
							after = batch.Rows[benchBatch-1].Position()
							benchApply(b, s, settles(batch.Rows, log))
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(len(work)*benchBatch)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// BenchmarkHeld does the same with holds.
func BenchmarkHeld(b *testing.B) {
	s := openBench(b)
	inBatches(b, func(rows []rouse.Row) {
		benchApply(b, s, benchCreates(rows))
		batch, err := s.Claim(b.Context(), rouse.Window{Buckets: allBuckets(), Hold: time.Hour, Limit: benchBatch})
		if err != nil || len(batch.Rows) != benchBatch {
			b.Fatal(len(batch.Rows), err)
		}
		benchApply(b, s, settles(batch.Rows, false))
	})
}

// BenchmarkRead reads due rows of all buckets, and of a third of them.
func BenchmarkRead(b *testing.B) {
	s := openBench(b)
	for range 100 {
		benchApply(b, s, benchCreates(benchRows()))
	}
	third := []uint32{}
	for i := uint32(0); i < 256; i += 3 {
		third = append(third, i)
	}
	for name, buckets := range map[string][]uint32{"all": allBuckets(), "third": third} {
		b.Run(name, func(b *testing.B) {
			var after rouse.Position
			n := 0
			for n < b.N {
				batch, err := s.Claim(b.Context(), rouse.Window{Buckets: buckets, After: after, Limit: benchBatch})
				if err != nil {
					b.Fatal(err)
				}
				n += len(batch.Rows)
				if after = (rouse.Position{}); batch.More {
					after = batch.Rows[len(batch.Rows)-1].Position()
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// raw is PostgreSQL with the table and connection of this package, and nothing else.
type raw struct {
	b *testing.B
	s *Store
}

func newRaw(b *testing.B, s *Store) *raw {
	b.Helper()
	text := `DROP TABLE IF EXISTS ` + s.sql.schema + `.raw; CREATE TABLE ` + s.sql.schema + `.raw (LIKE ` + s.sql.schema + `.timers INCLUDING ALL)`
	for _, t := range []string{text[:len(`DROP TABLE IF EXISTS `+s.sql.schema+`.raw`)], text[len(`DROP TABLE IF EXISTS `+s.sql.schema+`.raw; `):]} {
		if err := s.callTimers(b.Context(), []*call{newCall(t)}, nil); err != nil {
			b.Fatal(err)
		}
	}
	return &raw{b, s}
}

func (r *raw) create(rows []rouse.Row) {
	buckets, visibles, revisions, states := newInt8Array(len(rows)), newInt8Array(len(rows)), newInt8Array(len(rows)), newInt2Array(len(rows))
	namespaces, names, fires, bodies := newTextArray(len(rows), 16), newTextArray(len(rows), 32), newTextArray(len(rows), 0), newByteaArray(len(rows), 160)
	for i := range rows {
		w := &rows[i]
		buckets.appendInt8(int64(w.Bucket))
		visibles.appendInt8(int64(w.Visible))
		revisions.appendInt8(int64(i))
		states.appendInt2(int(w.State))
		namespaces.appendString(w.Key.Namespace)
		names.appendString(w.Key.Name)
		fires.appendString(w.Key.Fire)
		bodies.appendBytea(w.Body)
	}
	c := newCall(`INSERT INTO ` + r.s.sql.schema + `.raw (bucket, visible, revision, generation, due, xid, state, namespace, name, fire, body)
		SELECT b, v, r, r, v, 0, s, n, m, f, y FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::bytea[]) u(b, v, r, s, n, m, f, y)`)
	for _, a := range []*array{buckets, visibles, revisions, states, namespaces, names, fires, bodies} {
		c.addArray(a)
	}
	if err := r.s.callTimers(r.b.Context(), []*call{c}, nil); err != nil {
		r.b.Fatal(err)
	}
}
