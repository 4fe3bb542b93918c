//go:build unix

package engine

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// BenchmarkGate measures the way of a row through the gate of its limit, until it has left its place. With
// many keys, all have had their last use long ago.
//
//	go test -run xxx -bench Gate ./internal/engine
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit rouse.Limit
		keys  int
	}{
		{"concurrency", rouse.Limit{Concurrency: 10}, 1},
		{"concurrency", rouse.Limit{Concurrency: 10}, 100_000},
		{"rate", rouse.Limit{Rate: rouse.LimitRate{Count: 1_000_000, Per: 100 * time.Millisecond}}, 1},
		{"rate", rouse.Limit{Rate: rouse.LimitRate{Count: 1_000_000, Per: 100 * time.Millisecond}}, 100_000},
		{"slow rate", rouse.Limit{Rate: rouse.LimitRate{Count: 1_000_000, Per: aDay, Burst: 1_000_000}}, 100_000},
	} {
		b.Run(fmt.Sprintf("%s of %d keys", c.name, c.keys), func(b *testing.B) {
			g := newGates(c.limit)
			list := make([]*rouse.Timer, c.keys)
			for i := range list {
				list[i] = timerOfKey(i)
			}
			b.ReportAllocs()
			var en entry
			used := -usedTime()
			for i := 0; b.Loop(); i++ {
				if g.enterGate(&en, list[i%c.keys], 0, rouse.Instant((100 * aDay).Milliseconds())); en.gate.running == 0 {
					b.Fatal("it waits")
				}
				en.sent = 1 // it has begun
				en.leaveGate()
				g.openGates()
				if i%maxIdle == 0 {
					g.closeIdle(g.now())
				}
			}
			b.ReportMetric(float64(used+usedTime())/float64(b.N), "cpu-ns/op")
		})
	}
}

// usedTime returns the CPU time of the process.
func usedTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
