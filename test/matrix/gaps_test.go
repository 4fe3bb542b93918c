package matrix

import (
	"slices"
	"testing"
)

// gap is a set of cells that do not have what the table wants.
type gap struct {
	sites      []string // nil: all
	states     []string
	policies   []string // nil: all
	operations []string
	reason     string
}

// knownGaps are cells that fail. Each of them must: what has come to be right is taken out.
var knownGaps = []gap{
	{nil, []string{"paused, some due in it"}, nil, []string{"calendar removes"}, behind},
	{nil, []string{"put off, two"}, []string{"wait latest", "wait all", "skip latest", "skip all"},
		[]string{"calendar removes", "calendar removes and gives back"}, behind},
	{nil, []string{"waiting"}, []string{"wait all", "skip all"}, []string{"calendar removes",
		"calendar removes and gives back"}, behind},
	{[]string{"own node", "another node, bucket", "another node, lease"}, []string{"waiting"},
		[]string{"wait latest", "skip latest"},
		[]string{"calendar removes", "calendar removes and gives back"}, behind},
	{nil, []string{"in flight, fails"}, []string{"allow all", "allow latest"}, []string{"import over it",
		"other schedule", "reschedule", "skip 2, other schedule"},
		"a failed attempt of a row next to a replaced timer is recorded as deleted: its node sees the row removed"},
	{[]string{"own node", "another node, bucket"}, []string{"waiting"}, []string{"wait latest", "skip latest"},
		[]string{"import over it"},
		"what the misfire policy gives up when it is imported is missed for server_down, not created_late"},
}

// behind is why a calendar may take occurrences back that wait behind another one.
const behind = "a row has the due time of the first occurrence only: the others are computed by the days of now"

func (g *gap) has(site, state, policy, operation string) bool {
	among := func(list []string, s string) bool { return list == nil || slices.Contains(list, s) }
	return among(g.sites, site) && among(g.states, state) && among(g.policies, policy) && among(g.operations, operation)
}

// gapOf returns the gap that a cell is in; nil if it is in none.
func gapOf(site, state, policy, operation string) *gap {
	for i := range knownGaps {
		if knownGaps[i].has(site, state, policy, operation) {
			return &knownGaps[i]
		}
	}
	return nil
}

// TestGapsAreOfCells finds gaps whose names are of nothing.
func TestGapsAreOfCells(t *testing.T) {
	var names []string
	for _, s := range sites {
		names = append(names, s.name)
	}
	for _, s := range states {
		names = append(names, s.name)
	}
	for _, o := range operations {
		names = append(names, o.name)
	}
	for _, p := range policiesOfCells() {
		names = append(names, p.String())
	}
	for _, g := range knownGaps {
		for _, n := range slices.Concat(g.sites, g.states, g.policies, g.operations) {
			if !slices.Contains(names, n) {
				t.Errorf("%s: %q is no site, state, policy or operation", g.reason, n)
			}
		}
	}
}
