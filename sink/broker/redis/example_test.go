package redis_test

import (
	"fmt"
	"log"

	"github.com/rousehq/rouse/sink/broker"
	_ "github.com/rousehq/rouse/sink/broker/redis"
)

// The import registers the kind of broker: Open then connects by the URL of a connection, in the background.
// Until the broker is available, fires wait.
func Example() {
	c := broker.Connection{Name: "feed", URL: "redis://127.0.0.1:1/0", MaxLength: 100_000}
	p, err := broker.Open(c, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Check(&broker.Target{Scheme: "redis", Connection: "feed", Path: "orders-due"}))
	fmt.Println(p.Check(&broker.Target{Scheme: "redis", Connection: "feed", Path: "rouse:x"}))
	if err := p.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// write redis:feed/STREAM, with the key of a stream, such as orders-due
	// has a key as rouse's own are write redis:feed/STREAM, with the key of a stream, such as orders-due
}
