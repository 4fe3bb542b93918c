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

// errCrowded means that a window has more rows than one claim may hold: first find out which of them come
// first.
var errCrowded = errors.New("more rows than asked for")

// holdBytes and holdRows limit one hold: the bytes of the bodies, unless the window has its own limit, and
// the number of rows, which hold.lua checks as well.
const (
	holdBytes = 4 << 20
	holdRows  = 1000
)

// Claim returns the rows of the window. A claim that only reads merges the positions of the rows from the
// buckets of all shards and then reads the rows with plain commands, which Redis serves faster than a script
// does. A claim that holds rows holds all of them at once if the limits allow it. Otherwise it first counts
// how many of the first rows are in each bucket, and then holds that many in each. If other claims took some
// of these rows in between, the next rows of the same bucket replace them. So concurrent claims neither wait
// for each other nor return empty.
//
// The time of a claim is the clock of the first server. Its token is the smallest token of all shards: a
// script sees one consistent state of its shard, so each shard gives all revisions up to its token before the
// claim reads it, and only greater ones after. A row that moves while a claim reads page after page was
// written after the token, so the next claim since that token finds it.
func (s *Store) Claim(ctx context.Context, w rouse.Window) (b rouse.Batch, err error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return b, err
	}
	defer end()
	w.Limit = max(1, w.Limit)
	w.Buckets = slices.Compact(slices.Clone(w.Buckets))
	c := &claim{s: s, w: w}
	if len(s.servers) > 1 {
		now, err := s.readServerClock(ctx)
		if err != nil {
			return b, err
		}
		c.now, c.batch.Now = strconv.FormatInt(int64(now), 10), now
	}
	done := false
	switch {
	case w.Hold > 0:
		err = c.holdWindow(ctx)
	case w.Since != 0:
		if done, err = c.readSince(ctx); done || err != nil {
			break
		}
		fallthrough
	default:
		err = c.readFirstRows(ctx)
	}
	if err != nil {
		return rouse.Batch{}, err
	}
	for n := range c.s.shards {
		p := rouse.Missing{Part: c.s.shardName(n), Err: c.away[n]}
		if p.Err == nil && c.s.shards[n].isBack() {
			p.Err = errBack
		}
		same := func(o rouse.Missing) bool { return o.Part == p.Part }
		if p.Err != nil && !slices.ContainsFunc(c.batch.Missing, same) {
			c.batch.Missing = append(c.batch.Missing, p)
		}
	}
	return c.batch, nil
}

// claim is a running claim.
type claim struct {
	s     *Store
	w     rouse.Window
	now   string // in ms; empty: the current time of the one server
	batch rouse.Batch

	mu   sync.Mutex
	away map[int]error // the shards that did not answer; the claim continues without them
}

// everyShard calls work concurrently for all shards that have answered so far. A shard that fails is skipped
// from then on, except the first one: its server has the clock.
func (c *claim) everyShard(ctx context.Context, work func(n int, sh *shard) error) error {
	return c.s.everyShard(func(n int, sh *shard) error {
		if c.isAway(n) {
			return nil
		}
		return c.skipShard(ctx, n, work(n, sh))
	})
}

func (c *claim) isAway(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away[n] != nil
}

