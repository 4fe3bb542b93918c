package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// settingSecrets is the lease whose data are the webhook secrets that the nodes of a store sign with, as lines of a file. A node without a file
// takes them from there; the first one writes them. So callbacks of all nodes verify with the same secret without anything to copy.
const settingSecrets = "setting/webhook-secrets"

// sharedLocks are those of a store that other nodes use too, or nil.
func (n *Node) sharedLocks() rouse.Locks {
	if store, ok := n.store.(rouse.Shared); ok && n.cfg.shared() {
		return store
	}
	return nil
}

// sharedSecrets returns the secrets that the store has, after it has written the given ones if it has none.
func sharedSecrets(ctx context.Context, locks rouse.Locks, mine []string) (theirs []string, err error) {
	got, err := locks.Lock(ctx, rand.Text(), forGood, []rouse.Want{{Name: settingSecrets, Data: []byte(strings.Join(mine, "\n"))}})
	if err != nil {
		return nil, rouse.Unavailable(fmt.Errorf("share the webhook secrets: %w", err))
	}
	return secretLines(got[0].Data), nil
}

// replaceSecrets makes secrets that were rotated those of the store, for nodes that come later.
func replaceSecrets(ctx context.Context, locks rouse.Locks, mine []string) error {
	list, _, err := locks.Leases(ctx, settingSecrets)
	if err != nil || len(list) == 0 {
		return err
	}
	if slices.Equal(secretLines(list[0].Data), mine) {
		return nil
	}
	_, err = locks.Lock(ctx, rand.Text(), forGood, []rouse.Want{{Name: settingSecrets, If: list[0].Epoch, Data: []byte(strings.Join(mine, "\n"))}})
	return err
}

func secretLines(data []byte) []string { return strings.Split(string(data), "\n") }

// agreeSecrets refuses secrets of which the store has none: receivers that know one node's would refuse the callbacks of another.
func agreeSecrets(path string, mine, theirs []string) error {
	if slices.ContainsFunc(mine, func(s string) bool { return slices.Contains(theirs, s) }) {
		return nil
	}
	return fmt.Errorf("%s has none of the webhook secrets that the other nodes of the store sign with: copy the file of another node, or delete this one, so that the node takes theirs", path)
}
