package amqp

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
	"github.com/rousehq/rouse/test/servers"
)

// dial returns a channel of the test's own.
func dial(t testing.TB, url string) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the broker may be gone
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func declare(t testing.TB, ch *amqp091.Channel, name string, args amqp091.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
}

// newSink returns a sink with the connection "there".
func newSink(t testing.TB, url string) *broker.Sink {
	t.Helper()
	return brokertest.Sink(t, broker.Connection{URL: url, Patience: time.Hour, Timeout: 5 * time.Second}, open)
}

func open(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }

// TestRabbitMQ is all that needs one: its start takes seconds.
func TestRabbitMQ(t *testing.T) {
	s := servers.StartRabbitMQ(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, url string)
	}{
		{"contract", contract},
		{"messages", messages},
		{"messages that no queue takes fail", unroutable},
		{"a queue that is full fails", full},
		{"certificates", certificates},
		{"fires wait while publishers are blocked", blocked},
		{"a channel that retires leaves its place to another", retires},
		{"an exchange that is missing fails its own fires only", missing},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s.URL()) })
	}
	t.Run("a message that is refused takes no other with it", func(t *testing.T) { refused(t, s) })
	t.Run("faults", func(t *testing.T) { faults(t, s) })
}

func faults(t *testing.T, s *servers.Server) {
	var places atomic.Int64
	brokertest.Run(t, brokertest.Harness{
		Broker:   s,
		NewProxy: func(t *testing.T) brokertest.Proxy { return servers.NewProxy(t, s.Addr()) },
		Open:     open,
		Place: func(t *testing.T) string {
			name := fmt.Sprintf("place-%d", places.Add(1))
			conn, err := amqp091.Dial(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // of a test
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			declare(t, ch, name, nil)
			s.SyncDefinitions()
			return "amqp:there//" + name
		},
		Arrived: func(t *testing.T, target string) (ids []string) {
			conn, err := amqp091.Dial(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // of a test; what was not acknowledged stays
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			for {
				d, ok, err := ch.Get(strings.TrimPrefix(target, "amqp:there//"), false)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return ids
				}
				ids = append(ids, d.MessageId)
			}
		},
	})
}

func unroutable(t *testing.T, url string) {
	ch := dial(t, url)
	if err := ch.ExchangeDeclare("events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	declare(t, ch, "orders", nil)
	if err := ch.QueueBind("orders", "order.*", "events", false, nil); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, url)
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "routed", "amqp:there/events/order.due")); o.Verdict != rouse.Done {
		t.Errorf("routed: %v %s", o.Verdict, o.Detail)
	}
	for range 3 { // each time: a message that came back once must not count as another
		if o := brokertest.Deliver(t, s, brokertest.Fire("a", "lost", "amqp:there/events/invoice.due")); o.Verdict != rouse.Failed || o.Code != 312 || !strings.Contains(o.Detail, "NO_ROUTE") {
			t.Errorf("unroutable: %v %d %s", o.Verdict, o.Code, o.Detail)
		}
	}
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "lost", "amqp:there/events/order.late")); o.Verdict != rouse.Done {
		t.Errorf("routed: %v %s", o.Verdict, o.Detail)
	}
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "nowhere", "amqp:there//missing")); o.Verdict != rouse.Failed || o.Code != 312 {
		t.Errorf("no queue: %v %d %s", o.Verdict, o.Code, o.Detail)
	}
}

func full(t *testing.T, url string) {
	ch := dial(t, url)
	declare(t, ch, "small", amqp091.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	s := newSink(t, url)
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "first", "amqp:there//small")); o.Verdict != rouse.Done {
		t.Fatalf("%v %s", o.Verdict, o.Detail)
	}
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "second", "amqp:there//small")); o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "full") {
		t.Errorf("%v %s", o.Verdict, o.Detail)
	}
}

// RabbitMQ closes the channel of a message to an exchange that does not exist. That must not affect other
// messages in progress.
func missing(t *testing.T, url string) {
	declare(t, dial(t, url), "steady", nil)
	s := newSink(t, url)
	brokertest.Deliver(t, s, brokertest.Fire("good", "first", "amqp:there//steady"))
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range 50 {
			o := brokertest.Deliver(t, s, brokertest.Fire("bad", fmt.Sprint(i), "amqp:there/none/x"))
			if o.Verdict != rouse.Failed || o.Code != 404 || !strings.Contains(o.Detail, "no exchange 'none'") {
				t.Errorf("missing exchange: %v %d %s", o.Verdict, o.Code, o.Detail)
			}
		}
	})
	sending.Go(func() {
		for i := range 200 {
			f := brokertest.Fire("good", fmt.Sprint(i), "amqp:there//steady")
			s.Deliver(t.Context(), []rouse.Fire{f}, func(_ int, o rouse.Outcome) {
				if o.Verdict != rouse.Done {
					t.Errorf("another's fire: %v %s", o.Verdict, o.Detail)
				}
			})
		}
	})
	sending.Wait()
}

