package brokertest

import (
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
	return rouse.Fire{ID: rouse.FireID(namespace, name, 7, due, false), Namespace: namespace, Name: name, Generation: 7, Due: due, Attempt: 1, Token: 9,
		Spec: &rouse.Spec{Target: target, Payload: []byte(`{"cups":2}`), ContentType: "application/json", Retry: rouse.Retry{Timeout: 20 * time.Second}}}
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
