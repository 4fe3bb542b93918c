package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/test/servers"
)

// hogs are ways in which the targets of a namespace keep what they get. Each returns the i-th target; there
// are more of them than deliveries.
var hogs = map[string]func(t *testing.T, n *Node, net *hangingNet) func(i int) string{
	"hosts that do not answer": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		return func(i int) string { return net.host("http", i) }
	},
	"hosts that never end the TLS handshake": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		return func(i int) string { return net.host("https", i) }
	},
	"hosts whose bodies trickle": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		net.trickles.Store(true)
		return func(i int) string { return net.host("http", i) }
	},
	"a DNS that does not answer": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		return func(i int) string { return fmt.Sprintf("http://h%d.silent.test/", i) }
	},
	"a broker that does not answer": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		return func(i int) string { return fmt.Sprint("nats:silent/subject.", i) }
	},
	"functions that sleep": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		for i := range net.many {
			if err := n.Handle(fmt.Sprint("f", i), func(ctx context.Context, _ rouse.Fire) error { <-ctx.Done(); return ctx.Err() }, function.Concurrency(4)); err != nil {
				t.Fatal(err)
			}
		}
		return func(i int) string { return fmt.Sprint("func:f", i) }
	},
	"subscribers that hang": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		c, err := client.Dial(n.Addr(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var subscribers sync.WaitGroup
		t.Cleanup(func() { cancel(); subscribers.Wait(); _ = c.Close() })
		for i := range 50 {
			subscribers.Go(func() {
				_ = c.Subscribe(ctx, client.SubscribeOptions{Namespace: "hog", Channel: fmt.Sprint("c", i)}, func(context.Context, client.Fire) error {
					<-ctx.Done()
					return ctx.Err()
				})
			})
		}
		return func(i int) string { return fmt.Sprint("stream:c", i%50) }
	},
	"pools whose workers hang": func(t *testing.T, n *Node, net *hangingNet) func(i int) string {
		return func(i int) string { return fmt.Sprint("pool:core/", i) }
	},
}

// hangingNet is a listener on all addresses of the loopback network, which accepts connections and does not
// answer, or sends a byte from time to time.
type hangingNet struct {
	many     int
	port     string
	trickles atomic.Bool
	held     atomic.Int64 // connections
}

func (h *hangingNet) host(scheme string, i int) string {
	return fmt.Sprintf("%s://127.9.%d.%d:%s/", scheme, i/250, 1+i%250, h.port)
}

// silentDNS is a resolver whose servers take no question.
func silentDNS() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, _ := net.Pipe() // the resolver closes it at its deadline
		return ours, nil
	}}
}

func listenAndHang(t *testing.T, many int) *hangingNet {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hangingNet{many: many}
	_, h.port, _ = net.SplitHostPort(l.Addr().String())
	var conns sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended); _ = l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.held.Add(1)
			conns.Go(func() {
				defer h.held.Add(-1)
				defer c.Close()
				gone := make(chan struct{})
				conns.Go(func() { defer close(gone); _, _ = io.Copy(io.Discard, bufio.NewReader(c)) })
				if h.trickles.Load() {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
				}
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-ended:
						_ = c.Close()
					case <-gone:
						return
					case <-tick.C:
						if h.trickles.Load() {
							_, _ = io.WriteString(c, ".")
						}
					}
				}
			})
		}
	})
	return h
}

// TestTargetsThatHangAreApart: whatever the targets of one namespace do with what they get, timers of another
// fire on time. With ROUSE_LONG=1 there are as many targets as an attacker would have, and it counts by the
// clock.
func TestTargetsThatHangAreApart(t *testing.T) {
	t.Parallel()
	for name, hog := range hogs {
		for store, url := range map[string]func(testing.TB) string{
			"pebble":   func(t testing.TB) string { return "pebble:" + filepath.Join(t.TempDir(), "p") },
			"postgres": servers.Postgres,
		} {
			if store == "postgres" && name != "hosts that do not answer" && !poll.Long {
				continue
			}
			t.Run(name+" "+store, func(t *testing.T) {
				if !poll.Long { // which measures
					t.Parallel()
				}
				fires := make(chan struct{}, 1000)
				polite := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fires <- struct{}{} }))
				defer polite.Close()
				many, schedule := 300, "@every 100ms"
				cfg := placed(t, url(t), "n")
				cfg.MaxDeliveries, cfg.Window, cfg.embedded = 100, 1000, true
				if poll.Long {
					many, schedule = 6000, "@every 1s"
					cfg.MaxDeliveries, cfg.Window, cfg.WindowBytes = Defaults().MaxDeliveries, Defaults().Window, Defaults().WindowBytes
				}
				net := listenAndHang(t, many)
				if name == "a DNS that does not answer" {
					cfg.resolver = silentDNS()
				}
				if name == "a broker that does not answer" {
					cfg.Brokers = []broker.Connection{{Name: "silent", URL: "nats://127.0.0.1:" + net.port}}
				}
				cfg.Pools = []pool.Setup{{Config: pool.Config{Name: "core", Delays: pool.Delays{Unbind: time.Hour, Stop: time.Second}}, Open: func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil }}}
				n, err := assembleNode(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				target := hog(t, n, net)
				run(t, n)
				waitUntilItRuns(t, n)
				puts := make([]timers.Put, 0, 1000)
				put := func() {
					t.Helper()
					results, err := n.timers.Put(t.Context(), puts)
					if err != nil {
						t.Fatal(err)
					}
					for i := range results {
						if results[i].Err != nil {
							t.Fatal(results[i].Err)
						}
					}
					puts = puts[:0]
				}
				for i := range many {
					puts = append(puts, timers.Put{Key: rouse.Key{Namespace: "hog", Name: fmt.Sprint(i)},
						Spec: rouse.Spec{Schedule: "@after 1ms", Target: target(i), Retry: rouse.Retry{Timeout: time.Hour}}})
					if len(puts) == cap(puts) || i == many-1 {
						put()
					}
				}
				poll.Until(t, "the targets have what they may have", func() bool {
					s := n.timers.Stats()
					return s.Blocked > 0 || s.Out > many/2 || strings.HasPrefix(name, "pool") && s.Out > 50
				})
				puts = append(puts, timers.Put{Key: rouse.Key{Namespace: "polite", Name: "often"}, Spec: rouse.Spec{Schedule: schedule, Target: polite.URL}})
				put()
				if !poll.Long {
					for range 5 {
						select {
						case <-fires:
						case <-time.After(poll.Patience):
							t.Fatalf("the timer of another namespace does not fire: %+v", n.timers.Stats())
						}
					}
					return
				}
				time.Sleep(15*time.Second + 500*time.Millisecond)
				if got := len(fires); got < 14 {
					t.Errorf("the timer of another namespace fired %d times in 15 s: %+v", got, n.timers.Stats())
				}
				t.Logf("%d fires in 15.5 s next to %d connections; %+v", len(fires), net.held.Load(), n.timers.Stats())
			})
		}
	}
}
