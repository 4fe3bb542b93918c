// Embed is a program that has its own timers, without a server: it greets every second, until it is
// interrupted. Its timers are in ./embed-data, so a greeting that came due while it was not running is made
// up for when it starts again.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "pebble:./embed-data"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store string) error {
	n, err := node.Open(ctx, store)
	if err != nil {
		return err
	}
	defer n.Close()
	err = n.Handle("greet", func(ctx context.Context, f rouse.Fire) error {
		fmt.Printf("hello %s, due %v\n", f.Spec.Payload, f.Due)
		return nil
	})
	if err != nil {
		return err
	}
	spec := rouse.Spec{Schedule: "@every 1s", Target: "func:greet", Payload: []byte("Ada")}
	if _, err := n.Create(ctx, "hello", spec); err != nil && !errors.Is(err, rouse.ErrExists) {
		return err
	}
	return n.Run(ctx)
}
