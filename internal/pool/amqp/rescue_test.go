package amqp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

const frame = 1 << 16

// fakeQueue is a quorum queue behind the HTTP API: what was requeued comes before what never was fetched.
type fakeQueue struct {
	mu       sync.Mutex
	requeued []string
	fresh    []string
}

func (q *fakeQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var in struct {
		Ackmode, Payload string
		Properties       struct {
			CorrelationID string `json:"correlation_id"`
		}
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case strings.HasSuffix(r.URL.Path, "/exchanges/v/x/publish"):
		q.fresh = append(q.fresh, in.Properties.CorrelationID)
		fmt.Fprint(w, `{"routed":true}`)
	case len(q.requeued)+len(q.fresh) == 0:
		fmt.Fprint(w, `[]`)
	default:
		all := append(q.requeued, q.fresh...)
		first := all[0]
		if len(q.requeued) > 0 {
			q.requeued = q.requeued[1:]
		} else {
			q.fresh = q.fresh[1:]
		}
		if in.Ackmode == "ack_requeue_true" {
			q.requeued = append(slices.Clone(q.requeued), first)
		}
		headers := `[]`
		if strings.HasPrefix(first, "large") {
			headers = fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", frame))
		}
		fmt.Fprintf(w, `[{"payload":"","payload_encoding":"base64","routing_key":"k","properties":{"correlation_id":%q,"headers":%s}}]`, first, headers)
	}
}

