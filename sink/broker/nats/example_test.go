package nats_test

import (
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/nats"
)

// A publisher connects in the background: an unavailable broker delays fires and prevents nothing else.
func Example() {
	c := broker.Connection{Name: "orders", URL: "nats://127.0.0.1:1"}
	p, err := nats.Open(c, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := broker.New()
	defer s.Close()
	s.Add(c, p)
	fmt.Println(s.Check(&rouse.Spec{Target: "nats:orders/orders.due"}))
	fmt.Println(s.Check(&rouse.Spec{Target: "nats:orders/orders.*"}))
	// Output:
	// <nil>
	// target "nats:orders/orders.*": has a subject with a wildcard, and a message has one subject; write nats:orders/SUBJECT, with words and dots between, such as orders.due
}
