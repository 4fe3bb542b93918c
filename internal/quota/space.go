package quota

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// Kinds of rates.
const (
	creates = iota
	fires
	reads
	kinds
)

var kindNames = [kinds]string{rouse.QuotaCreates, rouse.QuotaFires, rouse.QuotaReads}

// countAgain is when a client that has reached a count should try again.
const countAgain = 10 * time.Second

// freshFor is how long a count is used at most.
const freshFor = 2 * time.Second

// draftsFreshFor is freshFor for drafts. They are written without this node: so long, more may be taken up
// than there is room for.
const draftsFreshFor = time.Second

// fullFor is how long a namespace stays full without another count.
const fullFor = 200 * time.Millisecond

// settled is how many rounds of shares it takes until each node knows the demand of the others. This node's
// part of a rate is the least of so many rounds: it takes a larger one when the others have given it up.
const settled = 3

// space is the state of one namespace on this node.
type space struct {
	name string

	mu      sync.Mutex
	is      rouse.Namespace
	rate    [kinds]float64 // this node's shares; 0 is unlimited
	buckets [kinds]throttle.TokenBucket
	parts   [settled][kinds]float64 // of the rates, as they were divided last
	demand  [kinds]float64          // asked of this node since the last time it was published
	asked   [kinds]float64          // the published demand: smoothed
	nodes   int                     // that share the rates

	written int64 // bytes by which this node has changed the namespace since it began
	spent   int64 // of them, since it took its last share
	weight  int64 // bytes without them
	groups  int64 // of workers on this node when it took its last share

	timers, overlaps counted
	drafted          counted // timers, as drafts are taken up
}

// counted is a number of rows with a quota, as this node knows it. The mutex of the space guards it.
type counted struct {
	counting sync.Mutex // held while they are counted
	count    int64      // of rows, when they were counted
	added    int64      // since then, by this node
	began    time.Time  // the last count
	until    time.Time  // when they are counted again
}

func (sp *space) applyQuotas(is rouse.Namespace) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	first := sp.is.Revision == 0
	old := quotaRates(&sp.is.Quotas)
	sp.is = is
	sp.timers.until, sp.overlaps.until, sp.drafted.until = time.Time{}, time.Time{}, time.Time{}
	for i, r := range quotaRates(&is.Quotas) {
		switch {
		case first || old[i] == 0 || r == 0:
			part := 1 / float64(max(1, sp.nodes))
			sp.rate[i] = r * part
			for k := range sp.parts {
				sp.parts[k][i] = part
			}
		default:
			sp.rate[i] *= r / old[i]
		}
	}
}

func quotaRates(q *rouse.Quotas) [kinds]float64 { return [kinds]float64{q.Creates, q.Fires, q.Reads} }

// setShares sets this node's shares of the rates.
func (sp *space) setShares(part [kinds]float64, nodes int) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.nodes, sp.spent = nodes, 0
	copy(sp.parts[1:], sp.parts[:])
	sp.parts[0] = part
	for i, r := range quotaRates(&sp.is.Quotas) {
		for _, p := range sp.parts {
			part[i] = min(part[i], p[i])
		}
		sp.rate[i] = r * part[i]
	}
}

// deliveryShare returns this node's part of the concurrent deliveries, at least one: it is that of the fires.
func (sp *space) deliveryShare() int64 {
	part := 1.0
	for _, p := range sp.parts {
		part = min(part, p[fires])
	}
	return min(sp.is.Quotas.Deliveries, max(1, int64(float64(sp.is.Quotas.Deliveries)*part)))
}

// smoothDemand returns the demand of the given seconds since the last call, in requests a second. It counts
// half, and the earlier demand the other half, so that shares do not follow each burst.
func (sp *space) smoothDemand(fired int, seconds float64) (asked [kinds]float64) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.demand[fires] = float64(fired)
	for i, r := range quotaRates(&sp.is.Quotas) {
		if sp.asked[i] += (sp.demand[i]/max(seconds, 1e-3) - sp.asked[i]) / 2; r == 0 &&
			(i != fires || sp.is.Quotas.Deliveries == 0) {
			sp.asked[i] = 0
		}
	}
	sp.demand = [kinds]float64{}
	return sp.asked
}

// takeFromRate takes up to n from a rate.
func (sp *space) takeFromRate(kind, n int, now time.Time) (int, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.demand[kind] += float64(n)
	if sp.rate[kind] == 0 {
		return n, nil
	}
	b := &sp.buckets[kind]
	b.Set(sp.rate[kind], 0, now)
	got := b.Allows(n, now)
	b.Take(got)
	if got == n {
		return n, nil
	}
	limit := quotaRates(&sp.is.Quotas)[kind]
	return got, quotaExceeded(sp.name, kindNames[kind], strconv.FormatFloat(limit, 'g', -1, 64),
		max(b.Wait(1), time.Millisecond))
}

