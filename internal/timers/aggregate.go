package timers

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
)

// Aggregate sums up the records that match by a property; step is the length of the groups by time. It reads
// at most MaxRecordsAggregated, newest first: Next is where the rest begins.
func (ts *Timers) Aggregate(ctx context.Context, q rouse.RecordQuery, by string,
	step time.Duration) (out rouse.RecordGroups, err error) {
	by = cmp.Or(by, rouse.ByEnding)
	if step, err = rouse.CheckBy(by, step); err != nil {
		return out, err
	}
	if err := cmp.Or(q.Check(), ts.mayRead(ctx, q.Namespace)); err != nil {
		return out, err
	}
	q.Oldest = false
	a := aggregate{by: by, step: step, groups: map[place]*group{}}
	end, err := ts.eachRecord(ctx, q, MaxRecordsAggregated, recordChunk, by == rouse.ByTarget,
		func(r *rouse.Record, _ rouse.RecordCursor, target string) bool {
			a.addRecord(r, target)
			return true
		})
	if err != nil {
		return out, err
	}
	out.Searched, out.Next, out.Other = end.seen, end.next, a.other
	for _, g := range a.groups {
		g.LagP50, g.LagP99 = g.lag.quantileValue(g.Lagged, 50), g.lag.quantileValue(g.Lagged, 99)
		out.Groups = append(out.Groups, g.RecordGroup)
	}
	slices.SortFunc(out.Groups, func(a, b rouse.RecordGroup) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	return out, nil
}

// aggregate is the groups of the records so far.
type aggregate struct {
	by     string
	step   time.Duration
	groups map[place]*group
	other  int64
}

// place identifies a group.
type place struct {
	key  string
	from rouse.Instant
}

type group struct {
	rouse.RecordGroup
	lag histogram
}

// addRecord adds a record to its group.
func (a *aggregate) addRecord(r *rouse.Record, target string) {
	if a.by == rouse.ByError && r.Ending == rouse.EndFired {
		return
	}
	n := int64(max(1, r.Count))
	at := a.groupPlace(r, target)
	g := a.groups[at]
	if g == nil {
		if len(a.groups) == rouse.MaxRecordGroups {
			a.other += n
			return
		}
		g = &group{RecordGroup: rouse.RecordGroup{Key: at.key, From: at.from, First: r.Ended, Last: r.Ended}}
		a.groups[at] = g
	}
	g.Count += n
	g.First, g.Last = min(g.First, r.Ended), max(g.Last, r.Ended)
	switch r.Ending {
	case rouse.EndFired:
		g.Fired += n
	case rouse.EndDead:
		g.Dead += n
	case rouse.EndSkipped:
		g.Skipped += n
	case rouse.EndMissed:
		g.Missed += n
	}
	if ms, ok := r.Lag(); ok {
		g.Lagged++
		g.lag.countValue(ms)
	}
}

func (a *aggregate) groupPlace(r *rouse.Record, target string) place {
	switch a.by {
	case rouse.ByTime:
		step := a.step.Milliseconds()
		from := int64(r.Ended) / step * step
		if int64(r.Ended) < from {
			from -= step
		}
		return place{from: rouse.Instant(from)}
	case rouse.ByTarget:
		return place{key: target}
	case rouse.ByEnding:
		return place{key: r.Ending.String()}
	case rouse.ByCause:
		return place{key: r.Cause.String()}
	case rouse.ByNamespace:
		return place{key: r.Namespace}
	}
	text := rouse.ErrorKind(r.Reason)
	if text == "" && r.Code != 0 {
		text = "code " + strconv.Itoa(r.Code)
	}
	return place{key: text}
}

// histogram counts milliseconds in steps of an eighth of a power of two.
type histogram map[uint16]int64

func (h *histogram) countValue(ms int64) {
	if *h == nil {
		*h = histogram{}
	}
	(*h)[stepOf(uint64(max(0, ms)))]++
}

// stepOf returns the number of a value's step.
func stepOf(v uint64) uint16 {
	if v < 8 {
		return uint16(v)
	}
	shift := bits.Len64(v) - 4
	return uint16(shift+1)<<3 + uint16(v>>shift&7)
}

// greatestOfStep returns the greatest value of a step.
func greatestOfStep(step uint16) uint64 {
	if step < 8 {
		return uint64(step)
	}
	shift := step>>3 - 1
	return uint64(8+step&7+1)<<shift - 1
}

// quantileValue returns a value that at least percent of n values do not exceed.
func (h histogram) quantileValue(n int64, percent int64) time.Duration {
	var steps []uint16
	for s := range h {
		steps = append(steps, s)
	}
	slices.Sort(steps)
	seen := int64(0)
	for _, s := range steps {
		if seen += h[s]; seen*100 >= n*percent {
			return time.Duration(greatestOfStep(s)) * time.Millisecond
		}
	}
	return 0
}

// Outcomes returns the last records of each of some timers, at most limit, without answers.
func (ts *Timers) Outcomes(ctx context.Context, keys []rouse.Key, limit int) ([]rouse.Outcomes, error) {
	if len(keys) > rouse.MaxOutcomeNames {
		return nil, rouse.Refuse("names", strconv.Itoa(len(keys)), "are too many",
			fmt.Sprintf("give at most %d", rouse.MaxOutcomeNames))
	}
	if limit < 1 || limit > rouse.MaxOutcomes {
		return nil, rouse.Refuse("limit", strconv.Itoa(limit), "is out of bounds",
			fmt.Sprintf("give 1 to %d", rouse.MaxOutcomes))
	}
	asked := map[string]bool{}
	for i := range keys {
		if err := forTimers(keys[i]); err != nil {
			return nil, err
		}
		if ns := keys[i].Namespace; !asked[ns] {
			asked[ns] = true
			if err := ts.mayRead(ctx, ns); err != nil {
				return nil, err
			}
		}
	}
	out := make([]rouse.Outcomes, len(keys))
	for i, key := range keys {
		o := &out[i]
		o.Key = key
		q := rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name, Limit: limit}
		_, err := ts.eachRecord(ctx, q, MaxRecordsSearched, limit, false,
			func(r *rouse.Record, _ rouse.RecordCursor, _ string) bool {
				r.Answer = nil // of up to 3,000 records
				o.Records = append(o.Records, *r)
				return len(o.Records) < limit
			})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
