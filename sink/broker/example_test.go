package broker_test

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
)

// printer publishes messages by printing them. Programs use broker.Open, which connects to a real broker.
type printer struct{}

func (printer) Check(*broker.Target) (wrong, cure string) { return "", "" }
func (printer) Obstacle() string                          { return "" }
func (printer) Close() error                              { return nil }

func (printer) Publish(_ context.Context, messages []broker.Message, f *broker.Flight) {
	for i, m := range messages {
		fmt.Printf("%s: %s\n", m.Target.Path, m.Fire.Spec.Payload)
		f.Settle(i, broker.Done)
	}
}

// A target names a connection, never an address. Connection.Allow limits the targets of a connection.
func Example() {
	s := broker.New()
	defer s.Close()
	s.Add(broker.Connection{Name: "orders", URL: "redis://cache.internal", Allow: []string{"order-"}}.WithDefaults(), printer{})

	fmt.Println(s.Check(&rouse.Spec{Target: "redis:orders/invoices"}))
	due := &rouse.Spec{Target: "redis:orders/order-due", Payload: []byte("17")}
	fmt.Println(s.Check(due))
	s.Deliver(context.Background(), []rouse.Fire{{ID: "fire-17", Namespace: "default", Name: "order-17", Attempt: 1, Spec: due}},
		func(_ int, o rouse.Outcome) { fmt.Println("done:", o.Verdict == rouse.Done) })
	// Output:
	// target "redis:orders/invoices": is not allowed for the connection orders; use one of the prefixes that its operator allows: order-
	// <nil>
	// order-due: 17
	// done: true
}
