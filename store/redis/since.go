package redis

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/rousehq/rouse"
)

// readSince uses the journals of the shards to fill the batch with the first rows of the window that were
// written since the token: the cost depends on the number of writes, not on the size of the window. done is
// false if a journal does not go back far enough.
//
// The journals contain possible positions; the rows are read afterwards. A row that has moved or disappeared
// in between is left out: it was written after the token that this claim returns, and the next claim finds
// it.
func (c *claim) readSince(ctx context.Context) (done bool, err error) {
	writer, last, open := c.s.writes.knownWrites()
	args := []any{c.now, int64(rouse.Instant(0).Add(c.w.Ahead)), c.w.Since, c.severalShards(), writer, last, open}
	for _, bucket := range c.w.Buckets {
		args = append(args, bucket)
	}
	answers, noted := make([][]any, len(c.s.shards)), make([][]spot, len(c.s.shards))
	err = c.everyShard(ctx, func(n int, sh *shard) (err error) {
		if answers[n], err = asList(sh.runScript(ctx, sinceScript, args...)); err != nil {
			return err
		}
		if len(answers[n]) < 3 {
			return errAnswer
		}
		sh.learnToken(answers[n])
		if answers[n][2] != int64(1) {
			return nil
		}
		noted[n], err = c.parseSpots(answers[n][3:], n)
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
	if err := c.readClockAndToken(answers); err != nil {
		return false, err
	}
	all := slices.Concat(noted...)
	slices.SortFunc(all, func(a, b spot) int { return a.at.Compare(b.at) })
	return true, c.gatherRows(ctx, func(n int) ([]spot, error) {
		part := all[:min(n, len(all))]
		all = all[len(part):]
		return part, nil
	})
}

// parseSpots parses a shard's answer, and leaves out rows that the window excludes.
func (c *claim) parseSpots(answer []any, shard int) ([]spot, error) {
	values, err := asTexts(answer)
	if err != nil || len(values)%2 != 0 {
		return nil, errAnswer
	}
	var out []spot
	for i := 0; i < len(values); i += 2 {
		at := spot{shard: shard, member: values[i]}
		if len(values[i+1]) != 8 {
			return nil, errAnswer
		}
		at.at.Visible = rouse.Instant(binary.BigEndian.Uint64([]byte(values[i+1])))
		if at.at.Key, err = decodeMember(at.member); err != nil {
			return nil, err
		}
		if at.at.Compare(c.w.After) > 0 && (len(c.w.Namespaces) == 0 ||
			slices.Contains(c.w.Namespaces, at.at.Key.Namespace)) {
			out = append(out, at)
		}
	}
	return out, nil
}
