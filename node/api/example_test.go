package api_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
)

func Example() {
	n, err := node.Open(context.Background(), "mem:", node.WithAPI("127.0.0.1:0"))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	fmt.Println("it is served:", n.Addr() != "")
	// Output: it is served: true
}