func refused(t *testing.T, server *servers.Server) {
	ch := dial(t, server.URL())
	declare(t, ch, "refused", amqp091.Table{"x-queue-type": "quorum"})
	if err := ch.ExchangeDeclare("guarded", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("refused", "#", "guarded", false, nil); err != nil {
		t.Fatal(err)
	}
	server.Eval(`application:set_env(rabbit, max_message_size, 50000)`)
	defer server.Eval(`application:unset_env(rabbit, max_message_size)`)
	server.Eval(`rabbit_auth_backend_internal:set_topic_permissions(<<"guest">>, <<"/">>, <<"guarded">>, <<"^open">>, <<"^open">>, <<"test">>)`)
	s := newSink(t, server.URL())
	brokertest.OneTooLarge(t, s, "amqp:there//refused", 100_000, "configured max size 50000")

	list := make([]rouse.Fire, 20)
	for i := range list {
		list[i] = brokertest.Fire("a", fmt.Sprint("topic", i), "amqp:there/guarded/"+[]string{"open", "closed"}[i%2])
	}
	var mu sync.Mutex
	s.Deliver(t.Context(), list, func(i int, o rouse.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if want := []rouse.Verdict{rouse.Done, rouse.Failed}[i%2]; o.Verdict != want || want == rouse.Failed && !strings.Contains(o.Detail, "topic 'closed'") {
			t.Errorf("%s: %v %d %s", list[i].Spec.Target, o.Verdict, o.Code, o.Detail)
		}
	})
}

func messages(t *testing.T, url string) {
	ch := dial(t, url)
	declare(t, ch, "messages", nil)
	s := newSink(t, url)
	for target, check := range map[string]func(d amqp091.Delivery){
		"amqp:there//messages": func(d amqp091.Delivery) {
			if d.ContentType != "application/json" || string(d.Body) != `{"cups":2}` {
				t.Errorf("%s %s", d.ContentType, d.Body)
			}
			for k, want := range map[string]any{"cloudEvents_specversion": "1.0", "cloudEvents_id": d.MessageId, "cloudEvents_type": "dev.rouse.fire.v1",
				"cloudEvents_time": "2027-01-31T09:00:00.000Z", "cloudEvents_source": "/namespaces/a/timers/caf%C3%A9%20%25", "cloudEvents_subject": "café %",
				"cloudEvents_attempt": int64(1), "rouse-timer": "café %", "rouse-attempt": int64(1), "rouse-last": false, "rouse-token": "9"} {
				if d.Headers[k] != want {
					t.Errorf("header %s is %v, not %v", k, d.Headers[k], want)
				}
			}
		},
		"amqp:there//messages?mode=structured": func(d amqp091.Delivery) {
			if d.ContentType != "application/cloudevents+json" || !strings.Contains(string(d.Body), `"data":{"cups":2}`) || d.Headers["cloudEvents_id"] != nil {
				t.Errorf("%s %s %v", d.ContentType, d.Body, d.Headers)
			}
		},
	} {
		f := brokertest.Fire("a", "café %", target)
		if o := brokertest.Deliver(t, s, f); o.Verdict != rouse.Done {
			t.Fatalf("%v %s", o.Verdict, o.Detail)
		}
		d, ok, err := ch.Get("messages", true)
		if err != nil || !ok {
			t.Fatalf("nothing arrived: %v", err)
		}
		if d.MessageId != f.ID || d.DeliveryMode != amqp091.Persistent || d.Type != "dev.rouse.fire.v1" || d.AppId != "rouse" {
			t.Errorf("%+v", d)
		}
		check(d)
	}
}

func blocked(t *testing.T, url string) {
	declare(t, dial(t, url), "blocked", nil)
	r := newRelay(t, url)
	defer r.Close()
	c := broker.Connection{Name: "there", URL: r.URL(url)}
	p, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New()
	s.Add(c, p)
	defer s.Close() //nolint:errcheck // of a test
	for !p.away.Await(t.Context()) {
	}
	const low, reason = "low on memory", "blocks publishers: low on memory"
	r.say(60, append([]byte{byte(len(low))}, low...)...) // connection.blocked
	f := brokertest.Fire("a", "first", "amqp:there//blocked")
	brokertest.Obstacle(t, p, reason)
	s.Deliver(t.Context(), []rouse.Fire{f}, func(_ int, o rouse.Outcome) {
		if o.Verdict != rouse.Deferred || !strings.Contains(o.Detail, reason) {
			t.Errorf("%v %s", o.Verdict, o.Detail)
		}
	})
	r.say(61) // connection.unblocked
	for end := time.Now().Add(time.Minute); p.Obstacle() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(p.Obstacle())
		}
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		if o := brokertest.Deliver(t, s, f); o.Verdict != rouse.Done {
			t.Errorf("%v %s", o.Verdict, o.Detail)
		}
	})
	r.answerWhenSent(f.ID)
	sending.Wait()
}