// TestRescueLosesNothing checks that each message is stored or in its queue at any time, whichever cannot be
// stored, and that rescue removes what was stored.
func TestRescueLosesNothing(t *testing.T) {
	var many []string
	for i := range rescueMost + 20 {
		many = append(many, fmt.Sprint("large ", i))
	}
	for name, test := range map[string]struct {
		requeued, fresh []string
		refused         []string // of one message
		broken          string   // at which the session ends
		left            int
	}{
		"all":              {requeued: []string{"a", "large b", "c"}, fresh: []string{"large d", "e", "f"}, left: 1},
		"fresh":            {fresh: []string{"a", "large b", "large c", "d", "e"}, left: 1},
		"one is refused":   {requeued: []string{"a", "large b", "c"}, fresh: []string{"d"}, refused: []string{"large b"}, left: 2},
		"all are refused":  {requeued: []string{"a", "large b"}, fresh: []string{"c"}, refused: []string{"a", "large b"}, left: 3},
		"the session ends": {requeued: []string{"a", "large b", "c"}, broken: "large b", left: 3},
		"many":             {requeued: many, left: 20},
		"many, refused":    {requeued: many, refused: []string{"large 3", "large 105"}, left: 21},
	} {
		t.Run(name, func(t *testing.T) {
			q := &fakeQueue{requeued: test.requeued, fresh: test.fresh}
			server := httptest.NewServer(q)
			defer server.Close()
			api, err := newManagement(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer api.client.CloseIdleConnections()
			all := slices.Concat(test.requeued, test.fresh)
			stored := map[string]bool{}
			check := func() (left []string) {
				q.mu.Lock()
				defer q.mu.Unlock()
				left = slices.Concat(q.requeued, q.fresh)
				for _, id := range all {
					if !stored[id] && !slices.Contains(left, id) {
						t.Errorf("%q is lost", id)
					}
				}
				return left
			}
			c := &Controller{api: api, vhost: "v"}
			err = c.handleLargeMessages(t.Context(), frame, "q", "x", func(d *amqp091.Delivery, large bool) error {
				id := d.CorrelationId
				if large != strings.HasPrefix(id, "large") {
					t.Errorf("%q is large: %v", id, large)
				}
				check()
				switch {
				case id == test.broken:
					return amqplink.ErrBroken
				case slices.Contains(test.refused, id):
					return amqplink.ErrRefused
				}
				stored[id] = true
				return nil
			})
			if (err != nil) != (test.refused != nil || test.broken != "") {
				t.Error(err)
			}
			if left := check(); len(left) != test.left {
				t.Errorf("%q are left, not %d", left, test.left)
			}
		})
	}
}

// TestRescueHandlesWhatCameBetween is the case of another message at the head of the queue when a stored one
// is to be removed.
func TestRescueHandlesWhatCameBetween(t *testing.T) {
	q := &fakeQueue{fresh: []string{"large a"}}
	server := httptest.NewServer(q)
	defer server.Close()
	api, err := newManagement(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer api.client.CloseIdleConnections()
	r := rescue{c: &Controller{api: api, vhost: "v"}, queue: "q", exchange: "x",
		handle: func(*amqp091.Delivery, bool) error { return amqplink.ErrBroken }, large: func(*amqp091.Delivery) bool { return true }}
	if err := r.removeStored(t.Context(), []seen{{stored: true}}); err == nil {
		t.Error("it does not fail")
	}
	if !slices.Equal(q.fresh, []string{"large a"}) {
		t.Errorf("the queue has %q", q.fresh)
	}
}

// TestMessagesWithoutProperties checks that a message is understood although RabbitMQ answers with an empty
// list for its properties, or headers, when there are none.
func TestMessagesWithoutProperties(t *testing.T) {
	for _, text := range []string{`[]`, `{}`, `{"headers":[]}`, `{"headers":{}}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `[{"payload":"eA==","payload_encoding":"base64","routing_key":"k","properties":%s}]`, text)
		}))
		api, err := newManagement(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		d, ok, err := api.fetchMessage(t.Context(), "v", "q", true)
		if err != nil || !ok || string(d.Body) != "x" || d.RoutingKey != "k" || len(d.Headers) > 0 {
			t.Errorf("properties %s: %+v, %v, %v", text, d, ok, err)
		}
		api.client.CloseIdleConnections()
		server.Close()
	}
}

// TestFetchedMessagesCanBePutBack checks, with RabbitMQ, that a message is the same after it was fetched and
// published again, also one without properties.
func TestFetchedMessagesCanBePutBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	api, err := newManagement(h.api)
	if err != nil {
		t.Fatal(err)
	}
	defer api.client.CloseIdleConnections()
	messages := []amqp091.Publishing{{Body: []byte("bare")}, {Body: []byte("full"), Headers: amqp091.Table{"a": int64(1), "b": "x", "c": []any{"y"}},
		ContentType: "text/plain", DeliveryMode: amqp091.Persistent, Priority: 3, CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m",
		Timestamp: time.Unix(1_700_000_000, 0), Type: "t", AppId: "a"}}
	if err := h.try(func(ch *amqp091.Channel) error {
		err := ch.ExchangeDeclare("x", amqp091.ExchangeFanout, true, false, false, false, nil)
		if err == nil {
			_, err = ch.QueueDeclare("q", true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})
		}
		if err == nil {
			err = ch.QueueBind("q", "", "x", false, nil)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.publish("x", "k", messages...)
	var first [][sha256.Size]byte
	for i := range 2 * len(messages) {
		var d amqp091.Delivery
		h.eventually("there is a message", func() bool {
			var ok bool
			if d, ok, err = api.fetchMessage(t.Context(), h.vhost(), "q", false); err != nil {
				t.Fatal(err)
			}
			return ok
		})
		if want := messages[i%2]; string(d.Body) != string(want.Body) || d.RoutingKey != "k" || d.MessageId != want.MessageId || len(withoutBrokerHeaders(&d).Headers) != len(want.Headers) {
			t.Errorf("it is fetched as %+v", d)
		}
		if first = append(first, fingerprintOf(&d)); i < 2 {
			if err := api.republishDelivery(t.Context(), h.vhost(), "x", &d); err != nil {
				t.Error(err)
			}
		} else if first[i] != first[i-2] {
			t.Errorf("it is put back as %+v", d)
		}
	}
}
