package brokertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
)

// Sink returns a sink with the connection "there", which ends with the test.
func Sink(t testing.TB, c broker.Connection, open func(c broker.Connection) (broker.Publisher, error)) *broker.Sink {
	t.Helper()
	c.Name = "there"
	p, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New()
	s.Add(c, p)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Fire returns a fire with a payload.
func Fire(namespace, name, target string) rouse.Fire {
	due := rouse.At(time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC))
	return rouse.Fire{ID: rouse.FireID(namespace, name, 7, due, false), Namespace: namespace, Name: name, Generation: 7,
		Due: due, Attempt: 1, Token: 9,
		Spec: &rouse.Spec{Target: target, Payload: []byte(`{"cups":2}`), ContentType: "application/json",
			Retry: rouse.Retry{Timeout: 20 * time.Second}}}
}

// Deliver delivers one fire, again for as long as it is deferred.
func Deliver(t testing.TB, s *broker.Sink, f rouse.Fire) (o rouse.Outcome) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(min(o.After, 100*time.Millisecond)) {
		s.Deliver(t.Context(), []rouse.Fire{f}, func(_ int, got rouse.Outcome) { o = got })
		if o.Verdict != rouse.Deferred {
			return o
		}
	}
	t.Fatalf("deferred for %v: %s", patience, o.Detail)
	return o
}

// OneTooLarge delivers 100 fires, one of them with a payload of some bytes, which is more than the broker
// accepts: it is rejected at once, with the limit in its detail, and the others are done.
func OneTooLarge(t *testing.T, s *broker.Sink, target string, bytes int, limit string) {
	t.Helper()
	const large = 50
	list := make([]rouse.Fire, 100)
	for i := range list {
		list[i] = Fire("a", fmt.Sprint(i), target)
	}
	spec := *list[large].Spec
	spec.Payload = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
	list[large].Spec = &spec
	Deliver(t, s, Fire("a", "first", target)) // it is connected
	for i, o := range deliverOnce(t.Context(), s, list) {
		switch {
		case i != large && o.Verdict != rouse.Done:
			t.Errorf("the fire %d, which is small: %v %d %s", i, o.Verdict, o.Code, o.Detail)
		case i == large && (o.Verdict != rouse.Rejected || !strings.Contains(o.Detail, limit)):
			t.Errorf("the large fire: %v %d %s", o.Verdict, o.Code, o.Detail)
		}
	}
}
