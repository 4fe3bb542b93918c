package claim

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// assignShares returns the node of each share: an index into nodes for each share, which is identified by its
// first bucket. It is rendezvous hashing with a capacity: each pair of a node and a share has a weight,
// pairs are matched by descending weight, and the numbers of shares differ by at most one. Every caller
// with the same nodes and shares, in any order, gets the same result; when a node comes or goes, few shares
// move in addition to its own.
func assignShares(nodes []string, shares []uint32) []int {
	type pair struct {
		weight      uint64
		node, share int
	}
	out := make([]int, len(shares))
	if len(nodes) == 0 {
		return out
	}
	pairs := make([]pair, 0, len(nodes)*len(shares))
	for n := range nodes {
		for s := range shares {
			pairs = append(pairs, pair{pairWeight(nodes[n], shares[s]), n, s})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight),
			cmp.Compare(shares[a.share], shares[b.share]), cmp.Compare(nodes[a.node], nodes[b.node]))
	})
	part, rest := len(shares)/len(nodes), len(shares)%len(nodes) // this many nodes get one more
	has := make([]int, len(nodes))
	done := make([]bool, len(shares))
	for _, p := range pairs {
		switch {
		case done[p.share] || has[p.node] > part:
			continue
		case has[p.node] == part:
			if rest == 0 {
				continue
			}
			rest--
		}
		has[p.node]++
		done[p.share], out[p.share] = true, p.node
	}
	return out
}

// pairWeight is a hash of a node and a share that all nodes compute alike.
func pairWeight(node string, share uint32) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node))
	h.Write([]byte{0, byte(share >> 24), byte(share >> 16), byte(share >> 8), byte(share)})
	x := h.Sum64() // FNV mixes its last bytes poorly; the finalizer of splitmix64 mixes them well
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
