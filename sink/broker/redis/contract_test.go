package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/sink/sinktest"
	"github.com/rousehq/rouse/test/servers"
)

var wrongTargets = []string{"", "redis", "redis:", "redis:there", "redis:there/", "redis:none/x", "redis://there/x", "rediss:there/x", "redis:there/rouse:queue:rouse",
	"redis:there/{rouse}x", "redis:there/%72ouse:x", "redis:there/%zz", "redis:there/%0A", "redis:there/x?via=core", "redis:there/" + string(make([]byte, 1025))}

func TestContract(t *testing.T) {
	// The smallest limits that Redis allows: they refuse no fire.
	server := servers.StartRedis(t, "proto-max-bulk-len=1mb", "client-query-buffer-limit=1mb").URL()
	for name, options := range map[string]string{"binary": "", "structured": "?mode=structured"} {
		t.Run(name, func(t *testing.T) {
			h := sinktest.Harness{Open: func(t *testing.T) *sinktest.Peer { return openPeer(t, server, options) }, NoReject: true,
				Wrong: []rouse.Spec{{Target: "redis:there/x", Webhook: rouse.Webhook{Structured: true}}}}
			for _, target := range wrongTargets {
				h.Wrong = append(h.Wrong, rouse.Spec{Target: target})
			}
			sinktest.Run(t, h)
		})
	}
}

// openPeer returns a reader of a stream, and the relay that answers the sink as the reader decides.
func openPeer(t *testing.T, server, options string) *sinktest.Peer {
	t.Helper()
	o, err := goredis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(o)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, server)
	arrivals := make(chan *sinktest.Arrival, 1000)
	life, end := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := "0"; life.Err() == nil; {
			streams, err := client.XRead(life, &goredis.XReadArgs{Streams: []string{"orders", last}, Block: 20 * time.Millisecond}).Result()
			if err != nil {
				continue // nothing came, or the end
			}
			for _, m := range streams[0].Messages {
				last = m.ID
				f, err := read(m.Values)
				if err != nil {
					t.Errorf("an entry of %v: %v", m.Values, err)
				}
				arrivals <- &sinktest.Arrival{Fire: f, Answer: func(a sinktest.Answer) { r.answer(f.ID, a == sinktest.Take) }}
			}
		}
	})
	c := broker.Connection{Name: "there", URL: r.URL(server), Timeout: 5 * time.Second}
	p, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !p.away.Await(t.Context()) { // the contract allows no time for connecting
	}
	s := broker.New()
	s.Add(c, p)
	return &sinktest.Peer{
		Sink: s, Spec: rouse.Spec{Target: "redis:there/orders" + options},
		Next:   sinktest.From(arrivals),
		Vanish: r.Close,
		Close: sync.OnceFunc(func() {
			r.Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			end()
			reading.Wait()
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}),
	}
}

func read(values map[string]any) (rouse.Fire, error) {
	text := func(name string) string {
		s, _ := values[name].(string)
		return s
	}
	if event := text("event"); event != "" {
		return brokertest.Event([]byte(event))
	}
	return brokertest.Facts(map[string]string{"rouse-fire-id": text("id"), "rouse-namespace": text("namespace"), "rouse-timer": text("subject"), "rouse-due": text("time"),
		"rouse-attempt": text("attempt"), "rouse-token": text("token"), "rouse-generation": text("generation"), "rouse-manual": text("manual"), "rouse-last": text("last"), "traceparent": text("traceparent")},
		text("datacontenttype"), []byte(text("data")))
}