// skipShard skips a shard that failed. It returns the error if the claim cannot continue without the shard.
func (c *claim) skipShard(ctx context.Context, n int, err error) error {
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

// readFirstRows fills the batch with the first rows of the window.
func (c *claim) readFirstRows(ctx context.Context) error {
	w := c.w
	w.Bytes = 0 // the size of a row is known when it is read
	q, err := c.newQueues(ctx, w)
	if err != nil {
		return err
	}
	return c.gatherRows(ctx, func(n int) (spots []spot, err error) {
		for len(spots) < n {
			it, ok, err := q.nextItem(ctx)
			if err != nil || !ok {
				return spots, err
			}
			spots = append(spots, spot{it.source.shard, it.member, it.at})
		}
		return spots, nil
	})
}

// holdWindow fills the batch with the first rows of the window, and holds them, up to holdRows at a time.
func (c *claim) holdWindow(ctx context.Context) error {
	left := c.w
	for size := 0; ; {
		left.Limit, left.Bytes = min(c.w.Limit-len(c.batch.Rows), holdRows), holdBytes
		if c.w.Bytes > 0 {
			left.Bytes = min(holdBytes, c.w.Bytes-size)
		}
		before := len(c.batch.Rows)
		more, err := c.holdSome(ctx, left)
		if err != nil {
			return err // rows that were held become claimable again when the hold expires
		}
		rows := c.batch.Rows
		for i := range rows[before:] {
			size += len(rows[before+i].Body)
		}
		c.batch.More = more
		if !more || len(rows) >= c.w.Limit || c.w.Bytes > 0 && size >= c.w.Bytes {
			return nil
		}
		if len(rows) > before { // if it is empty, other claims took all rows: they make progress, and this one continues
			left.After = rows[len(rows)-1].Position()
		}
	}
}

// holdSome holds rows of a window of at most holdRows rows. It reports whether rows remain.
func (c *claim) holdSome(ctx context.Context, w rouse.Window) (more bool, err error) {
	if len(c.s.shards) == 1 {
		sources := make([]*source, len(w.Buckets))
		for i, bucket := range w.Buckets {
			sources[i] = &source{bucket: bucket, want: -1}
			sources[i].startAfter(w.After)
		}
		rows, more, err := c.holdFromShard(ctx, &c.s.shards[0], w, sources)
		if err == nil {
			c.addHeld(sortRows(rows))
		}
		if !errors.Is(err, errCrowded) {
			return more, err
		}
	}
	q, err := c.newQueues(ctx, w)
	if err != nil {
		return false, err
	}
	size, found := 0, 0
	for found < w.Limit && (w.Bytes == 0 || size < w.Bytes) {
		it, ok, err := q.nextItem(ctx)
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
		for _, src := range q.shardSources(n) {
			if src.want > 0 {
				sources = append(sources, &source{bucket: src.bucket, want: src.want, place: src.before})
			}
		}
		if len(sources) > 0 {
			held[n], _, err = c.holdFromShard(ctx, sh, w, sources)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	rows := sortRows(slices.Concat(held...))
	c.addHeld(rows)
	return q.mayHaveMore() || len(rows) < found, nil
}

// addHeld adds rows that are held. It replaces a row that is in the batch already: its hold expired within
// the window and was renewed.
func (c *claim) addHeld(rows []rouse.Row) {
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

func sortRows(rows []rouse.Row) []rouse.Row {
	slices.SortFunc(rows, func(a, b rouse.Row) int { return a.Position().Compare(b.Position()) })
	return rows
}

// holdFromShard holds the first rows of the sources of a shard, as many as each source requests.
func (c *claim) holdFromShard(ctx context.Context, sh *shard, w rouse.Window,
	sources []*source) (rows []rouse.Row, more bool, err error) {
	answer, err := sh.runIndexed(ctx, holdScript, targetAt, c.claimArgs(&w, sources, true)...)
	if err != nil {
		return nil, false, err
	}
	if len(answer) < 4 {
		return nil, false, errAnswer
	}
	sh.learnToken(answer)
	if err := c.readClockAndToken([][]any{answer}); err != nil {
		return nil, false, err
	}
	if answer[3] == int64(1) {
		return nil, true, errCrowded
	}
	more = answer[2] == int64(1)
	if len(answer) == 4 {
		return nil, more, nil
	}
	values, err := asTexts(answer[4:])
	if err != nil || len(values)%2 == 0 {
		return nil, false, errAnswer
	}
	revision, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil {
		return nil, false, errAnswer
	}
	for i := 1; i < len(values); i += 2 {
		row, err := parseRowBlob(values[i], values[i+1])
		if err != nil {
			return nil, false, err
		}
		row.Revision = revision
		revision++
		rows = append(rows, row)
	}
	sh.noteGivenRevision(revision - 1)
	return rows, more, nil
}

// readClockAndToken reads the clock and the token from the first round of answers, one of each shard; it
// ignores later rounds.
func (c *claim) readClockAndToken(answers [][]any) error {
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
		t, _, ok := parseToken(text)
		if !ok {
			return errAnswer
		}
		token = min(token, t)
		if n == 0 && c.now == "" {
			c.now, c.batch.Now = strconv.FormatInt(now, 10), rouse.Instant(now)
		}
	}
	if c.batch.Token == 0 { // later rounds of several shards are heard at the same time, and only read it
		c.batch.Token = token
	}
	return nil
}

// targetAt is the index of the target in the arguments of the scripts that read a window.
const targetAt = 8

// claimArgs returns these arguments.
func (c *claim) claimArgs(w *rouse.Window, sources []*source, hold bool) []any {
	held, until := int64(0), int64(0)
	if hold {
		held, until = int64(rouse.Instant(0).Add(w.Hold)), int64(w.Until)
	}
	args := []any{c.now, int64(rouse.Instant(0).Add(w.Ahead)), held, w.Limit, w.Bytes,
		binary.BigEndian.AppendUint64(nil, w.Since), c.severalShards(), until, "", len(sources)}
	for _, src := range sources {
		args = append(args, src.bucket, src.score, src.member, src.want)
	}
	args = append(args, len(w.Namespaces))
	for _, ns := range w.Namespaces {
		args = append(args, ns)
	}
	return args
}

// severalShards is a script argument: whether the store has more than one shard.
func (c *claim) severalShards() int {
	if len(c.s.shards) > 1 {
		return 1
	}
	return 0
}
