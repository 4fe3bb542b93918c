package redis

import (
	"container/heap"
	"context"
	"math"
	"strconv"

	"github.com/rousehq/rouse"
)

// queues is a heap of the buckets of all shards, each with its known rows; the bucket with the earliest row
// is first. A bucket whose known rows are used up keeps its position, and is asked for more rows when it
// comes first.
type queues struct {
	c       *claim
	w       rouse.Window
	sources []*source // all sources, shard by shard
	heap    []*source
}

// source is one bucket of one shard.
type source struct {
	shard  int
	bucket uint32
	want   int // how many of its rows to hold; -1 is all

	place        // the next rows come after it
	before place // the first row comes after it, among the first that are examined
	at     rouse.Position
	items  []item
	some   bool // it has had items
	more   bool // it may have more rows than items
}

// place is a position in a sorted set; an empty score is the beginning.
type place struct{ score, member string }

// item is a row, or as much of it as is known.
type item struct {
	source *source
	at     rouse.Position
	member string
	size   int
}

func (src *source) startAfter(p rouse.Position) {
	src.at = rouse.Position{Visible: math.MinInt64}
	if p != (rouse.Position{}) {
		src.at, src.place = p, place{scoreOf(p.Visible), encodeMember(&p.Key)}
	}
	src.before = src.place
}

// headPosition returns the position of the source: its first row, or behind all rows that it had.
func (src *source) headPosition() rouse.Position {
	if len(src.items) > 0 {
		return src.items[0].at
	}
	return src.at
}

// newQueues asks all buckets of all shards for their first rows.
func (c *claim) newQueues(ctx context.Context, w rouse.Window) (*queues, error) {
	q := &queues{c: c, w: w}
	for n := range c.s.shards {
		for _, bucket := range w.Buckets {
			src := &source{shard: n, bucket: bucket}
			src.startAfter(w.After)
			q.sources = append(q.sources, src)
		}
	}
	answers := make([][]any, len(c.s.shards))
	err := c.everyShard(ctx, func(n int, sh *shard) (err error) {
		answers[n], err = c.fetchSources(ctx, sh, w, q.shardSources(n))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.readClockAndToken(answers); err != nil {
		return nil, err
	}
	for n, answer := range answers {
		if c.isAway(n) {
			continue
		}
		if err := q.fillSources(q.shardSources(n), answer); err != nil {
			return nil, err
		}
	}
	for _, src := range q.sources {
		if len(src.items) > 0 || src.more {
			q.heap = append(q.heap, src)
		}
	}
	heap.Init(q)
	return q, nil
}

// shardSources returns the sources of a shard.
func (q *queues) shardSources(shard int) []*source {
	n := len(q.w.Buckets)
	return q.sources[shard*n : (shard+1)*n]
}

func (c *claim) fetchSources(ctx context.Context, sh *shard, w rouse.Window, sources []*source) ([]any, error) {
	answer, err := sh.runIndexed(ctx, lookScript, targetAt, c.claimArgs(&w, sources, false)...)
	if err != nil {
		return nil, err
	}
	if len(answer) != 2+len(sources) {
		return nil, errAnswer
	}
	sh.learnToken(answer)
	return answer, nil
}

// fillSources adds the answer of a shard to its sources.
func (q *queues) fillSources(sources []*source, answer []any) error {
	for i, src := range sources {
		fields, err := asList(answer[2+i], nil)
		if err != nil || len(fields) != 4 {
			return errAnswer
		}
		src.more = fields[0] == int64(1)
		score, ok1 := fields[1].(string)
		member, ok2 := fields[2].(string)
		rows, err := asList(fields[3], nil)
		if !ok1 || !ok2 || err != nil {
			return errAnswer
		}
		if len(rows) > 0 && !src.some {
			src.some, src.before = true, src.place
		}
		if now := (place{score, member}); score != "" && now != src.place {
			src.place = now
			if src.at, err = positionOf(score, member); err != nil {
				return err
			}
		}
		if err := q.addItems(src, rows); err != nil {
			return err
		}
	}
	return nil
}

func (q *queues) addItems(src *source, rows []any) error {
	step := 2
	if q.w.Bytes > 0 {
		step = 3
	}
	if len(rows)%step != 0 {
		return errAnswer
	}
	for i := 0; i < len(rows); i += step {
		it := item{source: src}
		var score string
		var ok, ok2 bool
		var err error
		it.member, ok = rows[i].(string)
		score, ok2 = rows[i+1].(string)
		if !ok || !ok2 {
			return errAnswer
		}
		if it.at, err = positionOf(score, it.member); err != nil {
			return err
		}
		if step == 3 {
			size, ok := rows[i+2].(int64)
			if !ok {
				return errAnswer
			}
			it.size = int(size)
		}
		src.items = append(src.items, it)
	}
	return nil
}

func positionOf(score, member string) (p rouse.Position, err error) {
	f, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return p, errAnswer
	}
	p.Visible = rouse.Instant(f)
	p.Key, err = decodeMember(member)
	return p, err
}

// nextItem takes the earliest row; ok is false at the end.
func (q *queues) nextItem(ctx context.Context) (it item, ok bool, err error) {
	for len(q.heap) > 0 {
		src := q.heap[0]
		if len(src.items) > 0 {
			it = src.items[0]
			src.items = src.items[1:]
			q.restoreHeap(src)
			return it, true, nil
		}
		answer, err := q.c.fetchSources(ctx, &q.c.s.shards[src.shard], q.w, []*source{src})
		if err = q.c.skipShard(ctx, src.shard, err); err != nil {
			return it, false, err
		}
		if q.c.isAway(src.shard) { // the rest of its rows is missing
			src.more = false
			q.restoreHeap(src)
			continue
		}
		if err := q.fillSources([]*source{src}, answer); err != nil {
			return it, false, err
		}
		q.restoreHeap(src)
	}
	return it, false, nil
}

// restoreHeap restores the heap order after the first source has advanced.
func (q *queues) restoreHeap(src *source) {
	if len(src.items) > 0 || src.more {
		heap.Fix(q, 0)
	} else {
		heap.Pop(q)
	}
}

// mayHaveMore reports whether there may be rows that were not taken.
func (q *queues) mayHaveMore() bool { return len(q.heap) > 0 }

func (q *queues) Len() int { return len(q.heap) }
func (q *queues) Less(i, j int) bool {
	return q.heap[i].headPosition().Compare(q.heap[j].headPosition()) < 0
}
func (q *queues) Swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }
func (q *queues) Push(x any)    { q.heap = append(q.heap, x.(*source)) }
func (q *queues) Pop() any {
	last := len(q.heap) - 1
	src := q.heap[last]
	q.heap = q.heap[:last]
	return src
}
