package dapr_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

func Example() {
	n, err := node.Open(context.Background(), "mem:", func(c *node.Config) { c.DaprListen = "127.0.0.1:0" })
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	fmt.Println("sidecars are served:", dapr.Of(n).Addr() != "")
	// Output: sidecars are served: true
}
