package sqlite

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rousehq/rouse"
)

// The benchmarks write rows of 200 bytes in batches, and for comparison the same rows directly into SQLite
// with the same tables and settings. The difference is the overhead of this package. Each iteration is one
// row.
//
//	go test -run '^$' -bench . -benchtime 100000x

const benchBatch = 1000

var benchClock rouse.Instant = 1_750_000_000_000

func benchRows() []rouse.Row {
	rows := make([]rouse.Row, benchBatch)
	for i := range rows {
		body := make([]byte, 160)
		for j := 0; j < len(body)/2; j += 8 {
			binary.LittleEndian.PutUint64(body[j:], rand.Uint64())
		}
		benchClock++
		rows[i] = rouse.Row{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("%020x", rand.Uint64())}, Visible: benchClock, Due: benchClock,
			State: rouse.StateScheduled, Body: body}
	}
	return rows
}

// cpu returns the CPU time of the process. Unlike the rate, it hardly depends on the load of the machine.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func inBatches(b *testing.B, do func(rows []rouse.Row)) {
	var n int
	var used time.Duration
	b.ResetTimer()
	for n < b.N {
		b.StopTimer()
		rows := benchRows()
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

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), "timers.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func BenchmarkCreate(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s := openBench(b)
		inBatches(b, func(rows []rouse.Row) { apply(b, s, creates(rows)) })
	})
	b.Run("raw", func(b *testing.B) {
		raw := newRaw(b)
		inBatches(b, raw.create)
	})
}

// BenchmarkPipeline creates rows that are due, reads them behind a cursor, and deletes them.
func BenchmarkPipeline(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s := openBench(b)
		var after rouse.Position
		inBatches(b, func(rows []rouse.Row) {
			apply(b, s, creates(rows))
			batch, err := s.Claim(b.Context(), rouse.Window{Buckets: []uint32{0}, After: after, Ahead: time.Hour, Limit: benchBatch})
			if err != nil || len(batch.Rows) != benchBatch {
				b.Fatal(len(batch.Rows), err)
			}
			after = batch.Rows[benchBatch-1].Position()
			changes := make([]rouse.Change, benchBatch)
			for i := range batch.Rows {
				changes[i] = rouse.Change{Key: batch.Rows[i].Key, If: batch.Rows[i].Revision}
			}
			apply(b, s, changes)
		})
	})
	b.Run("raw", func(b *testing.B) {
		raw := newRaw(b)
		inBatches(b, func(rows []rouse.Row) {
			raw.create(rows)
			raw.take(rows[0].Visible)
		})
	})
}

func apply(b *testing.B, s *Store, changes []rouse.Change) {
	results, err := s.Apply(b.Context(), changes)
	if err != nil || !results[0].Applied {
		b.Fatal(results, err)
	}
}

func creates(rows []rouse.Row) []rouse.Change {
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, To: &rows[i]}
	}
	return changes
}

// raw is SQLite with the tables and settings of this package, and nothing else.
type raw struct {
	b                    *testing.B
	db                   *sql.DB
	insert, read, remove *sql.Stmt
}

func newRaw(b *testing.B) *raw {
	b.Helper()
	path := filepath.Join(b.TempDir(), "raw.db")
	r := &raw{b: b}
	err := createStoreFile(path)
	if err == nil {
		r.db, err = openConnections(path, Options{}.withDefaults(), true)
	}
	prepare := func(text string) (stmt *sql.Stmt) {
		if err == nil {
			stmt, err = r.db.Prepare(text)
		}
		return stmt
	}
	r.insert = prepare(`INSERT INTO timers (bucket, visible, namespace, name, fire, revision, generation, state, due, labels, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	r.read = prepare(`SELECT ` + columns + ` FROM timers WHERE bucket = 0 AND visible >= ? ORDER BY visible, namespace, name, fire LIMIT ?`)
	r.remove = prepare(`DELETE FROM timers WHERE namespace = ? AND name = ? AND fire = ?`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.db.Close() })
	return r
}

func (r *raw) in(do func(tx *sql.Tx) error) {
	tx, err := r.db.Begin()
	if err == nil {
		err = do(tx)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		r.b.Fatal(err)
	}
}

func (r *raw) create(rows []rouse.Row) {
	r.in(func(tx *sql.Tx) error {
		stmt := tx.Stmt(r.insert)
		for i := range rows {
			w := &rows[i]
			if _, err := stmt.Exec(0, int64(w.Visible), w.Key.Namespace, w.Key.Name, "", i, i, 1, int64(w.Due), nil, w.Body); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *raw) take(from rouse.Instant) {
	found, err := r.read.Query(int64(from), benchBatch)
	if err != nil {
		r.b.Fatal(err)
	}
	var rows []rouse.Row
	for found.Next() {
		var row rouse.Row
		if err := scanRow(found, &row); err != nil {
			r.b.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := found.Close(); err != nil || len(rows) != benchBatch {
		r.b.Fatal(len(rows), err)
	}
	r.in(func(tx *sql.Tx) error {
		stmt := tx.Stmt(r.remove)
		for i := range rows {
			if _, err := stmt.Exec("default", rows[i].Key.Name, ""); err != nil {
				return err
			}
		}
		return nil
	})
}
