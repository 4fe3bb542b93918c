// Callworker is a worker of a pool of rouse's own: it keeps a total for its key, and each request adds to it.
// A pool starts it, with its key and the address of its requests in variables, and stops it when the key has
// had no requests for a while.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/rousehq/rouse/client"
)

func main() {
	worker, err := client.ThisWorker()
	if err != nil {
		log.Fatal(err)
	}
	// With SIGTERM it takes no more requests, finishes the one that it has, and ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	// Load large data here: it is there for all requests of the key. One request is handled at a time.
	total := 0
	err = worker.Work(ctx, client.WorkOptions{}, func(_ context.Context, request client.Fire) (*client.Answer, error) {
		n, err := strconv.Atoi(strings.TrimSpace(string(request.Payload)))
		if err != nil {
			return nil, client.Permanent(fmt.Errorf("the request is no number: %w", err)) // another attempt would not fix it
		}
		total += n
		return &client.Answer{Payload: fmt.Appendf(nil, "%s has %d\n", worker.Key, total), ContentType: "text/plain"}, nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
