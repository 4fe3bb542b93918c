package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/rousehq/rouse/test/servers"
)

// bounded are the nodes of a store, and a client of each that does not try again.
type bounded struct {
	nodes   []*Node
	clients []*client.Client
}

// over and under are how far what all nodes give may be off. A loaded machine delays what nodes hear from
// each other, so ten percent are asked for by ROUSE_LONG=1 only; nodes that count alone give twice as much.
var over, under = 1.5, 0.5

func init() {
	if poll.Long {
		over, under = 1.1, 0.9
	}
}

// TestQuotasOverAllNodes asks each node for more than each quota allows, on each store. All nodes together
// give what it allows, and the metrics show it.
func TestQuotasOverAllNodes(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		url   func(testing.TB) string
		nodes int
	}{
		"sqlite":   {func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "rouse.db") }, 1},
		"postgres": {servers.Postgres, 2},
		"redis":    {servers.Redis, 2},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l, url := &bounded{}, c.url(t)
			for i := range c.nodes {
				cfg := placed(t, url, fmt.Sprint("n", i))
				cfg.Window, cfg.MaxDeliveries, cfg.HostConcurrency = 10_000, 200, 100
				cfg.Pools = []pool.Setup{{Config: pool.Config{Name: "core", Delays: pool.Delays{Unbind: time.Second, Stop: time.Second}},
					Open: func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil }}}
				n, err := assembleNode(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				run(t, n)
				cl, err := client.Dial(n.Addr(), client.Options{Patience: time.Nanosecond})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cl.Close() })
				l.nodes, l.clients = append(l.nodes, n), append(l.clients, cl)
			}
			poll.Until(t, "the buckets are shared out", func() bool {
				list, err := l.clients[0].Nodes(t.Context())
				return err == nil && len(list) == c.nodes && (c.nodes == 1 || list[0].Buckets == 4 && list[1].Buckets == 4)
			})
			l.put(t, "first", rouse.Quotas{Timers: 1}) // without a namespace, nodes do not look for each other
			poll.Until(t, "the nodes know each other", func() bool {
				return !slices.ContainsFunc(l.nodes, func(n *Node) bool { return n.quotas.Nodes() != c.nodes })
			})
			var trials []trial
			for _, begin := range []func(*testing.T) trial{l.poolGroups, l.overlaps, l.deadLetters, l.creates, l.reads, l.fires, l.timers, l.bytes, l.single} {
				trials = append(trials, begin(t))
			}
			for _, trial := range trials {
				trial.ready()
			}
			for _, trial := range trials {
				trial.judge()
			}
		})
	}
}

// trial is a quota of which the nodes are asked for more than it allows, in a namespace of its own.
type trial struct {
	ready func() // waits until the nodes know what is used of it
	judge func() // judges what they gave
}

// put sets the quotas of a namespace, and waits until all nodes know them.
func (l *bounded) put(t *testing.T, name string, q rouse.Quotas) {
	t.Helper()
	if _, err := l.clients[0].Namespaces().Put(t.Context(), name, q); err != nil {
		t.Fatal(err)
	}
	for _, c := range l.clients {
		poll.Until(t, "all nodes know the quotas", func() bool {
			is, _, err := c.Namespaces().Get(t.Context(), name)
			return err == nil && is.Quotas == q
		})
	}
}

// refused reports whether an error is that of a quota, and fails the test if it is another one. A busy
// machine leaves some calls without an answer.
func refused(t *testing.T, err error, quota string) bool {
	t.Helper()
	if err != nil && !errors.Is(err, rouse.ErrUnavailable) && (!errors.Is(err, rouse.ErrQuota) || !strings.Contains(err.Error(), quota)) {
		t.Errorf("want a refusal by the quota %s: %v", quota, err)
	}
	return err != nil
}

// shown waits until the metrics of all nodes show a quota, and a use of it between two numbers.
func (l *bounded) shown(t *testing.T, namespace, quota string, limit, least, most float64) {
	t.Helper()
	labels := fmt.Sprintf("{namespace=%q,quota=%q} ", namespace, quota)
	for _, n := range l.nodes {
		last := ""
		if !poll.Holds(poll.Patience, func() bool {
			last = get(t, "http://"+n.AdminAddr()+"/metrics")
			used, is := sample(last, "rouse_quota_used"+labels)
			max, _ := sample(last, "rouse_quota_limit"+labels)
			return is && max == limit && used >= least && used <= most
		}) {
			for line := range strings.Lines(last) {
				if strings.Contains(line, labels) {
					t.Log(line)
				}
			}
			t.Errorf("the metrics do not show %s with the limit %g, of which %g to %g are used", labels, limit, least, most)
		}
	}
}