// countedQuota is a quota that bounds a number of rows.
type countedQuota struct {
	name   string
	most   func(q *rouse.Quotas) int64
	states []rouse.State // of the rows
	of     func(sp *space) *counted
}

var (
	timerCount = countedQuota{rouse.QuotaTimers, func(q *rouse.Quotas) int64 { return q.Timers }, rouse.ListedStates,
		func(sp *space) *counted { return &sp.timers }}
	overlapCount = countedQuota{rouse.QuotaOverlaps, func(q *rouse.Quotas) int64 { return q.Overlaps },
		[]rouse.State{rouse.StateFiring},
		func(sp *space) *counted { return &sp.overlaps }}
	draftCount = countedQuota{rouse.QuotaTimers, timerCount.most, rouse.ListedStates,
		func(sp *space) *counted { return &sp.drafted }}
)

// reserveRows returns how many of n rows there is room for. A node adds at most half of its part of the room
// before it counts again, as the others add rows, too.
func (sp *space) reserveRows(ctx context.Context, b *Book, q *countedQuota, n int) (int, error) {
	got, err, known := sp.roomKnown(q, n, false)
	if known {
		return got, err
	}
	if err := sp.recountRows(ctx, b, q); err != nil {
		return 0, err
	}
	got, err, _ = sp.roomKnown(q, n, true)
	return got, err
}

// roomKnown is reserveRows by the last count; known is false if the rows have to be counted first.
func (sp *space) roomKnown(q *countedQuota, n int, counted bool) (got int, err error, known bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	c, most, nodes := q.of(sp), q.most(&sp.is.Quotas), int64(max(1, sp.nodes))
	if most == 0 {
		return n, nil, true
	}
	now := time.Now()
	left := max(0, most-c.count-c.added)
	if nodes > 1 && int64(n) > left/nodes { // others may take the same room at the same time
		left = max(left/nodes, min(left, 1))
	}
	part := most - c.count
	if nodes > 1 {
		part /= 2 * nodes
	}
	switch fresh := now.Before(c.until); {
	case counted || fresh && c.added+int64(n) <= part || fresh && left == 0 && now.Before(c.until.Add(fullFor-freshFor)):
	default:
		return 0, nil, false
	}
	got = int(min(int64(n), left))
	c.added += int64(got)
	if got < n {
		err = quotaExceeded(sp.name, q.name, strconv.FormatInt(most, 10), countAgain)
	}
	return got, err, true
}

// recountRows reads how many rows there are. Rows that are added during that may count twice until the next
// time, which refuses too much rather than too little.
func (sp *space) recountRows(ctx context.Context, b *Book, q *countedQuota) error {
	c := q.of(sp)
	c.counting.Lock()
	defer c.counting.Unlock()
	sp.mu.Lock()
	before, began := c.added, time.Now()
	sp.mu.Unlock()
	n, err := b.store.Count(ctx, rouse.Query{Namespace: sp.name, States: q.states})
	if err != nil {
		return rouse.Unavailable(err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	c.count, c.added, c.began, c.until = n, c.added-before, began, time.Now().Add(freshFor)
	return nil
}

// takeUp admits a timer that was written as a draft so long ago, and counts since then.
func (sp *space) takeUp(ctx context.Context, b *Book, age time.Duration) error {
	written := time.Now().Add(-age)
	most, known := sp.takeUpKnown(written, false)
	if !known {
		if err := sp.recountRows(ctx, b, &draftCount); err != nil {
			return err
		}
		most, _ = sp.takeUpKnown(written, true)
	}
	if most > 0 {
		return quotaExceeded(sp.name, draftCount.name, strconv.FormatInt(most, 10), countAgain)
	}
	return nil
}

// takeUpKnown is takeUp by the last count: it returns the quota that refuses the timer, or 0. known is false
// if the timers have to be counted first.
func (sp *space) takeUpKnown(written time.Time, counted bool) (most int64, known bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	c, most := &sp.drafted, sp.is.Quotas.Timers
	switch {
	case most == 0:
		return 0, true
	case !counted && !time.Now().Before(c.until.Add(draftsFreshFor-freshFor)):
		return 0, false
	case c.count > most:
		return most, true
	case written.Before(c.began) || counted: // the count contains it
		return 0, true
	case c.count+c.added >= most:
		return 0, false
	}
	c.added++
	return 0, true
}

// quotaExceeded is the error of a request beyond a quota.
func quotaExceeded(namespace, name, limit string, after time.Duration) error {
	return &rouse.RetryAfter{Err: &rouse.QuotaError{Namespace: namespace, Quota: name, Limit: limit}, After: after}
}

// setGroupCount takes how many groups of workers this node has as its share begins.
func (sp *space) setGroupCount(groups int64) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.groups = groups
}
