package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"
)

// The raw limits of a store that nodes share, through one connection and through several.
const (
	rawSize  = 1000 // rows of a batch
	rawLeast = 20_000
	rawMost  = 100_000

	rawStep  = 10_000  // between the visible times of one batch and the next
	rawNever = 1 << 50 // after all visible times, and no more than Redis counts exactly
)

// rawCreates writes rows without rouse: in batches of a thousand, and in batches as large as the servers'
// commits were in this run, so that a limit is not lower because of small commits.
func rawCreates(ctx context.Context, o Options, r *Result) ([]Raw, error) {
	n := min(max(r.Timers, rawLeast), rawMost)
	sizes := []int{rawSize}
	if own := int(math.Round(r.Commit)); own > 0 && (own < rawSize*3/4 || own > rawSize*4/3) {
		sizes = append(sizes, min(own, rawStep))
	}
	var raws []Raw
	for _, size := range sizes {
		for _, writers := range []int{1, rawConns} {
			batches, before, self := rawBatches(o, n, writers, size), o.base.CPU(ctx), processUsage(os.Getpid()).cpu
			took, err := o.base.asRawBase().createRows(ctx, batches)
			if err != nil {
				return nil, fmt.Errorf("raw limit: %w", err)
			}
			what := fmt.Sprintf("%s, batches of %d, %s", rawCreateHow[o.storeKind()], size, describeConnections(writers))
			raws = append(raws, rawOf(what, rowsOf(batches), took, o.base.CPU(ctx)-before, processUsage(os.Getpid()).cpu-self))
		}
	}
	return raws, o.base.clearDatabase(ctx)
}

var rawCreateHow = map[string]string{
	"postgres": "rows of the same size by unnest into a bare table with key and due index",
	"redis":    "rows of the same size by ZADD and HSET in a MULTI",
}

// rawPipelines writes, reads and removes rows without rouse: those of the strategy's kind first, by owners
// that read or by competitors that lease, and then the others.
func rawPipelines(ctx context.Context, o Options, r *Result) (own, others []Raw, err error) {
	n := min(max(r.Timers, rawLeast), rawMost)
	for _, leased := range []bool{false, true} {
		for _, writers := range []int{1, rawConns} {
			batches, before, self := rawBatches(o, n, writers, rawSize), o.base.CPU(ctx), processUsage(os.Getpid()).cpu
			removed, took, err := o.base.asRawBase().pipelineRows(ctx, batches, leased)
			if err != nil {
				return nil, nil, fmt.Errorf("raw limit: %w", err)
			}
			how := rawPipelineHow[o.storeKind()][0]
			if leased {
				how = rawPipelineHow[o.storeKind()][1]
			}
			what := fmt.Sprintf("create, %s and delete in bare tables, no records, batches of %d, %s", how, rawSize,
				describeConnections(writers))
			raw := rawOf(what, removed, took, o.base.CPU(ctx)-before, processUsage(os.Getpid()).cpu-self)
			if leased == (o.Strategy != "bucket") {
				own = append(own, raw)
			} else {
				others = append(others, raw)
			}
		}
	}
	return own, others, o.base.clearDatabase(ctx)
}

// How rows are read, and how they are leased.
var rawPipelineHow = map[string][2]string{
	"postgres": {"read", "lease (FOR UPDATE SKIP LOCKED)"},
	"redis":    {"read", "lease (a script that moves scores)"},
}

func rawOf(what string, n int64, took, store, self time.Duration) Raw {
	return Raw{What: what, Rate: float64(n) / took.Seconds(), CPU: perTimer(self, n), StoreCPU: perTimer(store, n)}
}

func describeConnections(n int) string {
	if n == 1 {
		return "one connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// rawBatches makes at least n rows for writers, each with the bytes that a server would write for a timer.
func rawBatches(o Options, n int64, writers, size int) [][]rawBatch {
	body := newPayloads(o.Size)
	all := make([][]rawBatch, writers)
	start := time.Now().UnixMilli()
	for k := 0; int64(k)*int64(size) < n || k%writers != 0; k++ {
		const names = 1_000_000_000 // of one length, so that they are in order
		changes := newRowChanges(body, names+int64(k)*int64(size), size, farDueTime)
		b := rawBatch{first: start + int64(k)*rawStep, members: make([]string, size), bodies: make([][]byte, size)}
		for i := range changes {
			b.members[i], b.bodies[i] = changes[i].Key.Name, changes[i].To.Body
		}
		all[k%writers] = append(all[k%writers], b)
	}
	return all
}

func rowsOf(writers [][]rawBatch) (n int64) {
	for _, batches := range writers {
		for i := range batches {
			n += int64(len(batches[i].members))
		}
	}
	return n
}