// sample returns the value of a metric.
func sample(text, name string) (value float64, is bool) {
	if _, text, is = strings.Cut(text, "\n"+name); is {
		text, _, _ = strings.Cut(text, "\n")
		value, _ = strconv.ParseFloat(text, 64)
	}
	return value, is
}

// size returns what the rows of a namespace take.
func (l *bounded) size(t *testing.T, namespace string) (sum int64) {
	t.Helper()
	q := rouse.Query{Namespace: namespace, States: rouse.AllStates, Limit: 1000}
	for {
		page, err := l.nodes[0].store.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Rows {
			sum += page.Rows[i].Size()
		}
		if page.Next == nil {
			return sum
		}
		q.After = *page.Next
	}
}

// count returns how many rows of a state there are in a namespace.
func (l *bounded) count(t *testing.T, namespace string, state rouse.State) int64 {
	t.Helper()
	n, err := l.nodes[0].store.Count(t.Context(), rouse.Query{Namespace: namespace, States: []rouse.State{state}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// later is a timer that does not come due during these tests.
func later(payload int) rouse.Spec {
	return rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Payload: make([]byte, payload)}
}

func (l *bounded) bytes(t *testing.T) trial {
	const most = 300_000
	l.put(t, "bytes", rouse.Quotas{Bytes: most})
	var names []string
	last, refusals := time.Now(), 0
	poll.Until(t, "the namespace is full", func() bool {
		for _, c := range l.clients {
			timer, err := c.Create(t.Context(), "bytes", "", later(5000))
			if refused(t, err, rouse.QuotaBytes) {
				refusals++
				continue
			}
			names, last = append(names, timer.Key.Name), time.Now()
		}
		return refusals > 0 && time.Since(last) > 13*time.Second // within which the nodes hear from each other, and measure again
	})
	size := l.size(t, "bytes")
	if float64(size) < under*most || float64(size) > over*most {
		t.Errorf("%d bytes were written, of %d", size, most)
	}
	for _, c := range l.clients {
		if _, err := c.Replace(t.Context(), "bytes", names[0], later(4000)); err != nil {
			t.Errorf("a replacement that is smaller: %v", err)
		}
		if _, err := c.Replace(t.Context(), "bytes", names[0], later(60_000)); !refused(t, err, rouse.QuotaBytes) {
			t.Error("a replacement that is larger was accepted")
		}
	}
	return trial{func() {
		l.shown(t, "bytes", rouse.QuotaBytes, most, under*float64(size), over*float64(size))
		for i, name := range names {
			if _, err := l.clients[i%len(l.clients)].Delete(t.Context(), "bytes", name); err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		l.shown(t, "bytes", rouse.QuotaBytes, most, 0, 0)
		for _, c := range l.clients {
			if _, err := c.Create(t.Context(), "bytes", "", later(20_000)); err != nil {
				t.Errorf("an empty namespace is full: %v", err)
			}
		}
	}}
}

func (l *bounded) timers(t *testing.T) trial {
	const most = 50
	l.put(t, "timers", rouse.Quotas{Timers: most})
	var names []string
	for left := 10; left > 0; left-- { // rounds in which nothing is written
		for _, c := range l.clients {
			if timer, err := c.Create(t.Context(), "timers", "", later(1)); !refused(t, err, rouse.QuotaTimers) {
				names, left = append(names, timer.Key.Name), 10
			}
		}
	}
	written := float64(len(names))
	if written < under*most || written > over*most {
		t.Errorf("%g timers were written, of %d", written, most)
	}
	if _, err := l.clients[0].Replace(t.Context(), "timers", names[0], later(2)); err != nil {
		t.Errorf("a replacement: %v", err)
	}
	return trial{func() {
		l.shown(t, "timers", rouse.QuotaTimers, most, written, written)
		for _, name := range names[most-1:] {
			if _, err := l.clients[0].Delete(t.Context(), "timers", name); err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		poll.Until(t, "there is room for one", func() bool {
			_, err := l.clients[len(l.clients)-1].Create(t.Context(), "timers", "", later(1))
			return !refused(t, err, rouse.QuotaTimers)
		})
	}}
}

// gives is the trial of a rate: all nodes together give what it allows in more than ten seconds, and no more.
// A slow machine asks for less; asked counts the requests, nil: not known.
func (l *bounded) gives(t *testing.T, namespace, quota string, rate float64, given, asked *atomic.Int64, end func()) trial {
	var givenBefore, askedBefore int64
	var began time.Time
	return trial{func() {
		l.shown(t, namespace, quota, rate, 0.1*rate, 100*rate)
		givenBefore, began = given.Load(), time.Now()
		if asked != nil {
			askedBefore = asked.Load()
		}
	}, func() {
		poll.Until(t, "the rate is used for a while", func() bool {
			return time.Since(began) > 10*time.Second && given.Load()-givenBefore > int64(2*rate)
		})
		got, allows := float64(given.Load()-givenBefore), rate*time.Since(began).Seconds()
		if got > over*allows+rate { // a second's worth may have been left over
			t.Errorf("%s: %g were given, it allows %g", quota, got, allows)
		}
		if asked != nil {
			wanted := float64(asked.Load() - askedBefore)
			if got < 0.2*min(wanted, allows) {
				t.Errorf("%s: only %g of %g were given, it allows %g", quota, got, wanted, allows)
			}
		}
		end()
	}}
}

// asks asks all nodes for more than a rate allows.
func (l *bounded) asks(t *testing.T, namespace, quota string, rate float64, one func(*client.Client) error) trial {
	t.Helper()
	var given, asked atomic.Int64
	var asking sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(asking.Wait)
	for _, c := range l.clients {
		asking.Go(func() {
			tick := time.NewTicker(time.Duration(float64(time.Second) / rate / 2)) // of one node twice as many as all may give
			defer tick.Stop()
			for ctx.Err() == nil {
				if !refused(t, one(c), quota) {
					given.Add(1)
				}
				asked.Add(1)
				<-tick.C
			}
		})
	}
	return l.gives(t, namespace, quota, rate, &given, &asked, func() { end(); asking.Wait() })
}

func (l *bounded) creates(t *testing.T) trial {
	l.put(t, "creates", rouse.Quotas{Creates: 20})
	return l.asks(t, "creates", rouse.QuotaCreates, 20, func(c *client.Client) error {
		_, err := c.Create(context.WithoutCancel(t.Context()), "creates", "", later(1))
		return err
	})
}

func (l *bounded) reads(t *testing.T) trial {
	l.put(t, "reads", rouse.Quotas{Reads: 20})
	if _, err := l.clients[0].Create(t.Context(), "reads", "x", later(1)); err != nil {
		t.Fatal(err)
	}
	return l.asks(t, "reads", rouse.QuotaReads, 20, func(c *client.Client) error {
		_, err := c.Get(context.WithoutCancel(t.Context()), "reads", "x")
		return err
	})
}

// repeat creates timers that come due all the time, and returns what deletes them.
func (l *bounded) repeat(t *testing.T, namespace string, timers int, edit func(*rouse.Spec)) (end func()) {
	t.Helper()
	for i := range timers {
		spec := rouse.Spec{Schedule: "@every 100ms", Target: "stream:x"}
		edit(&spec)
		if _, err := l.clients[i%len(l.clients)].Create(t.Context(), namespace, fmt.Sprint("t", i), spec); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for i := range timers {
			if _, err := l.clients[i%len(l.clients)].Delete(t.Context(), namespace, fmt.Sprint("t", i)); err != nil {
				t.Error(err)
			}
		}
	}
}

func (l *bounded) fires(t *testing.T) trial {
	var came atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came.Add(1) }))
	t.Cleanup(receiver.Close)
	l.put(t, "fires", rouse.Quotas{Fires: 20})
	end := l.repeat(t, "fires", 20, func(s *rouse.Spec) { s.Target = receiver.URL })
	return l.gives(t, "fires", rouse.QuotaFires, 20, &came, nil, end)
}

func (l *bounded) overlaps(t *testing.T) trial {
	const most, timers = 60, 16
	l.put(t, "overlaps", rouse.Quotas{Overlaps: most})
	end := l.repeat(t, "overlaps", timers, func(s *rouse.Spec) { s.Overlap = rouse.OverlapAllow }) // nothing answers
	return trial{func() {
		skipped := map[string]bool{}
		poll.Until(t, "occurrences of all timers are skipped", func() bool {
			for r, err := range l.clients[0].History(t.Context(), rouse.RecordQuery{Namespace: "overlaps"}) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Cause == rouse.CauseOverlapLimit {
					skipped[r.Name] = true
				}
			}
			return len(skipped) == timers
		})
		l.shown(t, "overlaps", rouse.QuotaOverlaps, most, under*most, over*most)
	}, func() {
		if n := l.count(t, "overlaps", rouse.StateFiring); float64(n) < under*most || float64(n) > over*most {
			t.Errorf("%d occurrences are in progress, of %d", n, most)
		}
		end()
	}}
}

