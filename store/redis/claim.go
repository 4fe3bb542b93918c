package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/rousehq/rouse"
)

// errCrowded says that a window has more rows than one claim may hold: which of them come first is to be found out.
var errCrowded = errors.New("more rows than asked for")

// holdBytes and holdRows bound what is held at a time: the bodies, if the window does not, and the rows, as hold.lua does.
const (
	holdBytes = 4 << 20
	holdRows  = 1000
)

// Claim returns the rows of the window. A claim that only reads puts together what the buckets of all shards have, and then
// reads the rows: Redis hands these out faster by itself than a script does. One that holds
// does so at once where all rows of the window can be held; where there are more, it first finds out how many of each bucket
// are among those that come first, and then holds the first so many of each. Rows that others took meanwhile are made up for by
// those that follow them in their bucket, so that claims at the same time do not wait for each other or come back empty.
//
// The claim's now is one clock's, the first server's. Its token is the least of the shards': in each shard, all revisions up to
// its token were given before it was read, and all that are given later are greater, as a script sees the shard as of one moment.
// A row that moves while a claim reads page after page has been written after the token was taken, and is found from there.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (b rouse.Batch, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return b, err
	}
	defer end()
	w.Limit = max(1, w.Limit)
	w.Buckets = slices.Compact(slices.Clone(w.Buckets))
	c := &claim{s: s, w: w}
	if len(s.servers) > 1 {
		now, err := s.now(ctx)
		if err != nil {
			return b, err
		}
		c.now, c.batch.Now = strconv.FormatInt(int64(now), 10), now
	}
	done := false
	switch {
	case w.Hold > 0:
		err = c.hold(ctx)
	case w.Since != 0:
		if done, err = c.readSince(ctx); done || err != nil {
			break
		}
		fallthrough
	default:
		err = c.read(ctx)
	}
	if err != nil {
		return rouse.Batch{}, err
	}
	for n := range c.s.shards {
		p := rouse.Missing{Part: c.s.part(n), Err: c.away[n]}
		same := func(o rouse.Missing) bool { return o.Part == p.Part }
		if p.Err != nil && !slices.ContainsFunc(c.batch.Missing, same) {
			c.batch.Missing = append(c.batch.Missing, p)
		}
	}
	return c.batch, nil
}

// claim is a claim at work.
type claim struct {
	s     *Store
	w     rouse.Window
	now   string // in ms; empty: the one server's, whatever it is
	batch rouse.Batch

	mu   sync.Mutex
	away map[int]error // the shards that did not answer; the claim goes on without them
}

// everyShard calls work for all shards that have answered so far, at the same time. A shard that fails is left out from then on. The first
// one cannot be left out: its server has the clock.
func (c *claim) everyShard(ctx context.Context, work func(n int, sh *shard) error) error {
	return c.s.everyShard(func(n int, sh *shard) error {
		if c.isAway(n) {
			return nil
		}
		return c.without(ctx, n, work(n, sh))
	})
}

func (c *claim) isAway(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away[n] != nil
}

