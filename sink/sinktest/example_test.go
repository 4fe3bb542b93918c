package sinktest_test

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/sinktest"
)

// The test of a sink runs the contract against a peer: the other end of the sink's connection.
func Example() {
	var open func(t *testing.T) *sinktest.Peer // returns your sink with a peer that answers for its target
	TestContract := func(t *testing.T) {
		sinktest.Run(t, sinktest.Harness{Open: open, Wrong: []rouse.Spec{{Target: "https://"}, {Target: "mailto:a@example.com"}}})
	}
	_ = TestContract
}
