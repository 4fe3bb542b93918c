package timers

import (
	"fmt"

	"github.com/rousehq/rouse"
)

// Bounds of the rates of redrives and backfills, per second.
const minRate, maxRate = 0.01, 10_000

// checkRate refuses a rate out of bounds; 0 is none.
func checkRate(perSecond float64) error {
	if perSecond == 0 || perSecond >= minRate && perSecond <= maxRate {
		return nil
	}
	return rouse.Refuse("per_second", fmt.Sprint(perSecond), "is out of bounds",
		fmt.Sprintf("give %v to %d, or leave it out", minRate, maxRate))
}
