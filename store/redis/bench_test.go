package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// The benchmarks write rows of 200 bytes in batches to a server of their own, and for comparison the same
// rows with plain ZADD and HSET in MULTI. The difference is the overhead of this package. Each iteration is
// one row; srv-µs is the processor time of Redis.
//
//	go test -run '^$' -bench . -benchtime 200000x

const (
	benchBatch   = 1000
	benchBuckets = 64
)

var benchClock rouse.Instant = 1_750_000_000_000

func benchRows() []rouse.Row {
	rows := make([]rouse.Row, benchBatch)
	for i := range rows {
		body := make([]byte, 160)
		for j := 0; j < len(body)/2; j += 8 {
			binary.LittleEndian.PutUint64(body[j:], rand.Uint64())
		}
		benchClock++
		rows[i] = rouse.Row{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("%020x", rand.Uint64())}, Bucket: rand.Uint32N(benchBuckets),
			Visible: benchClock, Due: benchClock, State: rouse.StateScheduled, Body: body}
	}
	return rows
}

func allBuckets() []uint32 {
	out := make([]uint32, benchBuckets)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// bench is a server with a store, and the processor time that both have used.
type bench struct {
	*testing.B
	s      *Store
	client *goredis.Client
	n      int
	began  [2]time.Duration
	used   [2]time.Duration
}

func newBench(b *testing.B, fsync string) *bench {
	b.Helper()
	server := servers.StartRedis(b, "appendfsync="+fsync, "auto-aof-rewrite-percentage=0")
	m := &bench{B: b, s: openTest(b, server.URL(), Options{}), client: goredis.NewClient(&goredis.Options{Addr: server.Addr()})}
	b.Cleanup(func() {
		_ = m.client.Close()
		_ = m.s.Close()
	})
	b.ResetTimer()
	b.StopTimer()
	return m
}

// cpu returns the processor time of this process and of Redis. Unlike the rate, it hardly depends on the load
// of the machine.
func (m *bench) cpu() (out [2]time.Duration) {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	out[0] = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	info, err := m.client.Info(context.Background(), "cpu").Result()
	if err != nil {
		m.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			f, _ := strconv.ParseFloat(value, 64)
			out[1] += time.Duration(f * 1e9)
		}
	}
	return out
}

func (m *bench) start() {
	m.began = m.cpu()
	m.StartTimer()
}

func (m *bench) stop(rows int) {
	m.StopTimer()
	now := m.cpu()
	for i := range now {
		m.used[i] += now[i] - m.began[i]
	}
	m.n += rows
}

func (m *bench) report() {
	m.ReportMetric(float64(m.n)/m.Elapsed().Seconds(), "rows/s")
	m.ReportMetric(float64(m.used[0])/1e3/float64(m.n), "cpu-µs/row")
	m.ReportMetric(float64(m.used[1])/1e3/float64(m.n), "srv-µs/row")
}

func (m *bench) apply(changes []rouse.Change) []rouse.Result {
	results, err := m.s.Apply(context.Background(), changes)
	if err != nil {
		m.Error(err)
	}
	for i, r := range results {
		if !r.Applied {
			m.Errorf("change of %v: %+v", changes[i].Key, r)
		}
	}
	return results
}

func creates(rows []rouse.Row) []rouse.Change {
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, If: rouse.NoRow, To: &rows[i]}
	}
	return changes
}

func BenchmarkCreate(b *testing.B) {
	for _, fsync := range []string{"everysec", "always"} {
		b.Run(fsync+"/store", func(b *testing.B) {
			m := newBench(b, fsync)
			for m.n < b.N {
				rows := benchRows()
				m.start()
				m.apply(creates(rows))
				m.stop(len(rows))
			}
			m.report()
		})
		b.Run(fsync+"/raw", func(b *testing.B) {
			m := newBench(b, fsync)
			for m.n < b.N {
				rows := benchRows()
				m.start()
				_, err := m.client.TxPipelined(context.Background(), func(p goredis.Pipeliner) error {
					var fields []any
					due := make([]goredis.Z, len(rows))
					for i := range rows {
						blob, err := appendBlob(nil, &rows[i])
						if err != nil {
							return err
						}
						fields = append(fields, rows[i].Key.Name, blob)
						due[i] = goredis.Z{Score: float64(rows[i].Visible), Member: rows[i].Key.Name}
					}
					p.HSet(context.Background(), "raw", fields...)
					p.ZAdd(context.Background(), "due", due...)
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				m.stop(len(rows))
			}
			m.report()
		})
	}
}

// BenchmarkPipeline creates due rows, reads or holds them as a node does, and removes them, in four
// goroutines with separate buckets.
func BenchmarkPipeline(b *testing.B) {
	const workers = 4
	for name, hold := range map[string]time.Duration{"owned": 0, "held": time.Minute} {
		b.Run(name, func(b *testing.B) {
			m := newBench(b, "everysec")
			batches := make(chan []rouse.Row, workers)
			go func() {
				defer close(batches)
				for n := 0; n < b.N; n += benchBatch {
					batches <- benchRows()
				}
			}()
			m.start()
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					buckets := allBuckets()[w*benchBuckets/workers : (w+1)*benchBuckets/workers]
					for rows := range batches {
						for i := range rows {
							rows[i].Bucket = buckets[i%len(buckets)]
						}
						m.apply(creates(rows))
						m.take(rouse.Window{Buckets: buckets, Limit: benchBatch, Hold: hold}, len(rows))
					}
				})
			}
			wg.Wait()
			m.stop((b.N + benchBatch - 1) / benchBatch * benchBatch)
			m.report()
		})
	}
}

