package signing

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// settingSecrets is the lease whose data are the webhook secrets that the nodes of a store sign with, as
// lines of a file. A node without a file takes them from there; the first one writes them. So callbacks of
// all nodes verify with the same secret without anything to copy.
const (
	settingSecrets = "setting/webhook-secrets"
	forGood        = 200 * 365 * 24 * time.Hour
)

// shareSecrets returns the secrets that the store has, after it has written the given ones if its lease is of
// an epoch: 0 if it has none.
func shareSecrets(ctx context.Context, locks rouse.Locks, epoch uint64, mine []string) (theirs []string, err error) {
	got, err := locks.Lock(ctx, rand.Text(), forGood,
		[]rouse.Want{{Name: settingSecrets, If: epoch, Data: []byte(strings.Join(mine, "\n"))}})
	if err != nil {
		return nil, rouse.Unavailable(fmt.Errorf("share the webhook secrets: %w", err))
	}
	return secretLines(got[0].Data), nil
}

// presentSecrets returns the secrets that the store has, if any, and the epoch of their lease.
func presentSecrets(ctx context.Context, locks rouse.Locks) (theirs []string, epoch uint64, err error) {
	list, _, err := locks.Leases(ctx, settingSecrets)
	if err != nil || len(list) == 0 {
		return nil, 0, err
	}
	return secretLines(list[0].Data), list[0].Epoch, nil
}

// replaceSecrets makes secrets that were rotated those of the store, for nodes that come later.
func replaceSecrets(ctx context.Context, locks rouse.Locks, mine []string) error {
	theirs, epoch, err := presentSecrets(ctx, locks)
	if err != nil || len(theirs) == 0 || slices.Equal(theirs, mine) {
		return err
	}
	_, err = shareSecrets(ctx, locks, epoch, mine)
	return err
}

// Foreign is ForeignSecrets of package node.
func Foreign(ctx context.Context, from, to rouse.Store) (foreign, known bool, err error) {
	var secrets [2][]string
	for i, store := range [...]rouse.Store{from, to} {
		if locks, ok := store.(rouse.Shared); ok {
			if secrets[i], _, err = presentSecrets(ctx, locks); err != nil {
				return false, false, err
			}
		}
	}
	mine, theirs := secrets[0], secrets[1]
	return len(theirs) > 0 && !overlap(mine, theirs), len(mine) > 0, nil
}

func secretLines(data []byte) []string { return strings.Split(string(data), "\n") }

// overlap reports whether a secret is in both lists.
func overlap(mine, theirs []string) bool {
	return slices.ContainsFunc(mine, func(s string) bool { return slices.Contains(theirs, s) })
}
