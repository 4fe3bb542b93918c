package noop

import (
	"testing"

	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/drivertest"
)

func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{NoWorkers: true, New: func(*testing.T, map[string]string) driver.Driver { return Driver{} }})
}
