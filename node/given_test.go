package node

import (
	"context"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// sms is a sink of a program.
type sms struct{ sent chan string }

func (sms) Check(spec *rouse.Spec) error {
	if strings.Trim(spec.Target, "sm:+0123456789") != "" {
		return rouse.Refuse("target", spec.Target, "is no number", "write sms:+ and digits")
	}
	return nil
}

func (sms) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: spec.Target, Limit: 1, Batch: 1}
}

func (s sms) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i, f := range fires {
		s.sent <- f.Spec.Target + " " + string(f.Spec.Payload)
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
}

// TestASinkAndAStoreOfTheProgram: a program gives a node its own sink for a scheme, and its store, as values.
func TestASinkAndAStoreOfTheProgram(t *testing.T) {
	s := sms{make(chan string, 1)}
	store := mem.New()
	n, err := Open(t.Context(), "", WithSink("sms", s), WithStore(store))
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, n)()
	create(t, n, "hello", "@after 1ms", "sms:+4670123")
	if got := <-s.sent; got != "sms:+4670123 hello" {
		t.Errorf("the sink gets %q", got)
	}
	if _, err := n.Create(t.Context(), "bad", rouse.Spec{Schedule: "@after 1ms", Target: "sms:ada"}); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Errorf("what the sink refuses is created with the result %v", err)
	}
	rows, err := store.Get(t.Context(), []rouse.Key{{Namespace: "default", Name: "hello"}})
	if err != nil || len(rows) != 1 {
		t.Errorf("the program's store has %v, %v", rows, err)
	}
}

// TestSinksOfTheProgramThatAreRefused: their schemes are none of rouse's own. A store is given by its URL or
// as a value.
func TestSinksOfTheProgramThatAreRefused(t *testing.T) {
	for _, scheme := range []string{"http", "func", "stream", "dapr", "pool", "amqp", "", "SMS", "a b", "1a", "a:"} {
		if n, err := Open(t.Context(), "mem:", WithSink(scheme, sms{})); err == nil || !strings.Contains(err.Error(), "sinks") {
			t.Errorf("a sink for %q: %v", scheme, err)
			if err == nil {
				_ = n.Close()
			}
		}
	}
	if _, err := Open(t.Context(), "mem:", WithStore(mem.New())); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("two stores: %v", err)
	}
	if _, err := Open(t.Context(), "mem:", WithSink("sms", nil)); err == nil {
		t.Error("a sink that is nil is taken")
	}
}
