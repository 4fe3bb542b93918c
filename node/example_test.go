package node_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	n, err := node.Open(ctx, "mem:")                      // or "pebble:./data"
	if err != nil {
		log.Fatal(err)
	}
	err = n.Handle("greet", func(ctx context.Context, f rouse.Fire) error {
		fmt.Printf("hello %s\n", f.Spec.Payload)
		stop()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	spec := rouse.Spec{Schedule: "@after 1ms", Target: "func:greet", Payload: []byte("Gopher")}
	if _, err := n.Create(ctx, "hello", spec); err != nil {
		log.Fatal(err)
	}
	if err := n.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: hello Gopher
}
