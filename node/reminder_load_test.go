//go:build unix

package node

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestAThousandRemindersASecond creates 1,100 reminders a second and deletes 1,000, with three instances, one
// of which is killed every 10 s. It runs for the duration in ROUSE_REMINDER_LOAD, such as 1m. No reminder is
// lost, no id is assigned twice, and no deleted reminder is executed.
func TestAThousandRemindersASecond(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("ROUSE_REMINDER_LOAD"))
	if err != nil {
		t.Skip("set ROUSE_REMINDER_LOAD to a duration")
	}
	const (
		creates, deletes = 1100, 1000 // a second
		killEvery        = 10 * time.Second
		delay            = 5 * time.Second
		size             = 100_000
	)
	url := servers.Postgres(t)
	var mu sync.Mutex // guards instances
	instances := []*instance{process(t, url, "0", size), process(t, url, "1", size), process(t, url, "2", size)}
	living := func() []*instance {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(instances)
	}
	sidecars := []*remindee{newRemindee(t, "orderapp", "one", instances...), newRemindee(t, "orderapp", "two", instances...), newRemindee(t, "orderapp", "three", instances...)}
	poll.Until(t, "each has a bucket", func() bool { return len(sidecars[0].table().GetInstanceSync()) >= 3 })

	start := time.Now()
	stop := start.Add(length)
	var made sync.Map // name by id
	var created, deleted, late atomic.Int64
	left := make(chan [2]string, 1_000_000) // those to be executed
	queue := make(chan [2]string, 1_000_000)
	var working sync.WaitGroup
	// paced calls do at a rate, by several goroutines.
	paced := func(rate int, do func(n int64)) {
		var next atomic.Int64
		for range 48 {
			working.Go(func() {
				for {
					n := next.Add(1)
					at := start.Add(time.Duration(n) * time.Second / time.Duration(rate))
					if at.After(stop) {
						return
					}
					if wait := time.Until(at); wait > 0 {
						time.Sleep(wait)
					} else if wait < -time.Second {
						late.Add(1)
					}
					do(n)
				}
			})
		}
	}
	paced(creates, func(n int64) {
		name := fmt.Sprint("r", n)
		d := delay
		if n%11 != 0 {
			d = time.Hour
		}
		id := anywhere(t, sidecars[n%3], &reminderv1.Reminder{ReminderName: name, InitialDelay: d.String()}, living)
		if other, twice := made.LoadOrStore(id, name); twice {
			t.Errorf("%s is the id of %s and of %s", id, name, other)
		}
		created.Add(1)
		if n%11 == 0 {
			left <- [2]string{id, name}
		} else {
			queue <- [2]string{id, name}
		}
	})
	paced(deletes, func(n int64) {
		r := <-queue
		for {
			in := living()[n%int64(len(living()))]
			_, err := in.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: r[0]})
			if err == nil || isNotFound(err) { // an answer that was lost
				deleted.Add(1)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	kills := 0
	for at := start.Add(killEvery); at.Before(stop); at = at.Add(killEvery) {
		time.Sleep(time.Until(at))
		mu.Lock()
		victim := instances[0]
		instances = instances[1:]
		mu.Unlock()
		victim.end()
		kills++
		again := process(t, url, fmt.Sprint(2+kills), size)
		for _, s := range sidecars {
			s.connect(again)
		}
		mu.Lock()
		instances = append(instances, again)
		mu.Unlock()
	}
	working.Wait()
	took := time.Since(start)
	close(left)
	n := 0
	for r := range left {
		n++
		poll.Until(t, r[1]+" is executed", func() bool {
			return len(sidecars[0].fires(r[1]))+len(sidecars[1].fires(r[1]))+len(sidecars[2].fires(r[1])) > 0
		})
	}
	t.Logf("%d created, %d deleted and %d executed in %v (%.0f and %.0f a second), %d instances killed; %d calls began a second late",
		created.Load(), deleted.Load(), n, took.Round(time.Millisecond), float64(created.Load())/took.Seconds(), float64(deleted.Load())/took.Seconds(), kills, late.Load())
}

// BenchmarkCreateReminder creates reminders on the embedded store, 64 calls at a time, as sidecars do: over
// gRPC, durable when it answers.
func BenchmarkCreateReminder(b *testing.B) {
	n, err := Open(b.Context(), "pebble:"+b.TempDir(), WithAPI("127.0.0.1:0"), func(c *Config) { c.Reminders, c.ReminderBucketSize = true, 10_000_000 })
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = n.Run(ctx) })
	defer running.Wait()
	defer stop()
	conn, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := reminderv1.NewReminderServiceClient(conn)
	who := &reminderv1.Caller{AppId: "orderapp", Address: "one"}
	if _, err := client.RegisterSidecar(ctx, &reminderv1.RegisterSidecarRequest{AppId: who.AppId, Address: who.Address}); err != nil {
		b.Fatal(err)
	}
	stream, err := client.ConnectSidecar(ctx)
	if err == nil {
		err = stream.Send(&reminderv1.SidecarStream{SidecarMessage: &reminderv1.SidecarStream_Hello{Hello: &reminderv1.SidecarHello{Caller: who}}})
	}
	for m := (*reminderv1.ReminderServiceStream)(nil); err == nil && m.GetTokenBucketsUpdate() == nil; {
		m, err = stream.Recv()
	}
	if err != nil {
		b.Fatal(err)
	}
	running.Go(func() {
		for ctx.Err() == nil && stream.Send(&reminderv1.SidecarStream{}) == nil {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.CreateReminder(ctx, &reminderv1.CreateReminderRequest{Caller: who, Reminder: &reminderv1.Reminder{
				ReminderName: "run-activity", InitialDelay: "1h", Metadata: []*reminderv1.ReminderMetadata{{Key: "K1", Value: "V1"}}}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reminders/s")
}
