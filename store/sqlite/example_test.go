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

// What Apply has acknowledged is there when the file is opened again.
func Example() {
	dir, err := os.MkdirTemp("", "rouse")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, ctx := filepath.Join(dir, "timers.db"), context.Background()
	key := rouse.Key{Namespace: "default", Name: "coffee"}
	due := rouse.MinInstant
	for _, change := range []rouse.Change{
		{Key: key, If: rouse.NoRow, To: &rouse.Row{Key: key, State: rouse.StateScheduled, Due: due, Visible: due}},
		{Key: key, If: rouse.AnyRevision}, // remove it
	} {
		s, err := sqlite.Open(file, sqlite.Options{})
		if err != nil {
			log.Fatal(err)
		}
		results, err := s.Apply(ctx, []rouse.Change{change})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("existed before:", results[0].Existed)
		if err := s.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// existed before: false
	// existed before: true
}
