package nats

import (
	"net/url"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/sink/sinktest"
	"github.com/rousehq/rouse/test/servers"
)

var wrongTargets = []string{"", "nats", "nats:", "nats:there", "nats:there/", "nats:none/x", "nats://there/x", "amqp:there/x/y", "nats:there/a.*", "nats:there/a.>",
	"nats:there/a..b", "nats:there/.a", "nats:there/a.", "nats:there/a%20b", "nats:there/$JS.API.INFO", "nats:there/_INBOX.x", "nats:there/a%0D%0Ab",
	"nats:there/%zz", "nats:there/a?via=kafka", "nats:there/a?mode=", "nats:there/" + string(make([]byte, 513))}

func TestContract(t *testing.T) {
	server := servers.NATS(t)
	for name, options := range map[string]string{"binary": "", "structured": "?mode=structured"} {
		t.Run(name, func(t *testing.T) {
			h := sinktest.Harness{Open: func(t *testing.T) *sinktest.Peer { return openPeer(t, server, options) }, Codes: true,
				Wrong: []rouse.Spec{{Target: "nats:there/x", Webhook: rouse.Webhook{Headers: map[string]string{"a": "b"}}}}}
			for _, target := range wrongTargets {
				h.Wrong = append(h.Wrong, rouse.Spec{Target: target})
			}
			sinktest.Run(t, h)
		})
	}
}

// answers are the answers of JetStream.
var answers = map[sinktest.Answer]string{
	sinktest.Take:   `{"stream":"orders","seq":1}`,
	sinktest.Fail:   `{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"orders","seq":0}`,
	sinktest.Reject: `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"orders","seq":0}`,
}

// openPeer is a subscriber that answers as JetStream does, as it is told.
func openPeer(t *testing.T, server, options string) *sinktest.Peer {
	t.Helper()
	conn, err := natsgo.Connect(server)
	if err != nil {
		t.Fatal(err)
	}
	arrivals := make(chan *sinktest.Arrival, 1000)
	_, err = conn.Subscribe("orders.due", func(m *natsgo.Msg) {
		f, err := read(m)
		if err != nil {
			t.Errorf("a message of %v and %q: %v", m.Header, m.Data, err)
		}
		arrivals <- &sinktest.Arrival{Fire: f, Answer: func(a sinktest.Answer) { _ = m.Respond([]byte(answers[a])) }} // the peer may have gone
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	c := broker.Connection{Name: "there", URL: server, Timeout: 5 * time.Second}
	p, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !p.away.Await(t.Context()) { // the contract allows no time for connecting
	}
	s := broker.New()
	s.Add(c, p)
	return &sinktest.Peer{
		Sink: s, Spec: rouse.Spec{Target: "nats:there/orders.due" + options},
		Next:   sinktest.From(arrivals),
		Vanish: conn.Close,
		Close: sync.OnceFunc(func() {
			conn.Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}),
	}
}

func read(m *natsgo.Msg) (rouse.Fire, error) {
	kind := m.Header.Get("content-type")
	if kind == "application/cloudevents+json" {
		return brokertest.Event(m.Data)
	}
	h := map[string]string{}
	for k := range m.Header {
		h[k] = m.Header.Get(k)
	}
	var err error
	if h["rouse-timer"], err = url.PathUnescape(h["rouse-timer"]); err != nil {
		return rouse.Fire{}, err
	}
	return brokertest.Facts(h, kind, m.Data)
}