// BenchmarkBacklog takes rows from a backlog of ten thousand, where each claim has to choose.
func BenchmarkBacklog(b *testing.B) {
	for name, hold := range map[string]time.Duration{"owned": 0, "held": time.Minute} {
		b.Run(name, func(b *testing.B) {
			m := newBench(b, "everysec")
			buckets := allBuckets()
			for range 10 {
				m.apply(creates(benchRows()))
			}
			for m.n < b.N {
				m.apply(creates(benchRows()))
				m.start()
				m.take(rouse.Window{Buckets: buckets, Limit: benchBatch, Hold: hold}, benchBatch)
				m.stop(benchBatch)
			}
			m.report()
		})
	}
}

// BenchmarkSince reads a window of a hundred thousand rows, of which another writer has just written a
// thousand. An iteration is a row of the window.
func BenchmarkSince(b *testing.B) {
	m := newBench(b, "everysec")
	other := openTest(b, m.s.addr.text, Options{})
	b.Cleanup(func() { _ = other.Close() })
	buckets := allBuckets()
	for range 100 {
		m.apply(creates(benchRows()))
	}
	token := uint64(0)
	for m.n < b.N {
		batch, err := m.s.Claim(context.Background(), rouse.Window{Buckets: buckets, Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		token = batch.Token
		if _, err := other.Apply(context.Background(), creates(benchRows())); err != nil {
			b.Fatal(err)
		}
		m.start()
		got, err := m.s.Claim(context.Background(), rouse.Window{Buckets: buckets, Limit: 5000, Since: token})
		if err != nil || len(got.Rows) != benchBatch {
			b.Fatal(len(got.Rows), err)
		}
		m.stop(100_000)
	}
	m.report()
}

// BenchmarkLife does the work of a single node for timers that fire once: create them, look for writes of
// other nodes, read revisions, and remove the rows with a record. The store contains twenty thousand at a
// time.
func BenchmarkLife(b *testing.B) {
	m := newBench(b, "everysec")
	var alive [][]rouse.Row
	var token uint64
	settle := func() {
		rows := alive[0]
		alive = alive[1:]
		keys, changes := make([]rouse.Key, len(rows)), make([]rouse.Change, len(rows))
		for i := range rows {
			keys[i] = rows[i].Key
		}
		revisions, err := m.s.Revisions(context.Background(), keys)
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range rows {
			changes[i] = rouse.Change{Key: r.Key, If: revisions[i], Log: []rouse.Record{{Namespace: r.Key.Namespace, Name: r.Key.Name, Generation: revisions[i],
				Ending: rouse.EndFired, Due: r.Due, Sent: r.Due, Ended: r.Due, Attempts: 1, Code: 200}}}
		}
		m.apply(changes)
	}
	for range 20 {
		alive = append(alive, benchRows())
		m.apply(creates(alive[len(alive)-1]))
	}
	for m.n < b.N {
		alive = append(alive, benchRows())
		m.start()
		m.apply(creates(alive[len(alive)-1]))
		settle()
		if m.n/benchBatch%4 == 0 {
			w := rouse.Window{Buckets: allBuckets(), Limit: 4096, Bytes: 8 << 20, Since: token}
			batch, err := m.s.Claim(context.Background(), w)
			if err != nil {
				b.Fatal(err)
			}
			for token = batch.Token; batch.More && w.Since != 0; {
				w.After = batch.Rows[len(batch.Rows)-1].Position()
				if batch, err = m.s.Claim(context.Background(), w); err != nil {
					b.Fatal(err)
				}
			}
		}
		m.stop(benchBatch)
	}
	m.report()
}

// take claims rows and removes them.
func (m *bench) take(w rouse.Window, n int) {
	batch, err := m.s.Claim(context.Background(), w)
	if err != nil || len(batch.Rows) != n {
		m.Errorf("%d of %d rows: %v", len(batch.Rows), n, err)
	}
	changes := make([]rouse.Change, len(batch.Rows))
	for i := range batch.Rows {
		changes[i] = rouse.Change{Key: batch.Rows[i].Key, If: batch.Rows[i].Revision}
	}
	m.apply(changes)
}
