package rouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Docs is where the documentation is.
const Docs = "https://github.com/rousehq/rouse/blob/main/docs/"

// The severities of findings.
const (
	SeverityOK       = "ok"       // nothing is wrong
	SeverityUnknown  = "unknown"  // the check could not be made
	SeverityWarning  = "warning"  // it can wait until the morning
	SeverityCritical = "critical" // timers do not fire on time, or may be lost, or may soon
)

// Finding is the result of a check of a running installation.
type Finding struct {
	Check    string // its name
	Severity string
	Node     string // that it is about; empty: the store, or all nodes together
	Seen     string // a sentence
	Cure     string // the remedy; empty if nothing is wrong
	Doc      string // address of a page with more
}

// severities are from harmless to urgent.
var severities = []string{SeverityOK, SeverityUnknown, SeverityWarning, SeverityCritical}

// Worst returns the most urgent severity; SeverityOK of none.
func Worst(list []Finding) string {
	worst := 0
	for i := range list {
		worst = max(worst, slices.Index(severities, list[i].Severity))
	}
	return severities[worst]
}

// SortFindings sorts findings by urgency, the worst first, then by check and node.
func SortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, b.Severity), slices.Index(severities, a.Severity)),
			cmp.Compare(a.Check, b.Check), cmp.Compare(a.Node, b.Node))
	})
}

// Checks that a store makes of itself.
const (
	CheckStoreSettings = "store-settings" // do they keep acknowledged writes?
	CheckStoreSpace    = "store-space"
)

// Diagnosed is a store that can check its settings and its space.
type Diagnosed interface {
	// Diagnose returns findings of the checks CheckStoreSettings and CheckStoreSpace, without Node and Doc.
	// It asks the servers again, as their settings may have changed since the store was opened.
	Diagnose(ctx context.Context) ([]Finding, error)
}

// spaceReserves is how many reserves of free space a disk should have.
const spaceReserves = 16

// SpaceFinding judges the free bytes of the disk of a store that adds no rows below a reserve.
func SpaceFinding(path string, free, reserve int64) Finding {
	f := Finding{Check: CheckStoreSpace, Severity: SeverityOK,
		Seen: fmt.Sprintf("%d MiB are free on the disk of %s", free>>20, path)}
	if free < spaceReserves*reserve {
		f.Severity, f.Cure = SeverityWarning, fmt.Sprintf("make room: below %d MiB no timers are taken", reserve>>20)
	}
	if free < reserve {
		f.Severity, f.Cure = SeverityCritical, "make room at once: no timers are taken any more"
	}
	return f
}
