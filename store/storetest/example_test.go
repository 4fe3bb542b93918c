package storetest_test

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
)

// The test of a store runs the contract, and compares the store with the model.
func Example() {
	TestContract := func(t *testing.T) {
		open := func(*testing.T) rouse.Store { return mem.New() } // your store
		storetest.Run(t, open)
		storetest.Compare(t, open, func() rouse.Store { return mem.New() })
	}
	_ = TestContract
}
