package rouse

import (
	"fmt"
	"strconv"
	"time"
)

// Namespace is a tenant: a namespace that an administrator has created, with its quotas. Unless access
// control is on, timers can also be in namespaces that have not been created.
type Namespace struct {
	Name     string
	Quotas   Quotas
	Updated  Instant
	Notify   []NotifyRule // is not to be changed
	Revision uint64       // 0: it was not created, and has timers

	Counts map[State]int64 // of its rows by state, without those of which there are none; nil: not counted
}

// NamespaceQuery selects namespaces, in the order of their names.
type NamespaceQuery struct {
	After  string // strictly after this name
	Limit  int    // at most so many; at least 1
	All    bool   // also those that were not created, and have timers
	Counts bool   // with how many rows each has
}

// ReservedNamespace holds the data that the nodes of a store share, such as keys and secrets. No client can
// name it, and its rows are notes, which no list shows.
const ReservedNamespace = "_rouse"

// Quotas limit the contents and the rates of a namespace, on all nodes of a store together. Zero fields are
// unlimited.
type Quotas struct {
	Timers       int64         // that exist; those that have ended and are kept count too
	Bytes        int64         // that its timers, occurrences and dead letters take: see Row.Size
	DeadLetters  int64         // dead letters that are kept, the newest
	Overlaps     int64         // occurrences in progress next to their timers, under overlap "allow"; more are skipped
	PoolGroups   int64         // groups of workers that its requests have started; further keys wait
	Creates      float64       // timers that clients write in a second
	Fires        float64       // attempts in a second; further ones wait
	Deliveries   int64         // concurrent deliveries; further ones wait
	Reads        float64       // requests that read, in a second
	MinInterval  time.Duration // timers that come due more often are refused
	MaxTimeout   time.Duration // timers whose attempts may take longer are refused, in place of the setting max-timeout
	ScheduleCost int64         // steps that the search for the next occurrence of a timer may take: see Spec.Cost
}

// Names of quotas in errors, metrics and the API.
const (
	QuotaTimers       = "timers"
	QuotaBytes        = "bytes"
	QuotaDeadLetters  = "dead_letters"
	QuotaOverlaps     = "overlaps"
	QuotaPoolGroups   = "pool_groups"
	QuotaCreates      = "creates_per_second"
	QuotaFires        = "fires_per_second"
	QuotaDeliveries   = "deliveries"
	QuotaReads        = "reads_per_second"
	QuotaMinInterval  = "min_interval"
	QuotaMaxTimeout   = "max_timeout"
	QuotaScheduleCost = "schedule_cost"
)

const (
	maxQuotaCount = 1 << 50
	maxQuotaRate  = 1e9
	maxQuotaTime  = 366 * 24 * time.Hour
)

// Check refuses quotas that mean nothing.
func (q *Quotas) Check() error {
	var bad Invalid
	for _, one := range q.List(&Usage{}) {
		most := float64(maxQuotaCount)
		switch one.Unit {
		case UnitPerSecond:
			most = maxQuotaRate
		case UnitTime:
			most = maxQuotaTime.Seconds()
		}
		if !(one.Limit >= 0 && one.Limit <= most) { // also of a rate that is no number
			bad.Add(Refuse("quotas."+one.Name, one.Text(one.Limit), "is out of bounds",
				"give 0, which is unlimited, to "+one.Text(most)))
		}
	}
	return bad.Err()
}

// Quota is one quota of a namespace.
type Quota struct {
	Name     string
	Unit     Unit
	Limit    float64 // 0: unlimited
	Used     float64
	Measured bool // false: Used means nothing, as the quota is of single timers
}

// Unit is the unit of a quota.
type Unit uint8

// Units of quotas.
const (
	UnitCount     Unit = iota
	UnitPerSecond      // a rate
	UnitTime           // seconds
)

// Text returns a limit or a use of the quota as text.
func (q *Quota) Text(n float64) string {
	switch q.Unit {
	case UnitCount:
		return strconv.FormatInt(int64(n), 10)
	case UnitTime:
		return time.Duration(n * float64(time.Second)).String()
	default:
		return strconv.FormatFloat(n, 'g', -1, 64)
	}
}

// List returns all quotas, with how much of each is used.
func (q *Quotas) List(u *Usage) []Quota {
	count := func(name string, most, used int64) Quota {
		return Quota{Name: name, Limit: float64(most), Used: float64(used), Measured: true}
	}
	rate := func(name string, most, used float64) Quota {
		return Quota{Name: name, Unit: UnitPerSecond, Limit: most, Used: used, Measured: true}
	}
	return []Quota{
		count(QuotaTimers, q.Timers, u.Timers),
		count(QuotaBytes, q.Bytes, u.Bytes),
		count(QuotaDeadLetters, q.DeadLetters, u.DeadLetters),
		count(QuotaOverlaps, q.Overlaps, u.Overlaps),
		count(QuotaPoolGroups, q.PoolGroups, u.PoolGroups),
		rate(QuotaCreates, q.Creates, u.Creates),
		rate(QuotaFires, q.Fires, u.Fires),
		rate(QuotaReads, q.Reads, u.Reads),
		{Name: QuotaDeliveries, Limit: float64(q.Deliveries)},
		{Name: QuotaMinInterval, Unit: UnitTime, Limit: q.MinInterval.Seconds()},
		{Name: QuotaMaxTimeout, Unit: UnitTime, Limit: q.MaxTimeout.Seconds()},
		{Name: QuotaScheduleCost, Limit: float64(q.ScheduleCost)},
	}
}

// QuotaError is the error of a request beyond a quota of its namespace. It is ErrQuota. It comes within a
// *RetryAfter.
type QuotaError struct {
	Namespace string
	Quota     string // its name
	Limit     string
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota %s of the namespace %q is %s: %v", e.Quota, e.Namespace, e.Limit, ErrQuota)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// Usage is how much of its quotas a namespace uses. Rates are the demand of the last seconds, on all nodes; 0
// without a quota, as are Bytes and PoolGroups.
type Usage struct {
	Timers, Bytes, DeadLetters, Overlaps, PoolGroups int64
	Creates, Fires, Reads                            float64
	// the caller may see a part of the namespace only: the rest is left out
	Hidden bool
}
