package redis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/store/redis"
)

// Several servers share the timers. All nodes must list them in the same order.
func Example() {
	s, err := redis.Open(context.Background(), "redis://h1:6379/0,redis://h2:6379/0", redis.Options{Prefix: "rouse"})
	if err != nil {
		log.Fatal(err) // such as a server that may evict keys
	}
	defer s.Close()
	fmt.Println(s.Durability()) // what the settings of the servers can lose
}
