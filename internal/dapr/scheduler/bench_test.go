package scheduler

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"

	"github.com/rousehq/rouse/internal/poll"
)

// BenchmarkScheduleJob schedules one-shot jobs of 64 bytes, due in an hour, over loopback on the embedded
// store. One operation is one call; the result includes the client's share, in the same process.
func BenchmarkScheduleJob(b *testing.B) {
	for _, callers := range []int{64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			h := open(b, openPebble(b, b.TempDir()))
			j := &schedulerv1.Job{DueTime: proto.String("1h"), Data: &anypb.Any{Value: make([]byte, 64)}}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu()
			h.many(b, callers, b.N, func(int) *schedulerv1.Job { return j })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.StopTimer()
			h.stop()
		})
	}
}

// many schedules n jobs with concurrent callers.
func (h *harness) many(b *testing.B, callers, n int, job func(i int) *schedulerv1.Job) {
	var next atomic.Int64
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := h.schedule(app("bench"), fmt.Sprintf("job-%08d", i), job(i), false); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	calling.Wait()
}

// cpu returns the process's CPU time.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBurst schedules jobs that are due at one time, or spread over a second, and receives all from one
// watch. It measures the time until the last trigger, and until every answer is durable, from the first due
// time.
func BenchmarkBurst(b *testing.B) {
	for _, c := range []struct {
		jobs   int
		spread int // milliseconds
		ahead  time.Duration
	}{{10_000, 1, 10 * time.Second}, {100_000, 1000, 40 * time.Second}} {
		b.Run(fmt.Sprintf("jobs=%d/over=%dms", c.jobs, c.spread), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				h := open(b, openPebble(b, b.TempDir()))
				w := h.watch(jobsOf("bench"))
				at := time.Now().Add(c.ahead).Truncate(time.Millisecond)
				h.many(b, 256, c.jobs, func(i int) *schedulerv1.Job {
					due := at.Add(time.Duration(i%c.spread) * time.Millisecond).Format(time.RFC3339Nano)
					return &schedulerv1.Job{DueTime: &due, Data: &anypb.Any{Value: make([]byte, 64)}}
				})
				if time.Now().After(at) {
					b.Fatal("the machine is too slow to schedule them before they are due")
				}
				time.Sleep(time.Until(at))
				before := cpu()
				b.StartTimer()
				for range c.jobs {
					w.done(w.next())
				}
				came := time.Since(at)
				poll.Until(b, "all to be gone", func() bool { return len(h.list(app("bench"))) == 0 })
				b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(c.jobs), "cpu-ns/job")
				b.ReportMetric(came.Seconds(), "s-until-sent")
				b.ReportMetric(time.Since(at).Seconds(), "s-until-durable")
				b.StopTimer()
				h.stop()
			}
		})
	}
}

// BenchmarkDeleteByNamePrefix deletes 20,000 jobs in one call on the embedded store.
func BenchmarkDeleteByNamePrefix(b *testing.B) {
	for range b.N {
		b.StopTimer()
		h := open(b, openPebble(b, b.TempDir()))
		h.many(b, 256, 20_000, func(int) *schedulerv1.Job {
			return &schedulerv1.Job{DueTime: proto.String("1h"), Data: &anypb.Any{Value: make([]byte, 64)}}
		})
		before := cpu()
		b.StartTimer()
		if _, err := h.DeleteByNamePrefix(b.Context(), &schedulerv1.DeleteByNamePrefixRequest{NamePrefix: "job-", Metadata: app("bench")}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64((cpu()-before).Nanoseconds())/20_000, "cpu-ns/job")
		if n := len(h.list(app("bench"))); n != 0 {
			b.Errorf("%d are left", n)
		}
		h.stop()
	}
}
