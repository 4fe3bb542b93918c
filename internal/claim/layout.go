package claim

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
)

// Layout divides the buckets of a store into shares, the units that are assigned to nodes: each share is a
// range of buckets. Leases are per bucket, so a bucket has one owner even if nodes use different layouts.
type Layout struct {
	Buckets uint32   `json:"buckets"` // number of buckets
	Starts  []uint32 `json:"starts"`  // the first bucket of each share, ascending; the first is 0
}

// defaultShares is the initial number of shares: enough to spread them over a few nodes, and few enough
// that each is worth splitting.
const defaultShares = 16

// NewLayout returns the initial layout: shares of equal width, 16 if the number of buckets can be divided
// so.
func NewLayout(buckets uint32) Layout {
	buckets = max(1, buckets)
	l := Layout{Buckets: buckets}
	for b := uint32(0); b < buckets; b += max(1, buckets/defaultShares) {
		l.Starts = append(l.Starts, b)
	}
	return l
}

// Range returns the buckets of a share: its first one, and the one after its last.
func (l Layout) Range(share int) (from, end uint32) {
	if share+1 < len(l.Starts) {
		return l.Starts[share], l.Starts[share+1]
	}
	return l.Starts[share], l.Buckets
}

// Of returns the share of a bucket.
func (l Layout) Of(bucket uint32) int {
	i, found := slices.BinarySearch(l.Starts, bucket)
	if !found {
		i--
	}
	return i
}

// Split returns the layout in which the share around the bucket is divided, so that a share begins there.
func (l Layout) Split(at uint32) (Layout, error) {
	i, found := slices.BinarySearch(l.Starts, at)
	if at >= l.Buckets {
		return l, fmt.Errorf("there is no bucket %d: the last one is %d", at, l.Buckets-1)
	}
	if found {
		return l, fmt.Errorf("a share begins at bucket %d already", at)
	}
	l.Starts = slices.Insert(slices.Clone(l.Starts), i, at)
	return l, nil
}

// Merge returns the layout in which the share that begins at the bucket is joined with the previous one.
func (l Layout) Merge(at uint32) (Layout, error) {
	i, found := slices.BinarySearch(l.Starts, at)
	if !found || i == 0 {
		return l, fmt.Errorf("no share begins at bucket %d that could be merged with the one before; they begin at %v",
			at, l.Starts)
	}
	l.Starts = slices.Delete(slices.Clone(l.Starts), i, i+1)
	return l, nil
}

// equalLayout reports whether two layouts are the same.
func (l Layout) equalLayout(o Layout) bool {
	return l.Buckets == o.Buckets && slices.Equal(l.Starts, o.Starts)
}

func (l Layout) isValid() bool {
	n := len(l.Starts)
	if n == 0 || l.Starts[0] != 0 || l.Starts[n-1] >= l.Buckets {
		return false
	}
	for i := 1; i < n; i++ {
		if l.Starts[i] <= l.Starts[i-1] {
			return false
		}
	}
	return true
}

// layoutOf returns the layout in a lease: the initial one if the lease has none for this number of buckets.
func layoutOf(lease rouse.Lease, buckets uint32) Layout {
	var l Layout
	if err := json.Unmarshal(lease.Data, &l); err != nil || !l.isValid() || l.Buckets != max(1, buckets) {
		return NewLayout(buckets)
	}
	return l
}

// forEver is the duration of leases that only hold data. A store may delete the data of a lease that
// expired long ago.
const forEver = 50 * 365 * 24 * time.Hour

// EditLayout changes the layout of a store and returns the new one. edit gets the current layout; it is
// called again if another edit was faster, and its error ends the edit. Nodes follow within a third of
// their leases' TTL and hand over the buckets that move. The caller does not have to be a node.
func EditLayout(ctx context.Context, locks rouse.Locks, buckets uint32,
	edit func(Layout) (Layout, error)) (Layout, error) {
	owner := "layout#" + rand.Text() // unique for each edit, even in one process
	for range 20 {
		was, _, err := readOneLease(ctx, locks, layoutName)
		if err != nil {
			return Layout{}, fmt.Errorf("read the layout of shares: %w", err)
		}
		is := layoutOf(was, buckets)
		to, err := edit(is)
		if err != nil {
			return is, err
		}
		if !to.isValid() || to.Buckets != is.Buckets {
			return is, fmt.Errorf("%+v is no layout of %d buckets", to, is.Buckets)
		}
		data, err := json.Marshal(to)
		if err != nil {
			return is, err
		}
		got, err := locks.Lock(ctx, owner, forEver, []rouse.Want{{Name: layoutName, Data: data, If: was.Epoch}})
		if err != nil {
			return is, fmt.Errorf("write the layout of shares: %w", err)
		}
		if got[0].Owner == owner && bytes.Equal(got[0].Data, data) {
			return to, nil
		}
	}
	return Layout{}, errors.New("write the layout of shares: others changed it each time; try again")
}

// readOneLease reads one lease; its epoch is 0 if it was never taken.
func readOneLease(ctx context.Context, locks rouse.Locks, name string) (rouse.Lease, rouse.Instant, error) {
	list, now, err := locks.Leases(ctx, name)
	if err != nil {
		return rouse.Lease{}, 0, err
	}
	for _, l := range list {
		if l.Name == name {
			return l, now, nil
		}
	}
	return rouse.Lease{Name: name}, now, nil
}
