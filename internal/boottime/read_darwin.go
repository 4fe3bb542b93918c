package boottime

import "golang.org/x/sys/unix"

const (
	countsSuspensions = unix.CLOCK_MONOTONIC_RAW
	standsStill       = unix.CLOCK_UPTIME_RAW
)
