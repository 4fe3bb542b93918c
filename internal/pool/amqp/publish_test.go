package amqp

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// TestForwardedRequests checks which properties of a request are forwarded: all that its worker may use, with
// the time to live reduced by the wait, and none that would make copies of it or cause the broker to refuse
// it.
func TestForwardedRequests(t *testing.T) {
	one := orphan{Delivery: amqp091.Delivery{
		Headers: amqp091.Table{"CC": []any{"k2"}, "BCC": []any{"k3"}, "x-delivery-count": int64(3), "traceparent": "00-1"}, UserId: "guest",
		CorrelationId: "c", ReplyTo: "r", MessageId: "m", Type: "t", AppId: "a", ContentType: "text/plain", Expiration: "60000", DeliveryMode: 2,
		Priority: 3, Body: []byte("x")}, came: time.Now().Add(-10 * time.Second), hops: 2}
	one.left = timeLeft(&one.Delivery)
	m := one.forwardedMessage()
	for _, name := range []string{"CC", "BCC", "x-delivery-count"} {
		if _, ok := m.Headers[name]; ok {
			t.Errorf("it has the header %s", name)
		}
	}
	if m.Headers["traceparent"] != "00-1" || m.Headers[hopsHeader] != int32(3) || m.UserId != "" || m.CorrelationId != "c" || m.ReplyTo != "r" ||
		m.MessageId != "m" || m.Type != "t" || m.AppId != "a" || m.ContentType != "text/plain" || m.DeliveryMode != 2 || m.Priority != 3 || string(m.Body) != "x" {
		t.Errorf("it is %+v", m)
	}
	if m.Expiration > "50000" || len(m.Expiration) != 5 {
		t.Errorf("after ten seconds of a minute it expires in %sms", m.Expiration)
	}
	one.came = time.Now().Add(-time.Hour)
	if m := one.forwardedMessage(); m.Expiration != "0" {
		t.Errorf("after its time it expires in %sms", m.Expiration)
	}
	one.Expiration, one.left = "", -1
	if m := one.forwardedMessage(); m.Expiration != "" {
		t.Errorf("without an end it expires in %sms", m.Expiration)
	}
	for n, header := range map[int]any{7: int32(7), 8: int64(8), 0: "9", mostHops: int64(1 << 40)} {
		if got := hopsOf(amqp091.Table{hopsHeader: header}); got != n {
			t.Errorf("%v hops are read as %d", header, got)
		}
	}
}
