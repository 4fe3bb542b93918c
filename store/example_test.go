package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/store"
	_ "github.com/rousehq/rouse/store/mem"
)

// A program opens the kinds of stores that it imports. The error for another kind names the missing import.
func ExampleOpen() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:", store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	_, err = store.Open(ctx, "sqlite:timers.db", store.Options{})
	fmt.Println(err)
	// Output: store: is of the kind sqlite, which this program does not link: import _ "github.com/rousehq/rouse/store/sqlite"
}
