package pool_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/pool"
)

// A node without pools refuses requests for them.
func Example() {
	ctx := context.Background()
	n, err := node.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	_, err = n.Create(ctx, "job-17", rouse.Spec{Schedule: "@after 1s", Target: "pool:core/42"})
	fmt.Println(err)
	// Output: target "pool:core/42": names the pool core, which this node does not have; name one of its pools, or set pools
}
