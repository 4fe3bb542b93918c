package mem

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) rouse.Store { return New() })
}
