package pebble

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/rousehq/rouse"
)

// The benchmarks write rows of 200 bytes in batches, and for comparison the same keys and values directly
// into Pebble with the same settings. The difference is the overhead of this package. Each iteration is one
// row.
//
//	go test -run '^$' -bench . -benchtime 400000x

const benchBatch = 1000

func benchRows(n int, at rouse.Instant, spread int) []rouse.Row {
	rows := make([]rouse.Row, n)
	for i := range rows {
		body := make([]byte, 160)
		for j := 0; j < len(body)/2; j += 8 {
			binary.LittleEndian.PutUint64(body[j:], rand.Uint64())
		}
		due := at + rouse.Instant(rand.IntN(spread))
		rows[i] = rouse.Row{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("%020x", rand.Uint64())}, Visible: due, Due: due, State: rouse.StateScheduled, Body: body}
	}
	return rows
}

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// openRaw opens Pebble as this package does, but without the checks of the log and the disk.
func openRaw(b *testing.B) *lsm.DB {
	b.Helper()
	s := newStore(vfs.Default, b.TempDir(), Options{}.withDefaults())
	db, err := lsm.Open(b.TempDir(), s.pebbleOptions(Options{}.withDefaults(), true))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// cpu returns the CPU time of the process. Unlike the rate, it hardly depends on the load of the machine.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// inBatches calls do for b.N rows in batches; creating the batches is not measured.
func inBatches(b *testing.B, do func(rows []rouse.Row)) {
	var n int
	var used time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for n < b.N {
		b.StopTimer()
		rows := benchRows(benchBatch, rouse.Reached(time.Now())+100, 30*24*3600*1000)
		began := cpu()
		b.StartTimer()
		do(rows)
		used += cpu() - began
		n += len(rows)
	}
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(used)/1e3/float64(n), "cpu-µs/row")
}

func BenchmarkCreate(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s := openBench(b)
		inBatches(b, func(rows []rouse.Row) {
			if _, err := s.Apply(b.Context(), creates(rows)); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		db := openRaw(b)
		inBatches(b, func(rows []rouse.Row) { rawCreate(b, db, rows) })
	})
}

// BenchmarkPipeline creates rows that are due, reads them behind a cursor, and deletes them.
func BenchmarkPipeline(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s := openBench(b)
		var after rouse.Position
		inBatches(b, func(rows []rouse.Row) {
			soon(rows)
			if _, err := s.Apply(b.Context(), creates(rows)); err != nil {
				b.Fatal(err)
			}
			batch, err := s.Claim(b.Context(), rouse.Window{Buckets: []uint32{0}, After: after, Ahead: time.Hour, Limit: benchBatch})
			if err != nil || len(batch.Rows) != benchBatch {
				b.Fatal(len(batch.Rows), err)
			}
			after = batch.Rows[benchBatch-1].Position()
			changes := make([]rouse.Change, benchBatch)
			for i := range batch.Rows {
				changes[i] = rouse.Change{Key: batch.Rows[i].Key, If: batch.Rows[i].Revision}
			}
			if _, err := s.Apply(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		db := openRaw(b)
		var from []byte
		inBatches(b, func(rows []rouse.Row) {
			soon(rows)
			rawCreate(b, db, rows)
			it, err := db.NewIter(&lsm.IterOptions{LowerBound: append(from, tagDue), UpperBound: []byte{tagDue + 1}})
			if err != nil {
				b.Fatal(err)
			}
			batch, n := db.NewBatch(), 0
			for it.First(); it.Valid() && n < benchBatch; it.Next() {
				key := it.Key()
				from = append(append(from[:0], key...), 0)
				_ = batch.Delete(key, nil)
				_ = batch.Delete(append([]byte{tagKey}, key[dueHead:]...), nil)
				n++
			}
			if err := it.Close(); err != nil || n != benchBatch {
				b.Fatal(n, err)
			}
			from = from[:len(from)-1]
			if err := batch.Commit(lsm.Sync); err != nil {
				b.Fatal(err)
			}
		})
	})
}

var benchClock rouse.Instant = 1_750_000_000_000

// soon makes the rows due, after all previous ones.
func soon(rows []rouse.Row) {
	for i := range rows {
		benchClock++
		rows[i].Visible, rows[i].Due = benchClock, benchClock
	}
}

func creates(rows []rouse.Row) []rouse.Change {
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, To: &rows[i]}
	}
	return changes
}

func rawCreate(b *testing.B, db *lsm.DB, rows []rouse.Row) {
	batch := db.NewBatch()
	for i := range rows {
		r := &rows[i]
		value := appendHead(nil, r.State, uint64(i), uint64(i), r.Due, nil)
		_ = batch.Set(appendDueKey(nil, r.Bucket, r.Visible, r.Key), append(value, r.Body...), nil)
		_ = batch.Set(appendKeyKey(nil, r.Key), appendPlace(value, r.Bucket, r.Visible), nil)
	}
	if err := batch.Commit(lsm.Sync); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLife creates rows and, 40 batches later, deletes them and writes their records: what each commit
// of a loaded node has.
func BenchmarkLife(b *testing.B) {
	s := openBench(b)
	var waiting [][]rouse.Row
	inBatches(b, func(rows []rouse.Row) {
		soon(rows)
		changes := creates(rows)
		if waiting = append(waiting, rows); len(waiting) > 40 {
			for i := range waiting[0] {
				r := &waiting[0][i]
				changes = append(changes, rouse.Change{Key: r.Key, If: r.Revision, Log: []rouse.Record{{Namespace: r.Key.Namespace, Name: r.Key.Name,
					Generation: r.Revision, Ending: rouse.EndFired, Due: r.Due, Ended: r.Due, Attempts: 1}}})
			}
			waiting = waiting[1:]
		}
		results, err := s.Apply(b.Context(), changes)
		if err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			if !results[i].Applied || len(results) > benchBatch && !results[benchBatch+i].Applied {
				b.Fatal("a change was not made")
			}
			rows[i].Revision = results[i].Revision
		}
	})
}
