package redis

import (
	"context"
	"slices"

	"github.com/rousehq/rouse"
)

// spot is the position at which a row was reported.
type spot struct {
	shard  int
	member string
	at     rouse.Position
}

// gatherRows fills the batch with the rows at the spots that find returns in their order, up to n at a time,
// fewer only at the end. It reads as many at a time as the byte limit allows. A row that is no longer at its
// spot has been moved or removed, and is left out.
func (c *claim) gatherRows(ctx context.Context, find func(n int) ([]spot, error)) error {
	size, step := 0, maxKeys
	if c.w.Bytes > 0 {
		step = 100
	}
	for {
		full := len(c.batch.Rows) == c.w.Limit || c.w.Bytes > 0 && size >= c.w.Bytes
		n := min(step, c.w.Limit-len(c.batch.Rows))
		if full {
			n = 1
		}
		part, err := find(n)
		if err != nil || len(part) == 0 {
			return err
		}
		if full {
			c.batch.More = true
			return nil
		}
		blobs, err := c.readBlobs(ctx, part)
		if err != nil {
			return err
		}
		for i, at := range part {
			if c.w.Bytes > 0 && size >= c.w.Bytes {
				c.batch.More = true
				return nil
			}
			if blobs[i] == "" {
				continue
			}
			row, err := parseRowBlob(at.member, blobs[i])
			if err != nil {
				return err
			}
			_, wanted := slices.BinarySearch(c.w.Buckets, row.Bucket)
			if wanted && scoreOf(row.Visible) == scoreOf(at.at.Visible) && row.Revision >= c.w.Since {
				size += len(row.Body)
				c.batch.Rows = append(c.batch.Rows, row)
			}
		}
		if c.w.Bytes > 0 && len(c.batch.Rows) > 0 {
			step = min(max((c.w.Bytes-size)*len(c.batch.Rows)/max(size, 1), 16), maxKeys)
		}
	}
}

// readBlobs reads the rows at the spots; the blob of a removed row is empty.
func (c *claim) readBlobs(ctx context.Context, spots []spot) ([]string, error) {
	places := make([][]int, len(c.s.shards))
	for i, at := range spots {
		places[at.shard] = append(places[at.shard], i)
	}
	out := make([]string, len(spots))
	return out, c.everyShard(ctx, func(n int, sh *shard) error {
		if len(places[n]) == 0 {
			return nil
		}
		members := make([]any, len(places[n]))
		for i, place := range places[n] {
			members[i] = spots[place].member
		}
		blobs, err := sh.fetchBlobs(ctx, members)
		if err != nil {
			return err
		}
		for i, place := range places[n] {
			out[place], _ = blobs[i].(string)
		}
		return nil
	})
}
