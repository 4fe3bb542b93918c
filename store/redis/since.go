package redis

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/rousehq/rouse"
)

// readSince fills the batch with the first rows of the window that were written since the token, by the journals of the shards:
// what that costs goes by what was written, not by what the window has. done is false if a journal does not go back so far.
//
// The journals say where rows may be, and the rows are read after that. One that has moved or gone meanwhile is left out: it was
// written after the token that this claim returns, and is found from there.
func (c *claim) readSince(ctx context.Context) (done bool, err error) {
	writer, last, open := c.s.writes.known()
	args := []any{c.now, int64(rouse.Instant(0).Add(c.w.Ahead)), c.w.Since, c.several(), writer, last, open}
	for _, bucket := range c.w.Buckets {
		args = append(args, bucket)
	}
	answers, noted := make([][]any, len(c.s.shards)), make([][]spot, len(c.s.shards))
	err = c.everyShard(ctx, func(n int, sh *shard) (err error) {
		if answers[n], err = list(sh.run(ctx, sinceScript, args...)); err != nil {
			return err
		}
		if len(answers[n]) < 3 {
			return errAnswer
		}
		if answers[n][2] != int64(1) {
			return nil
		}
		noted[n], err = c.spots(answers[n][3:], n)
		return err
	})
	if err != nil {
		return false, err
	}
	for n, answer := range answers {
		if !c.isAway(n) && answer[2] != int64(1) {
			return false, nil
		}
	}
	if err := c.heard(answers); err != nil {
		return false, err
	}
	all := slices.Concat(noted...)
	slices.SortFunc(all, func(a, b spot) int { return a.at.Compare(b.at) })
	return true, c.gather(ctx, func(n int) ([]spot, error) {
		part := all[:min(n, len(all))]
		all = all[len(part):]
		return part, nil
	})
}

// spots reads a shard's answer, and leaves out what the window does.
func (c *claim) spots(answer []any, shard int) ([]spot, error) {
	said, err := texts(answer)
	if err != nil || len(said)%2 != 0 {
		return nil, errAnswer
	}
	var out []spot
	for i := 0; i < len(said); i += 2 {
		at := spot{shard: shard, member: said[i]}
		if len(said[i+1]) != 8 {
			return nil, errAnswer
		}
		at.at.Visible = rouse.Instant(binary.BigEndian.Uint64([]byte(said[i+1])))
		if at.at.Key, err = keyOf(at.member); err != nil {
			return nil, err
		}
		if at.at.Compare(c.w.After) > 0 && (len(c.w.Namespaces) == 0 || slices.Contains(c.w.Namespaces, at.at.Key.Namespace)) {
			out = append(out, at)
		}
	}
	return out, nil
}
