package redis

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// admin returns a client of the test's own.
func admin(t testing.TB, server string) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(o)
	return client
}

// newSink returns a sink with the connection "there".
func newSink(t testing.TB, c broker.Connection) *broker.Sink {
	t.Helper()
	return brokertest.Sink(t, c, open)
}

func open(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }

func newFire(name, target string) rouse.Fire { return brokertest.Fire("a", name, target) }

// once delivers one fire.
func once(t testing.TB, s *broker.Sink, f rouse.Fire) (o rouse.Outcome) {
	t.Helper()
	s.Deliver(t.Context(), []rouse.Fire{f}, func(_ int, got rouse.Outcome) { o = got })
	return o
}

func TestFaults(t *testing.T) {
	server := servers.StartRedis(t)
	var places atomic.Int64
	brokertest.Run(t, brokertest.Harness{
		Broker:   server,
		NewProxy: func(t *testing.T) brokertest.Proxy { return servers.NewProxy(t, server.Addr()) },
		Open:     open,
		Place:    func(*testing.T) string { return fmt.Sprintf("redis:there/place-%d", places.Add(1)) },
		Arrived: func(t *testing.T, target string) (ids []string) {
			client := admin(t, server.URL())
			defer client.Close() //nolint:errcheck // of a test
			list, err := client.XRange(t.Context(), strings.TrimPrefix(target, "redis:there/"), "-", "+").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				ids = append(ids, m.Values["id"].(string))
			}
			return ids
		},
	})
}

func TestEntries(t *testing.T) {
	server := servers.Redis(t)
	client := admin(t, server)
	defer client.Close() //nolint:errcheck // of a test
	s := newSink(t, broker.Connection{URL: server})
	f := newFire("café %", "redis:there/orders%3Fdue")
	if o := once(t, s, f); o.Verdict != rouse.Done {
		t.Fatalf("%v %s", o.Verdict, o.Detail)
	}
	list, err := client.XRange(t.Context(), "orders?due", "-", "+").Result()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	for k, want := range map[string]string{"specversion": "1.0", "id": f.ID, "type": "dev.rouse.fire.v1", "time": "2027-01-31T09:00:00.000Z", "subject": "café %",
		"source": "/namespaces/a/timers/caf%C3%A9%20%25", "datacontenttype": "application/json", "attempt": "1", "token": "9", "generation": "7", "namespace": "a",
		"manual": "false", "last": "false", "data": `{"cups":2}`} {
		if list[0].Values[k] != want {
			t.Errorf("field %s is %v, not %s", k, list[0].Values[k], want)
		}
	}
}

func TestCertificates(t *testing.T) {
	f := brokertest.NewFiles(t)
	front := brokertest.Front(t, f, servers.StartRedis(t).Addr())
	open := func(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }
	brokertest.TLS(t, f, "rediss://"+front+"/0", open, func(t *testing.T, s *broker.Sink) {
		if o := once(t, s, newFire("a", "redis:there/orders")); o.Verdict != rouse.Done {
			t.Errorf("%v %s", o.Verdict, o.Detail)
		}
	})
}

func TestStreamsAreCut(t *testing.T) {
	server := servers.Redis(t)
	client := admin(t, server)
	defer client.Close() //nolint:errcheck // of a test
	s := newSink(t, broker.Connection{URL: server, MaxLength: 100})
	fires := make([]rouse.Fire, 1000)
	for i := range fires {
		fires[i] = newFire(fmt.Sprint(i), "redis:there/orders")
	}
	s.Deliver(t.Context(), fires, func(i int, o rouse.Outcome) {
		if o.Verdict != rouse.Done {
			t.Errorf("fire %d: %v %s", i, o.Verdict, o.Detail)
		}
	})
	if n := client.XLen(t.Context(), "orders").Val(); n < 100 || n > 400 { // about: Redis cuts whole nodes of 100 entries
		t.Errorf("the stream has %d entries", n)
	}
}

func TestWhatRedisRefuses(t *testing.T) {
	server := servers.StartRedis(t)
	client := admin(t, server.URL())
	defer client.Close() //nolint:errcheck // of a test
	if err := client.Set(t.Context(), "text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, broker.Connection{URL: server.URL(), Patience: time.Hour})
	if o := once(t, s, newFire("a", "redis:there/text")); o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "WRONGTYPE") {
		t.Errorf("a key that is no stream: %v %s", o.Verdict, o.Detail)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	f := newFire("b", "redis:there/orders")
	if o := once(t, s, f); o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, "OOM") {
		t.Errorf("full: %v %s", o.Verdict, o.Detail)
	}
	if why := s.Obstacle("a", f.Spec); !strings.Contains(why, "OOM") {
		t.Errorf("what is in the way is %q", why)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if o := once(t, s, f); o.Verdict != rouse.Done || s.Obstacle("a", f.Spec) != "" {
		t.Errorf("with room again: %v %s, %s", o.Verdict, o.Detail, s.Obstacle("a", f.Spec))
	}
	if err := client.ConfigSet(t.Context(), "requirepass", "hush").Err(); err != nil {
		t.Fatal(err)
	}
	c := broker.Connection{Name: "there", URL: "redis://:guess@" + server.Addr(), Patience: time.Hour}
	p, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := broker.New()
	wrong.Add(c, p)
	defer wrong.Close() //nolint:errcheck // of a test
	brokertest.Obstacle(t, p, "WRONGPASS")
	if o := once(t, wrong, f); o.Verdict != rouse.Deferred {
		t.Errorf("wrong password: %v %s", o.Verdict, o.Detail)
	}
}

func TestReplicasAreWaitedFor(t *testing.T) {
	server := servers.StartRedis(t, "repl-diskless-sync-delay=0").URL()
	s := newSink(t, broker.Connection{URL: server, Replicas: 1})
	f := newFire("a", "redis:there/orders")
	f.Spec.Retry.Timeout = time.Second
	if o := once(t, s, f); o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "0 of 1 replicas") {
		t.Errorf("without a replica: %v %s", o.Verdict, o.Detail)
	}
	replica := servers.StartRedis(t)
	client := admin(t, replica.URL())
	defer client.Close() //nolint:errcheck // of a test
	host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(server, "redis://"), "/0"), ":")
	if err := client.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	f.Spec.Retry.Timeout = 20 * time.Second
	for end := time.Now().Add(time.Minute); ; {
		o := once(t, s, f)
		if o.Verdict == rouse.Done {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v %s", o.Verdict, o.Detail)
		}
	}
	if n := client.XLen(t.Context(), "orders").Val(); n == 0 {
		t.Error("the replica has nothing")
	}
}
