package postgres_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/store/postgres"
)

// Open creates the schema, or migrates it, unless the role may not.
func Example() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://rouse:secret@db.internal:5432/app", postgres.Options{Schema: "rouse"})
	if err != nil {
		log.Fatal(err) // such as a server with fsync off, which could lose acknowledged writes
	}
	defer s.Close()
	now, err := s.Now(ctx) // the server's clock, which all nodes share
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(now)
}
