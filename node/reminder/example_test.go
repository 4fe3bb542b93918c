package reminder_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
	_ "github.com/rousehq/rouse/node/reminder"
)

func Example() {
	n, err := node.Open(context.Background(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Reminders = true })
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	fmt.Println("reminders are served with the API:", n.Addr() != "")
	// Output: reminders are served with the API: true
}
