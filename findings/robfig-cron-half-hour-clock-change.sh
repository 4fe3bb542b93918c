#!/usr/bin/env bash
# robfig/cron v3.0.1 (Go; also used by Kubernetes and asynq): where clocks move by half an hour, a job at a
# time that exists is lost.
#
# Expected: on 2026-10-04 the clocks of Lord Howe Island go from 02:00 to 02:30. Times from 02:00 to 02:29 do
# not exist, and the library documents that jobs at such times do not run. 03:00 exists, so "0 3 * * *" fires
# at 03:00.
# Seen: "0 3 * * *" does not fire on that day at all; "45 2 * * *" does. The search goes from hour to hour,
# from 01:00 to 02:30 to 03:30, and never sees the start of hour 3 with minute 0 ahead of it.
# Why it matters: the documented rule for skipped times does not protect jobs outside of the gap. Code that
# steps hour by hour needs tests with a zone whose shift is no whole hour.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'MOD'
module finding

go 1.24

require github.com/robfig/cron/v3 v3.0.1
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	zone, err := time.LoadLocation("Australia/Lord_Howe")
	if err != nil {
		panic(err)
	}
	exists := time.Date(2026, 10, 4, 3, 0, 0, 0, zone)
	fmt.Println("that day, 03:00 is", exists.Format(time.RFC3339))
	for _, expression := range []string{"0 3 * * *", "45 2 * * *"} {
		schedule, err := cron.ParseStandard(expression)
		if err != nil {
			panic(err)
		}
		fmt.Print(expression, ":")
		at := time.Date(2026, 10, 3, 0, 0, 0, 0, zone)
		for range 3 {
			at = schedule.Next(at)
			fmt.Print(" ", at.Format(time.RFC3339))
		}
		fmt.Println()
	}
}
GO
GOFLAGS=-mod=mod go run . >seen 2>go.log || { cat go.log; exit 2; }
cat seen

diff seen - <<'WANT'
that day, 03:00 is 2026-10-04T03:00:00+11:00
0 3 * * *: 2026-10-03T03:00:00+10:30 2026-10-05T03:00:00+11:00 2026-10-06T03:00:00+11:00
45 2 * * *: 2026-10-03T02:45:00+10:30 2026-10-04T02:45:00+11:00 2026-10-05T02:45:00+11:00
WANT
