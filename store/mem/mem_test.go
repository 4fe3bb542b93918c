package mem

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) rouse.Store { return New() })
}

func TestShared(t *testing.T) {
	storetest.RunShared(t, func(*testing.T) (rouse.Shared, func() rouse.Shared) {
		s := New()
		return s, func() rouse.Shared { return s }
	})
}

func TestClock(t *testing.T) {
	storetest.Clock(t, func(_ *testing.T, clock func() time.Time) rouse.Store { return NewWithClock(clock) })
}