// without leaves out a shard that failed with an error. It returns the error if the claim cannot go on without the shard.
func (c *claim) without(ctx context.Context, n int, err error) error {
	if err == nil || n == 0 || ctx.Err() != nil || errors.Is(err, errAnswer) || errors.Is(err, errCrowded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil {
		c.away = map[int]error{}
	}
	c.away[n] = err
	return nil
}

// read fills the batch with the first rows of the window.
func (c *claim) read(ctx context.Context) error {
	w := c.w
	w.Bytes = 0 // what the rows have is known when they are read
	q, err := c.queues(ctx, w)
	if err != nil {
		return err
	}
	return c.gather(ctx, func(n int) (spots []spot, err error) {
		for len(spots) < n {
			it, ok, err := q.next(ctx)
			if err != nil || !ok {
				return spots, err
			}
			spots = append(spots, spot{it.source.shard, it.member, it.at})
		}
		return spots, nil
	})
}

// hold fills the batch with the first rows of the window, and holds them, up to holdRows at a time.
func (c *claim) hold(ctx context.Context) error {
	left := c.w
	for size := 0; ; {
		left.Limit, left.Bytes = min(c.w.Limit-len(c.batch.Rows), holdRows), holdBytes
		if c.w.Bytes > 0 {
			left.Bytes = min(holdBytes, c.w.Bytes-size)
		}
		before := len(c.batch.Rows)
		more, err := c.holdSome(ctx, left)
		if err != nil {
			return err // what was held is free again when the hold ends
		}
		rows := c.batch.Rows
		for i := range rows[before:] {
			size += len(rows[before+i].Body)
		}
		c.batch.More = more
		if !more || len(rows) >= c.w.Limit || c.w.Bytes > 0 && size >= c.w.Bytes {
			return nil
		}
		if len(rows) > before { // otherwise others took them all: whoever did is served, and so is this one at last
			left.After = rows[len(rows)-1].Position()
		}
	}
}

// holdSome holds rows of a window of at most holdRows rows. It says whether rows remain.
func (c *claim) holdSome(ctx context.Context, w rouse.Window) (more bool, err error) {
	if len(c.s.shards) == 1 {
		sources := make([]*source, len(w.Buckets))
		for i, bucket := range w.Buckets {
			sources[i] = &source{bucket: bucket, want: -1}
			sources[i].startAfter(w.After)
		}
		rows, more, err := c.take(ctx, &c.s.shards[0], w, sources)
		if err == nil {
			c.add(sorted(rows))
		}
		if !errors.Is(err, errCrowded) {
			return more, err
		}
	}
	q, err := c.queues(ctx, w)
	if err != nil {
		return false, err
	}
	size, found := 0, 0
	for found < w.Limit && (w.Bytes == 0 || size < w.Bytes) {
		it, ok, err := q.next(ctx)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		it.source.want++
		size += it.size
		found++
	}
	held := make([][]rouse.Row, len(c.s.shards))
	err = c.everyShard(ctx, func(n int, sh *shard) (err error) {
		var sources []*source
		for _, src := range q.of(n) {
			if src.want > 0 {
				sources = append(sources, &source{bucket: src.bucket, want: src.want, place: src.before})
			}
		}
		if len(sources) > 0 {
			held[n], _, err = c.take(ctx, sh, w, sources)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	rows := sorted(slices.Concat(held...))
	c.add(rows)
	return q.remains() || len(rows) < found, nil
}

// add adds rows that are held. One that is there already, because its hold ends within the window, is held anew.
func (c *claim) add(rows []rouse.Row) {
	if len(c.batch.Rows) == 0 {
		c.batch.Rows = rows
		return
	}
	have := make(map[rouse.Key]int, len(c.batch.Rows))
	for i := range c.batch.Rows {
		have[c.batch.Rows[i].Key] = i
	}
	for _, r := range rows {
		if i, ok := have[r.Key]; ok {
			c.batch.Rows[i].Revision = r.Revision
		} else {
			c.batch.Rows = append(c.batch.Rows, r)
		}
	}
}

func sorted(rows []rouse.Row) []rouse.Row {
	slices.SortFunc(rows, func(a, b rouse.Row) int { return a.Position().Compare(b.Position()) })
	return rows
}

// take holds the first rows of sources in a shard, as many as each wants.
func (c *claim) take(ctx context.Context, sh *shard, w rouse.Window, sources []*source) (rows []rouse.Row, more bool, err error) {
	answer, err := list(sh.run(ctx, holdScript, c.args(&w, sources, true)...))
	if err != nil {
		return nil, false, err
	}
	if len(answer) < 4 {
		return nil, false, errAnswer
	}
	if err := c.heard([][]any{answer}); err != nil {
		return nil, false, err
	}
	if answer[3] == int64(1) {
		return nil, true, errCrowded
	}
	more = answer[2] == int64(1)
	if len(answer) == 4 {
		return nil, more, nil
	}
	said, err := texts(answer[4:])
	if err != nil || len(said)%2 == 0 {
		return nil, false, errAnswer
	}
	revision, err := strconv.ParseUint(said[0], 10, 64)
	if err != nil {
		return nil, false, errAnswer
	}
	for i := 1; i < len(said); i += 2 {
		row, err := readRow(said[i], said[i+1])
		if err != nil {
			return nil, false, err
		}
		row.Revision = revision
		revision++
		rows = append(rows, row)
	}
	return rows, more, nil
}

// heard takes the clock and the token of the first round of answers, one of each shard; later rounds do not count.
func (c *claim) heard(answers [][]any) error {
	token := uint64(math.MaxUint64)
	for n, answer := range answers {
		if c.isAway(n) {
			continue
		}
		if len(answer) < 2 {
			return errAnswer
		}
		now, ok := answer[0].(int64)
		text, ok2 := answer[1].(string)
		if !ok || !ok2 {
			return errAnswer
		}
		t, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errAnswer
		}
		token = min(token, t)
		if n == 0 && c.now == "" {
			c.now, c.batch.Now = strconv.FormatInt(now, 10), rouse.Instant(now)
		}
	}
	if c.batch.Token == 0 {
		c.batch.Token = token
	}
	return nil
}

// args are the arguments of the scripts that look at a window.
func (c *claim) args(w *rouse.Window, sources []*source, hold bool) []any {
	held, until := int64(0), int64(0)
	if hold {
		held, until = int64(rouse.Instant(0).Add(w.Hold)), int64(w.Until)
	}
	args := []any{c.now, int64(rouse.Instant(0).Add(w.Ahead)), held, w.Limit, w.Bytes, binary.BigEndian.AppendUint64(nil, w.Since), c.several(), until, len(sources)}
	for _, src := range sources {
		args = append(args, src.bucket, src.score, src.member, src.want)
	}
	args = append(args, len(w.Namespaces))
	for _, ns := range w.Namespaces {
		args = append(args, ns)
	}
	return args
}

// several is how scripts are told that there is more than one shard.
func (c *claim) several() int {
	if len(c.s.shards) > 1 {
		return 1
	}
	return 0
}