func retires(t *testing.T, url string) {
	declare(t, dial(t, url), "retired", nil)
	c := broker.Connection{Name: "there", URL: url}
	p, err := Open(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New()
	s.Add(c, p)
	defer s.Close() //nolint:errcheck // of a test
	key := channelKey{namespace: "a"}
	channels := func() (l *link, c *channel, open int) {
		l = p.awaitLink(t.Context())
		l.mu.Lock()
		defer l.mu.Unlock()
		return l, l.channels[key], l.open
	}
	brokertest.Deliver(t, s, brokertest.Fire("a", "first", "amqp:there//retired"))
	_, first, _ := channels()
	first.retireChannel()
	if o := brokertest.Deliver(t, s, brokertest.Fire("a", "second", "amqp:there//retired")); o.Verdict != rouse.Done {
		t.Errorf("%v %s", o.Verdict, o.Detail)
	}
	l, second, open := channels()
	if second == nil || second == first {
		t.Error("the channel that retired is still used")
	}
	for end := time.Now().Add(time.Minute); open != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d channels are open", open)
		}
		_, _, open = channels()
	}
	if l.conn.IsClosed() {
		t.Error("the connection ended with the channel")
	}
}

func certificates(t *testing.T, url string) {
	declare(t, dial(t, url), "certified", nil)
	u, err := amqp091.ParseURI(url)
	if err != nil {
		t.Fatal(err)
	}
	f := brokertest.NewFiles(t)
	front := brokertest.Front(t, f, fmt.Sprintf("%s:%d", u.Host, u.Port))
	open := func(c broker.Connection) (broker.Publisher, error) { return Open(c, nil) }
	brokertest.TLS(t, f, "amqps://guest:guest@"+front+"/", open, func(t *testing.T, s *broker.Sink) {
		if o := brokertest.Deliver(t, s, brokertest.Fire("a", "first", "amqp:there//certified")); o.Verdict != rouse.Done {
			t.Errorf("%v %s", o.Verdict, o.Detail)
		}
	})
}

func TestWhatTheEndOfAChannelMeans(t *testing.T) {
	for _, c := range []struct {
		err  *amqp091.Error
		want rouse.Verdict
		code int
	}{
		{nil, rouse.Failed, 0},
		{&amqp091.Error{Code: 320, Reason: "CONNECTION_FORCED"}, rouse.Failed, 0},
		{&amqp091.Error{Code: 403, Reason: "ACCESS_REFUSED"}, rouse.Failed, 403},
		{&amqp091.Error{Code: 406, Reason: "PRECONDITION_FAILED - message size 300000 is larger than configured max size 1000"}, rouse.Rejected, 406},
		{&amqp091.Error{Code: 311, Reason: "CONTENT_TOO_LARGE"}, rouse.Rejected, 311},
		{&amqp091.Error{Code: 406, Reason: "PRECONDITION_FAILED"}, rouse.Failed, 406},
	} {
		if o := endOutcome(c.err); o.Verdict != c.want || o.Code != c.code || o.Detail == "" {
			t.Errorf("%v means %+v", c.err, o)
		}
	}
}

func TestAnAddressIsNotRepeatedInErrors(t *testing.T) {
	for _, url := range []string{"amqp://user:secret@host:port/", "http://user:secret@x/", ""} {
		p, err := Open(broker.Connection{Name: "there", URL: url}, nil)
		if err == nil {
			t.Errorf("%q was opened", url)
			_ = p.Close()
			continue
		}
		if s := err.Error(); s == "" || strings.Contains(s, "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}
