#!/usr/bin/env bash
# go-quartz v0.15.2 (Go): a cron trigger that is asked in a month without the day is due at the start of the next month.
#
# Expected: the 31st is due in months that have one, and 29 February in leap years, whenever the trigger is asked.
# Seen: after its fire on 31 March, the 31st is due on 31 May. Asked on 10 April, it is due on 1 May, and on 31 May. If
# it is the 31st of March, June, September and December, 1 July and 1 October are due then. After the fire of
# 29 February 2028, the next one is in 2032; asked ten days later, there is one on each 1 March until then.
# Why it matters: the scheduler asks at a fire, where it is right, and when the process starts. So a restart in April
# adds a run, and a monthly bill is sent twice in May. A test that lists the times of a year from 1 January passes. L,
# the last day of the month, is right in any case.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'MOD'
module finding

go 1.25.0

require github.com/reugn/go-quartz v0.15.2
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/reugn/go-quartz/quartz"
)

func list(expression, from string) {
	trigger, err := quartz.NewCronTriggerWithLoc(expression, time.UTC)
	if err != nil {
		panic(err)
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s after %s:", expression, from)
	for range 4 {
		next, err := trigger.NextFireTime(at.UnixNano())
		if err != nil {
			panic(err)
		}
		at = time.Unix(0, next).UTC()
		fmt.Print(" ", at.Format(time.DateOnly))
	}
	fmt.Println()
}

func main() {
	list("0 0 9 31 * ?", "2027-03-31T09:00:00Z")
	list("0 0 9 31 * ?", "2027-04-10T00:00:00Z")
	list("0 0 9 31 3,6,9,12 ?", "2027-01-01T00:00:00Z")
	list("0 0 9 31 3,6,9,12 ?", "2027-04-10T00:00:00Z")
	list("0 0 9 29 2 ?", "2028-02-29T09:00:00Z")
	list("0 0 9 29 2 ?", "2028-03-10T00:00:00Z")
	list("0 0 9 L * ?", "2027-04-10T00:00:00Z")
}
GO
GOFLAGS=-mod=mod go run . >seen 2>go.log || { cat go.log; exit 2; }
cat seen

diff seen - <<'WANT'
0 0 9 31 * ? after 2027-03-31T09:00:00Z: 2027-05-31 2027-07-31 2027-08-31 2027-10-31
0 0 9 31 * ? after 2027-04-10T00:00:00Z: 2027-05-01 2027-05-31 2027-07-31 2027-08-31
0 0 9 31 3,6,9,12 ? after 2027-01-01T00:00:00Z: 2027-03-31 2027-12-31 2028-03-31 2028-12-31
0 0 9 31 3,6,9,12 ? after 2027-04-10T00:00:00Z: 2027-07-01 2027-10-01 2027-12-31 2028-03-31
0 0 9 29 2 ? after 2028-02-29T09:00:00Z: 2032-02-29 2036-02-29 2040-02-29 2044-02-29
0 0 9 29 2 ? after 2028-03-10T00:00:00Z: 2029-03-01 2030-03-01 2031-03-01 2032-02-29
0 0 9 L * ? after 2027-04-10T00:00:00Z: 2027-04-30 2027-05-31 2027-06-30 2027-07-31
WANT
