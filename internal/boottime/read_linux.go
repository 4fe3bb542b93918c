package boottime

import "golang.org/x/sys/unix"

const (
	countsSuspensions = unix.CLOCK_BOOTTIME
	standsStill       = unix.CLOCK_MONOTONIC
)
