package stream_test

import (
	"fmt"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/stream"
)

// Fires of a channel wait until a client subscribes to it. Obstacle names what they wait for.
func Example() {
	s := stream.New(stream.Options{})
	defer s.Close()
	spec := &rouse.Spec{Target: "stream:mail"}
	fmt.Println(s.Check(spec))
	fmt.Println(s.Obstacle("default", spec))
	// Output:
	// <nil>
	// no client subscribes to stream:mail
}