func (l *bounded) deadLetters(t *testing.T) trial {
	const most, timers = 40, 16
	var came atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(receiver.Close)
	l.put(t, "dead-letters", rouse.Quotas{DeadLetters: most})
	l.repeat(t, "dead-letters", timers, func(s *rouse.Spec) { s.Target, s.Retry.Attempts = receiver.URL, 1 })
	return trial{func() {
		poll.Until(t, "there are many dead letters", func() bool { return came.Load() > 10*most })
		for i := range timers {
			if _, err := l.clients[i%len(l.clients)].Pause(t.Context(), "dead-letters", fmt.Sprint("t", i), ""); err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		l.shown(t, "dead-letters", rouse.QuotaDeadLetters, most, 0.5*most, over*most) // less if two nodes drop the oldest at the same time
		if n := l.count(t, "dead-letters", rouse.StateDead); n < 0.5*most || float64(n) > over*most {
			t.Errorf("%d dead letters are kept, of %d", n, most)
		}
	}}
}

// groups returns the keys of the groups that all nodes have.
func (l *bounded) groups() (keys []string) {
	for _, n := range l.nodes {
		for _, g := range views(n)[0].Groups {
			keys = append(keys, g.Key)
		}
	}
	return keys
}

func (l *bounded) poolGroups(t *testing.T) trial {
	const most, keys = 20, 50
	l.put(t, "pool-groups", rouse.Quotas{PoolGroups: most})
	for i := range keys {
		key := fmt.Sprint("k", i)
		if _, err := l.clients[i%len(l.clients)].Call(t.Context(), client.Call{Namespace: "pool-groups", Pool: "core", Key: key, ID: key, Deadline: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	var first []string
	return trial{func() {
		l.shown(t, "pool-groups", rouse.QuotaPoolGroups, most, under*most, over*most)
		if first = l.groups(); float64(len(first)) < under*most || float64(len(first)) > over*most {
			t.Errorf("%d groups, of %d", len(first), most)
		}
		for _, key := range first {
			if _, err := l.clients[0].Delete(t.Context(), "pool-groups", "call~"+key); err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		poll.Until(t, "other keys have their turn, and no more", func() bool {
			all := l.groups()
			fresh := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return slices.Contains(first, key) })
			return float64(len(fresh)) >= under*most && float64(len(all)) <= over*most
		})
	}}
}

// single is the trial of quotas of single timers, which each node refuses; an interval that is too short is
// invalid input.
func (l *bounded) single(t *testing.T) trial {
	l.put(t, "single", rouse.Quotas{MinInterval: time.Minute, ScheduleCost: 2})
	return trial{func() {
		for _, c := range l.clients {
			if _, err := c.Create(t.Context(), "single", "", rouse.Spec{Schedule: "@every 59s", Target: "stream:x"}); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("a short interval: %v", err)
			}
			if _, err := c.Create(t.Context(), "single", "", rouse.Spec{Schedule: "0 * * * *", Except: []string{"* 0-22 * * *"}, Target: "stream:x"}); !refused(t, err, rouse.QuotaScheduleCost) {
				t.Error("a costly schedule was accepted")
			}
			if _, err := c.Create(t.Context(), "single", "", later(1)); err != nil {
				t.Error(err)
			}
		}
	}, func() {
		for _, n := range l.nodes {
			text := get(t, "http://"+n.AdminAddr()+"/metrics")
			for name, want := range map[string]float64{"limit min_interval": 60, "limit schedule_cost": 2, "refused_total schedule_cost": 1, "used min_interval": 0, "used schedule_cost": 0} {
				metric, quota, _ := strings.Cut(name, " ")
				got, is := sample(text, fmt.Sprintf("rouse_quota_%s{namespace=\"single\",quota=%q} ", metric, quota))
				if got != want || is != (want > 0) { // single timers use nothing
					t.Errorf("%s is %g, want %g", name, got, want)
				}
			}
		}
	}}
}
