package all_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/all"
)

// With this import a program opens every kind of store by its URL, as rouse serve does.
func Example() {
	dir, err := os.MkdirTemp("", "rouse")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n, err := node.Open(context.Background(), "sqlite:"+filepath.Join(dir, "timers.db"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n.Close())
	// Output: <nil>
}
