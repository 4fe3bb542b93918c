package nats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// admin returns a client of the test's own.
func admin(t testing.TB, server string, o ...natsgo.Option) (*natsgo.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := natsgo.Connect(server, o...)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

// newSink returns a sink with the connection "there".
func newSink(t testing.TB, c broker.Connection) *broker.Sink {
	t.Helper()
	return brokertest.Sink(t, c, open)
}

func open(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }

func newFire(name, target string) rouse.Fire { return brokertest.Fire("a", name, target) }

func TestFaults(t *testing.T) {
	server := servers.StartNATS(t)
	var places atomic.Int64
	brokertest.Run(t, brokertest.Harness{
		Broker:   server,
		NewProxy: func(t *testing.T) brokertest.Proxy { return servers.NewProxy(t, server.Addr()) },
		Open:     open,
		Once:     true,
		Place: func(t *testing.T) string {
			name := fmt.Sprintf("place-%d", places.Add(1))
			conn, js := admin(t, server.URL())
			defer conn.Close()
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
				t.Fatal(err)
			}
			return "nats:there/" + name
		},
		Arrived: func(t *testing.T, target string) (ids []string) {
			conn, js := admin(t, server.URL())
			defer conn.Close()
			stream, err := js.Stream(t.Context(), strings.TrimPrefix(target, "nats:there/"))
			if err != nil {
				t.Fatal(err)
			}
			state := stream.CachedInfo().State
			for n := state.FirstSeq; n <= state.LastSeq && state.Msgs > 0; n++ {
				m, err := stream.GetMsg(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, m.Header.Get(natsgo.MsgIdHdr))
			}
			return ids
		},
	})
}

func TestStreamsAndTheirRefusals(t *testing.T) {
	server := servers.NATS(t)
	conn, js := admin(t, server)
	defer conn.Close()
	for _, c := range []jetstream.StreamConfig{
		{Name: "orders", Subjects: []string{"orders.>"}},
		{Name: "small", Subjects: []string{"small"}, MaxMsgs: 1, Discard: jetstream.DiscardNew},
		{Name: "narrow", Subjects: []string{"narrow"}, MaxMsgSize: 16},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	s := newSink(t, broker.Connection{URL: server})
	same := newFire("coffee", "nats:there/orders.due")
	for _, c := range []struct {
		fire   rouse.Fire
		want   rouse.Verdict
		code   int
		detail string
	}{
		{same, rouse.Done, 0, ""},
		{same, rouse.Done, 0, ""}, // the stream has it
		{newFire("a", "nats:there/small"), rouse.Done, 0, ""},
		{newFire("b", "nats:there/small"), rouse.Failed, 503, "maximum messages exceeded"},
		{newFire("c", "nats:there/narrow"), rouse.Rejected, 400, "message size exceeds"},
		{newFire("d", "nats:there/missing"), rouse.Failed, 503, "no stream of JetStream has the subject missing"},
	} {
		if o := brokertest.Deliver(t, s, c.fire); o.Verdict != c.want || o.Code != c.code || !strings.Contains(o.Detail, c.detail) {
			t.Errorf("%s: %v %d %s", c.fire.Spec.Target, o.Verdict, o.Code, o.Detail)
		}
	}
	stream, err := js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the stream has %d messages of one fire that was sent twice", n)
	}
}

// A message that is too large for the server, or for its stream, takes no other with it.
func TestAMessageThatIsTooLarge(t *testing.T) {
	server := servers.StartNATS(t, "max_payload=50000").URL()
	conn, js := admin(t, server)
	defer conn.Close()
	for _, c := range []jetstream.StreamConfig{
		{Name: "orders", Subjects: []string{"orders"}},
		{Name: "narrow", Subjects: []string{"narrow"}, MaxMsgSize: 20_000},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.SubscribeSync("heard"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, broker.Connection{URL: server})
	brokertest.OneTooLarge(t, s, "nats:there/orders", 100_000, "NATS takes 50000")
	brokertest.OneTooLarge(t, s, "nats:there/heard?via=core", 100_000, "NATS takes 50000")
	brokertest.OneTooLarge(t, s, "nats:there/narrow", 40_000, "max_msg_size of the stream narrow")
}

func TestCoreNATS(t *testing.T) {
	server := servers.NATS(t)
	conn, _ := admin(t, server)
	defer conn.Close()
	got := make(chan *natsgo.Msg, 1000)
	if _, err := conn.ChanSubscribe("heard", got); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, broker.Connection{URL: server})
	brokertest.Deliver(t, s, newFire("first", "nats:there/heard?via=core"))
	list := make([]rouse.Fire, 100) // those that are heard between those that are not
	for i := range list {
		list[i] = newFire(fmt.Sprint(i), "nats:there/"+[]string{"heard", "unheard"}[i%2]+"?via=core")
	}
	outcomes := make([]rouse.Outcome, len(list))
	var mu sync.Mutex
	s.Deliver(t.Context(), list, func(i int, o rouse.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[i] = o
	})
	for i, o := range outcomes {
		if want := []rouse.Verdict{rouse.Done, rouse.Failed}[i%2]; o.Verdict != want {
			t.Errorf("fire %d: %v %s, want %v", i, o.Verdict, o.Detail, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 51 {
		select {
		case <-got:
		case <-ctx.Done():
			t.Fatal("what was done did not come")
		}
	}
}

func TestMessages(t *testing.T) {
	server := servers.NATS(t)
	conn, _ := admin(t, server)
	defer conn.Close()
	sub, err := conn.SubscribeSync("orders.due")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, broker.Connection{URL: server})
	f := newFire("café %", "nats:there/orders.due?via=core")
	if o := brokertest.Deliver(t, s, f); o.Verdict != rouse.Done {
		t.Fatalf("%v %s", o.Verdict, o.Detail)
	}
	m, err := sub.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{"Nats-Msg-Id": f.ID, "ce-specversion": "1.0", "ce-id": f.ID, "ce-type": "dev.rouse.fire.v1", "ce-time": "2027-01-31T09:00:00.000Z",
		"ce-source": "/namespaces/a/timers/caf%25C3%25A9%2520%2525", "ce-subject": "caf%C3%A9%20%25", "ce-datacontenttype": "application/json", "ce-attempt": "1",
		"ce-token": "9", "ce-generation": "7", "rouse-timer": "caf%C3%A9%20%25", "rouse-last": "false", "content-type": "application/json"} {
		if got := m.Header.Get(k); got != want {
			t.Errorf("header %s is %q, not %q", k, got, want)
		}
	}
	if string(m.Data) != `{"cups":2}` {
		t.Errorf("%s", m.Data)
	}
}
