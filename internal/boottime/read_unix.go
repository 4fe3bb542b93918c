//go:build linux || darwin

package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// readAsleep compares the clock that counts suspensions with the one of time.Now, which does not.
func readAsleep() (asleep time.Duration, ok bool) {
	var with, without unix.Timespec
	if unix.ClockGettime(countsSuspensions, &with) != nil || unix.ClockGettime(standsStill, &without) != nil {
		return 0, false
	}
	return time.Duration(with.Nano() - without.Nano()), true
}
