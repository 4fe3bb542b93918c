package brokertest_test

import (
	"testing"

	"github.com/rousehq/rouse/sink/broker"
	"github.com/rousehq/rouse/sink/broker/brokertest"
)

// The test of a publisher runs it against a real broker, and a proxy that breaks the network in between.
func Example() {
	var (
		server   brokertest.Broker
		newProxy func(t *testing.T) brokertest.Proxy
		open     func(c broker.Connection) (broker.Publisher, error)
		place    func(t *testing.T) string
		arrived  func(t *testing.T, target string) []string
	)
	TestFailures := func(t *testing.T) {
		brokertest.Run(t, brokertest.Harness{Broker: server, NewProxy: newProxy, Open: open, Place: place, Arrived: arrived})
	}
	_ = TestFailures
}
