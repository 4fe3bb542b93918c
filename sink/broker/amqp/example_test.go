package amqp_test

import (
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/amqp"
)

// A publisher connects in the background: an unavailable broker delays fires and prevents nothing else.
func Example() {
	c := broker.Connection{Name: "orders", URL: "amqp://127.0.0.1:1/"}
	p, err := amqp.Open(c, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := broker.New()
	defer s.Close()
	s.Add(c, p)
	fmt.Println(s.Check(&rouse.Spec{Target: "amqp:orders/events/order.due"}))
	fmt.Println(s.Check(&rouse.Spec{Target: "amqp:orders"}))
	// Output:
	// <nil>
	// target "amqp:orders": names a connection and no place at its broker; write amqp:CONNECTION/EXCHANGE/ROUTING.KEY
}
