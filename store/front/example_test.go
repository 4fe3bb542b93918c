package front_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/store/front"
	"github.com/rousehq/rouse/store/postgres"
)

// The data is in PostgreSQL. While the Redis in front of it is unavailable, only timers of criticality 5 or
// more fire.
func Example() {
	s, err := front.Open(context.Background(), "postgres://rouse:secret@db.internal/app", "redis://cache.internal:6379/0",
		front.Options{SQL: postgres.Options{Schema: "rouse"}, Criticality: 5})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Printf("%+v\n", s.Stats())
}
