package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/sqlite"
)

// A timer is a row. The condition rouse.NoRow creates it, and a second create finds the first one.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "rouse")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := sqlite.Open(filepath.Join(dir, "timers.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	now, err := s.Now(ctx)
	if err != nil {
		log.Fatal(err)
	}
	key := rouse.Key{Namespace: "default", Name: "coffee"}
	row := rouse.Row{Key: key, State: rouse.StateScheduled, Due: now, Visible: now, Body: []byte("opaque")}
	for range 2 {
		results, err := s.Apply(ctx, []rouse.Change{{Key: key, If: rouse.NoRow, To: &row}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("created:", results[0].Applied)
	}
	due, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}, Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range due.Rows {
		fmt.Printf("due: %s, %s\n", row.Key.Name, row.Body)
	}
	// Output:
	// created: true
	// created: false
	// due: coffee, opaque
}
