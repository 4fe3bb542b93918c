package principals_test

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/principals"
)

func Example() {
	_, err := node.Open(context.Background(), "mem:", func(c *node.Config) { c.Principals = "nothing.yaml" })
	fmt.Println(err != nil)
	// Output: true
}
