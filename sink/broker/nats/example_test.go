package nats_test

import (
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/nats"
)

// Without "?via=core" a stream of JetStream must have the subject. Wildcards are refused.
func Example() {
	bus := broker.Connection{Name: "bus", URL: "nats://127.0.0.1:1"}
	p, err := nats.Open(bus, nil) // connects in the background
	if err != nil {
		log.Fatal(err)
	}
	sink := broker.New()
	sink.Add(bus, p)
	for _, target := range []string{"nats:bus/orders.due", "nats:bus/orders.due?via=core", "nats:bus/orders.*"} {
		fmt.Println(sink.Check(&rouse.Spec{Target: target}))
	}
	fmt.Println(sink.Close())
	// Output:
	// <nil>
	// <nil>
	// target "nats:bus/orders.*": has a subject with a wildcard, and a message has one subject; write nats:bus/SUBJECT, with words and dots between, such as orders.due
	// <nil>
}
