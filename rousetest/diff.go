package rousetest

import (
	"fmt"
	"slices"
	"strings"
)

// mostDiff bounds the lists that are compared line by line; around is how many equal lines are shown on each
// side of a difference.
const (
	mostDiff = 2000
	around   = 3
)

// diffLines shows how got differs from want: lines of one list only, with the lines around them.
func diffLines(want, got []string) string {
	lines := alignLines(want, got)
	var b strings.Builder
	quiet := 0
	for i, l := range lines {
		if l[0] == ' ' && !isNearDifference(lines, i) {
			quiet++
			continue
		}
		if quiet > 0 {
			fmt.Fprintf(&b, "    … %d alike\n", quiet)
			quiet = 0
		}
		b.WriteString("    " + l + "\n")
	}
	if quiet > 0 {
		fmt.Fprintf(&b, "    … %d alike\n", quiet)
	}
	if len(want) == 0 || len(got) == 0 {
		fmt.Fprintf(&b, "    (wanted %d, there are %d)\n", len(want), len(got))
	}
	return b.String()
}

// isNearDifference reports whether a line that differs is near.
func isNearDifference(lines []string, i int) bool {
	for _, l := range lines[max(0, i-around):min(len(lines), i+around+1)] {
		if l[0] != ' ' {
			return true
		}
	}
	return false
}

// alignLines returns all lines, each with a sign in front: "- " for those of want only, "+ " for those of got
// only.
func alignLines(want, got []string) (lines []string) {
	sign := func(s string, list []string) {
		for _, l := range list {
			lines = append(lines, s+l)
		}
	}
	for len(want) > 0 && len(got) > 0 && want[0] == got[0] {
		sign("  ", want[:1])
		want, got = want[1:], got[1:]
	}
	if len(want) > mostDiff || len(got) > mostDiff {
		sign("- ", want[:min(len(want), 2*around)])
		sign("+ ", got[:min(len(got), 2*around)])
		return append(lines, fmt.Sprintf("- … %d more, + … %d more", max(0, len(want)-2*around), max(0, len(got)-2*around)))
	}
	// common[i][j] is how many lines want[i:] and got[j:] have in common, in their order.
	common := make([][]uint16, len(want)+1)
	for i := range common {
		common[i] = make([]uint16, len(got)+1)
	}
	for i, w := range slices.Backward(want) {
		for j := len(got) - 1; j >= 0; j-- {
			if w == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(want) && j < len(got) {
		switch {
		case want[i] == got[j]:
			sign("  ", want[i:i+1])
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			sign("- ", want[i:i+1])
			i++
		default:
			sign("+ ", got[j:j+1])
			j++
		}
	}
	sign("- ", want[i:])
	sign("+ ", got[j:])
	return lines
}
