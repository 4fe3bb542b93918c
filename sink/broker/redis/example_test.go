package redis_test

import (
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/redis"
)

// A publisher connects in the background: an unavailable broker delays fires and prevents nothing else.
func Example() {
	c := broker.Connection{Name: "orders", URL: "redis://127.0.0.1:1/0"}
	p, err := redis.Open(c, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := broker.New()
	defer s.Close()
	s.Add(c, p)
	fmt.Println(s.Check(&rouse.Spec{Target: "redis:orders/orders-due"}))
	fmt.Println(s.Check(&rouse.Spec{Target: "redis:orders/rouse:x"}))
	// Output:
	// <nil>
	// target "redis:orders/rouse:x": has a key as rouse's own are; write redis:orders/STREAM, with the key of a stream, such as orders-due
}
