//go:build unix

package servers

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that servers, also shared ones, leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
