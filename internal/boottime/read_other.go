//go:build !linux && !darwin

package boottime

import "time"

// readAsleep never succeeds: this system has no clock that counts suspensions, or none that is known here.
func readAsleep() (asleep time.Duration, ok bool) { return 0, false }
