package amqp

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkColdKey measures the time from the request for a new key to its answer, including the start of a
// process; the second case has a running worker.
func BenchmarkColdKey(b *testing.B) {
	h := newHarness(b, slow).start()
	c := h.client()
	c.call("warm", "x", "ok", "x")
	for _, kind := range []string{"warm", "cold"} {
		b.Run(kind, func(b *testing.B) {
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				key := kind
				if kind == "cold" {
					key = fmt.Sprint(b.N, " ", n, " ", time.Now().UnixNano())
				}
				began := time.Now()
				c.call(key, "x", "ok", "x")
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkThousandKeys measures the time from a thousand requests for new keys until each is in its queue,
// without workers.
func BenchmarkThousandKeys(b *testing.B) {
	h := newHarness(b, slow)
	h.driver = noop.Driver{}
	h.start()
	const keys = 1000
	before := cpu()
	for n := 0; b.Loop(); n++ {
		err := h.try(func(ch *amqp091.Channel) error {
			for i := range keys {
				if err := ch.Publish("core-req-xchg", fmt.Sprint(n, " ", i), true, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
					return err
				}
			}
			h.eventually("each request is in its queue", func() bool {
				time.Sleep(100 * time.Millisecond) // polling loads the broker, too
				v := h.ctl.manager.View()
				if len(v.Groups) != keys*(n+1) || slices.ContainsFunc(v.Groups, func(g pool.GroupView) bool { return g.Queue != "active" }) {
					return false
				}
				q, err := ch.QueueDeclarePassive("core-orphan", true, false, false, false, nil)
				return err == nil && q.Messages == 0
			})
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(keys*b.N), "cpu-µs/key")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
}

// BenchmarkThousandQueues measures the part of the broker in a thousand new keys: declaring and binding a
// thousand queues over one connection with many channels.
func BenchmarkThousandQueues(b *testing.B) {
	for _, kind := range []string{amqp091.QueueTypeQuorum, amqp091.QueueTypeClassic} {
		for _, channels := range []int{1, 16, 64} {
			b.Run(fmt.Sprint(kind, "/", channels), func(b *testing.B) {
				h := newHarness(b, slow)
				conn, err := amqp091.Dial(h.url)
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close() //nolint:errcheck // of a test
				for n := 0; b.Loop(); n++ {
					var making sync.WaitGroup
					for c := range channels {
						making.Go(func() {
							ch, err := conn.Channel()
							if err != nil {
								b.Error(err)
								return
							}
							for i := c; i < 1000 && err == nil; i += channels {
								name := fmt.Sprint(n, " ", i)
								_, err = ch.QueueDeclare(name, true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: kind})
								if err == nil {
									err = ch.QueueBind(name, name, "amq.direct", false, nil)
								}
							}
							if err != nil {
								b.Error(err)
							}
						})
					}
					making.Wait()
				}
			})
		}
	}
}

// BenchmarkReports measures the cost of a worker's report for the controller.
func BenchmarkReports(b *testing.B) {
	h := newHarness(b, slow)
	h.driver = noop.Driver{}
	h.start()
	h.stop()
	const reports = 50_000
	for b.Loop() {
		b.StopTimer()
		err := h.try(func(ch *amqp091.Channel) error {
			for i := range reports {
				err := ch.Publish("core-activity-xchg", fmt.Sprint("k", i%200), false, false, amqp091.Publishing{Headers: amqp091.Table{eventHeader: "request-received"}})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		h.eventually("all are there", func() bool { q, _ := h.queue("core-activity"); return q.Messages == reports })
		b.StartTimer()
		before := cpu()
		h.start()
		h.eventually("all are read", func() bool { q, _ := h.queue("core-activity"); return q.Messages == 0 })
		b.ReportMetric(float64((cpu()-before).Microseconds())/reports, "cpu-µs/report")
		h.stop()
	}
}
