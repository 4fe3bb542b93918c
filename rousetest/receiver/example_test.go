package receiver_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/rousehq/rouse/rousetest/receiver"
)

// A receiver whose first answer is 503, as that of an overloaded service.
func Example() {
	r := receiver.New(receiver.Options{})
	defer r.Close()
	r.Script(receiver.Status(http.StatusServiceUnavailable))
	for range 2 {
		reply, err := http.Post(r.URL(), "text/plain", strings.NewReader("17 crowns"))
		if err != nil {
			log.Fatal(err)
		}
		reply.Body.Close()
		arrival, err := r.Next(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s: %d\n", arrival.Method, arrival.Body, reply.StatusCode)
	}
	// Output:
	// POST 17 crowns: 503
	// POST 17 crowns: 200
}
