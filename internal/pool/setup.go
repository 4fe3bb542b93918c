package pool

import (
	"log/slog"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// Setup is a pool of workers that a node manages. The fires of timers with the target "pool:NAME/KEY" are
// requests for it.
type Setup struct {
	Config // without its Driver, Log and Metrics, which are the node's to give

	// Requests opens the transport of a pool whose requests are at a broker, those of other clients included.
	// Without it they are timers of the store, and workers take them from this node.
	Requests func(m *Manager, o CallerOptions) (Controller, Caller, error)

	// Prewarm is how long before its time the group of a timer's key is started; 0 is when the time has come.
	Prewarm time.Duration

	// Stall is after how long workers that hold requests of the store and do nothing are replaced; 0 is
	// never.
	Stall time.Duration

	// Open makes the driver that starts the workers.
	Open func(log *slog.Logger) (driver.Driver, error)
}
