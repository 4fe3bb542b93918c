package function_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/function"
)

// What the function returns decides what follows. Programs usually register functions by node.Handle.
func Example() {
	s := function.New(function.Options{})
	err := s.Handle("print", func(_ context.Context, f rouse.Fire) error {
		switch f.Name {
		case "later":
			return function.RetryAfter(errors.New("the printer is warming up"), time.Minute)
		case "never":
			return function.Permanent(errors.New("no such printer"))
		}
		return nil
	}, function.Concurrency(1))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"now", "later", "never"} {
		fire := rouse.Fire{Namespace: "default", Name: name, Attempt: 1, Spec: &rouse.Spec{Target: "func:print"}}
		outcome := make(chan rouse.Outcome, 1)
		s.Deliver(context.Background(), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) { outcome <- o })
		switch o := <-outcome; o.Verdict {
		case rouse.Done:
			fmt.Println(name, "is done")
		case rouse.Failed:
			fmt.Println(name, "failed:", o.Detail, "- retry after", o.After)
		case rouse.Rejected:
			fmt.Println(name, "is a dead letter:", o.Detail)
		}
	}
	// Output:
	// now is done
	// later failed: the printer is warming up - retry after 1m0s
	// never is a dead letter: no such printer
}
