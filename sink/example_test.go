package sink_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/sink/webhook"
)

// Mux selects a sink by the scheme of the target. The Breaker stops requests to a host or an address that
// keeps failing.
func Example() {
	functions, hooks := function.New(function.Options{}), webhook.New(webhook.Options{})
	defer hooks.Close()
	guarded := sink.NewBreaker(hooks, sink.BreakerOptions{})
	mux := sink.Mux{"func": functions, "http": guarded, "https": guarded}

	err := functions.Handle("mail", func(_ context.Context, f rouse.Fire) error {
		fmt.Printf("mail %s\n", f.Spec.Payload)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fire := rouse.Fire{Namespace: "default", Name: "welcome", Attempt: 1, Spec: &rouse.Spec{Target: "func:mail", Payload: []byte("17")}}
	outcome := make(chan rouse.Outcome, 1)
	mux.Deliver(context.Background(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) { outcome <- o })
	fmt.Println((<-outcome).Verdict == rouse.Done)
	fmt.Println(mux.Check(&rouse.Spec{Target: "ftp://example.com"}))
	// Output:
	// mail 17
	// true
	// target "ftp://example.com": has a scheme that no sink serves; begin it with func:, http:, https:
}
