package claim

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func fleetOf(n int, of string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", of, i))
	}
	return names
}

func TestSharesAreSpreadEvenlyAndAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := fleetOf(rapid.IntRange(1, 40).Draw(t, "nodes"), rapid.StringMatching(`[a-z0-9.-]{1,20}`).Draw(t, "name"))
		shares := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 1023), 1, 100, rapid.ID).Draw(t, "shares")
		slices.Sort(shares)
		of := assignShares(nodes, shares)
		has := map[int]int{}
		for _, n := range of {
			has[n]++
		}
		for n := range nodes {
			if part := len(shares) / len(nodes); has[n] < part || has[n] > part+1 {
				t.Fatalf("%s has %d of %d shares, %d nodes", nodes[n], has[n], len(shares), len(nodes))
			}
		}
		order := rapid.Permutation(nodes).Draw(t, "order")
		for s, n := range assignShares(order, shares) {
			if order[n] != nodes[of[s]] {
				t.Fatalf("share %d is %s's or %s's, by the order of the nodes", shares[s], nodes[of[s]], order[n])
			}
		}
	})
}

// When a node comes, at least what it gets has to move; when it goes, what it had. The capacity of nodes
// adds a little.
func TestFewSharesMove(t *testing.T) {
	shares := allOf(64)
	moved, least := 0, 0
	for round := range 100 {
		for n := 1; n <= 9; n++ {
			nodes := fleetOf(n+1, fmt.Sprint("host", round))
			before, after := assignShares(nodes[:n], shares), assignShares(nodes, shares)
			m := 0
			for s := range shares {
				if before[s] != after[s] {
					m++
				}
				if after[s] == n {
					least++
				}
			}
			moved += m
			if m > len(shares)/(n+1)+14 {
				t.Errorf("%d of %d shares moved when node %d came", m, len(shares), n+1)
			}
		}
	}
	if moved > least*6/5 {
		t.Errorf("%d shares moved in all, %d at the least", moved, least)
	}
	if got := assignShares(nil, shares); len(got) != len(shares) {
		t.Errorf("without nodes: %v", got)
	}
}
