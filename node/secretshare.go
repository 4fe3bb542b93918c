package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// settingSecrets is the lease whose data are the webhook secrets that the nodes of a store sign with, as
// lines of a file. A node without a file takes them from there; the first one writes them. So callbacks of
// all nodes verify with the same secret without anything to copy.
const settingSecrets = "setting/webhook-secrets"

// sharedLocks are those of a store that other nodes use too, or nil.
func (n *Node) sharedLocks() rouse.Locks {
	if store, ok := n.store.(rouse.Shared); ok && n.cfg.isSharedStore() {
		return store
	}
	return nil
}

// sharedSecrets returns the secrets that the store has, after it has written the given ones if it has none.
func sharedSecrets(ctx context.Context, locks rouse.Locks, mine []string) (theirs []string, err error) {
	got, err := locks.Lock(ctx, rand.Text(), forGood,
		[]rouse.Want{{Name: settingSecrets, Data: []byte(strings.Join(mine, "\n"))}})
	if err != nil {
		return nil, rouse.Unavailable(fmt.Errorf("share the webhook secrets: %w", err))
	}
	return secretLines(got[0].Data), nil
}

// presentSecrets returns the secrets that the store has, if any.
func presentSecrets(ctx context.Context, locks rouse.Locks) ([]string, error) {
	if locks == nil {
		return nil, nil
	}
	list, _, err := locks.Leases(ctx, settingSecrets)
	if err != nil || len(list) == 0 {
		return nil, rouse.Unavailable(err)
	}
	return secretLines(list[0].Data), nil
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
	_, err = locks.Lock(ctx, rand.Text(), forGood,
		[]rouse.Want{{Name: settingSecrets, If: list[0].Epoch, Data: []byte(strings.Join(mine, "\n"))}})
	return err
}

// ForeignSecrets reports whether a store has webhook secrets of which another one has none, as nodes have
// written them there. known is false if the other one has none at all: those of a store that one node has to
// itself are in a file of its own.
func ForeignSecrets(ctx context.Context, from, to rouse.Store) (foreign, known bool, err error) {
	var secrets [2][]string
	for i, store := range [...]rouse.Store{from, to} {
		locks, ok := store.(rouse.Shared)
		if !ok {
			continue
		}
		list, _, err := locks.Leases(ctx, settingSecrets)
		if err != nil {
			return false, false, err
		}
		if len(list) > 0 {
			secrets[i] = secretLines(list[0].Data)
		}
	}
	mine, theirs := secrets[0], secrets[1]
	shared := slices.ContainsFunc(mine, func(s string) bool { return slices.Contains(theirs, s) })
	return len(theirs) > 0 && !shared, len(mine) > 0, nil
}

func secretLines(data []byte) []string { return strings.Split(string(data), "\n") }

// agreeSecrets refuses secrets of which the store has none: receivers that know one node's would refuse the
// callbacks of another.
func agreeSecrets(path string, mine, theirs []string) error {
	if slices.ContainsFunc(mine, func(s string) bool { return slices.Contains(theirs, s) }) {
		return nil
	}
	return fmt.Errorf(
		"%s has none of the webhook secrets that the other nodes of the store sign with: copy the file of another node, or delete this one, so that the node takes theirs", path)
}
