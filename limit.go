package rouse

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Limit is a named limit of a namespace: how many occurrences of the timers that name it (Spec.Limit) may be
// in progress at a time, and how many may begin in a time, on all nodes together. One whose name is that of a
// target (TargetLimit) applies to all timers with this target.
type Limit struct {
	Namespace, Name string

	Concurrency int       // occurrences that are with their targets at a time; 0 is unlimited
	Rate        LimitRate // the zero LimitRate is unlimited

	// PerKey means that each Spec.LimitKey has the limit for itself; its timers name one. It never changes.
	PerKey bool
	// Order is the order of those that wait. OrderByDue is that of their due times, whatever their priority,
	// and one that is tried again keeps its place: with a Concurrency of 1, one after another. Empty is that
	// of their priorities, and then of the times from which on they wait.
	Order string
	// Paused means that none begins. Those that are due wait.
	Paused bool

	Updated  Instant
	Revision uint64
	// Reset is when the rate was given its whole burst again, for each key; 0 is never.
	Reset Instant
}

// LimitUse is how much of a limit is in use, on one node or several.
type LimitUse struct {
	Waiting    int     // occurrences that are due and wait for the limit, in the memory of their node
	InProgress int     // occurrences that count for Limit.Concurrency
	Oldest     Instant // since when the one waits that has waited longest; 0: none waits
	Began      float64 // occurrences that began in a second, on average over the last ten seconds
	// Keys are of a limit that counts per key: those of which most wait, then those of which most are in
	// progress; up to MaxLimitKeysShown.
	Keys []LimitKeyUse
	More bool // there are other keys
}

// LimitKeyUse is how much of a limit one key uses.
type LimitKeyUse struct {
	Key                 string
	Waiting, InProgress int
	Oldest              Instant // as in LimitUse
}

// Merge adds the use on another node: a key counts on one node, but for a moment when its bucket moves.
func (u *LimitUse) Merge(other *LimitUse) {
	u.Waiting += other.Waiting
	u.InProgress += other.InProgress
	u.Began += other.Began
	u.Oldest = earlierOf(u.Oldest, other.Oldest)
	u.More = u.More || other.More
	for _, k := range other.Keys {
		u.AddKey(k)
	}
}

// AddKey adds the use of a key, and keeps MaxLimitKeysShown keys in their order.
func (u *LimitUse) AddKey(k LimitKeyUse) {
	if i := slices.IndexFunc(u.Keys, func(other LimitKeyUse) bool { return other.Key == k.Key }); i >= 0 {
		k.Waiting += u.Keys[i].Waiting
		k.InProgress += u.Keys[i].InProgress
		k.Oldest = earlierOf(k.Oldest, u.Keys[i].Oldest)
		u.Keys = slices.Delete(u.Keys, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(u.Keys, k, func(a, b LimitKeyUse) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.InProgress, a.InProgress), cmp.Compare(a.Key, b.Key))
	})
	if i == MaxLimitKeysShown {
		u.More = true
		return
	}
	u.Keys = slices.Insert(u.Keys, i, k)
	if len(u.Keys) > MaxLimitKeysShown {
		u.Keys, u.More = u.Keys[:MaxLimitKeysShown], true
	}
}

// earlierOf returns the earlier of two times of which 0 is none.
func earlierOf(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// OrderByDue is a Limit.Order.
const OrderByDue = "due"

// LimitRate is how many occurrences may begin in a time.
type LimitRate struct {
	Count int
	Per   time.Duration
	// Burst is how many may begin at once after a time without any. 0 is the number of a tenth of a second,
	// at least 1.
	Burst int
}

// Bounds of limits.
const (
	MaxConcurrency   = 1_000_000 // the largest Limit.Concurrency
	MaxLimitRate     = 1_000_000 // the largest LimitRate.Count and Burst
	MinLimitPer      = 100 * time.Millisecond
	MaxLimitPer      = 31 * 24 * time.Hour
	MaxLimitKey      = 128   // bytes of a Spec.LimitKey
	MaxLimits        = 1_000 // limits of one namespace
	MaxLimitsOfStore = 10_000

	MaxLimitKeysShown = 20 // LimitUse.Keys
)

// Interval returns the time between two occurrences at the rate; 0 if it is unlimited.
func (r LimitRate) Interval() time.Duration {
	if r.Count <= 0 {
		return 0
	}
	return max(r.Per/time.Duration(r.Count), 1)
}

// AtOnce returns how many may begin at once after a time without any.
func (r LimitRate) AtOnce() int {
	if r.Burst > 0 || r.Count <= 0 {
		return r.Burst
	}
	return max(1, int(100*time.Millisecond/r.Interval()))
}

// CheckLimitName refuses names that a limit cannot have.
func CheckLimitName(field, name string) error {
	if IsTargetLimit(name) {
		return checkTargetLimit(field, name)
	}
	if CheckNamespace(name) != nil { // the same alphabet
		return Refuse(field, Shorten(name, 64), "is no name of a limit",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first, or target: and a target")
	}
	return nil
}

// Check refuses, with an *Invalid, a limit that means nothing.
func (l *Limit) Check() error {
	var bad Invalid
	bad.Add(CheckNamespace(l.Namespace))
	bad.Add(CheckLimitName("name", l.Name))
	count := func(field string, n, least, most int) {
		if n < least || n > most {
			bad.Add(Refuse(field, fmt.Sprint(n), "is out of bounds", fmt.Sprintf("use %d to %d", least, most)))
		}
	}
	count("concurrency", l.Concurrency, 0, MaxConcurrency)
	count("rate.count", l.Rate.Count, 0, MaxLimitRate)
	count("rate.burst", l.Rate.Burst, 0, MaxLimitRate)
	if l.Order != "" && l.Order != OrderByDue {
		bad.Add(Refuse("order", Shorten(l.Order, 64), "is no order", `use "due", or leave it out`))
	}
	if IsTargetLimit(l.Name) {
		l.checkOfTarget(&bad)
	}
	if r := l.Rate; r.Count > 0 && r.Burst > 1 && r.Interval() > MaxLimitPer/time.Duration(r.Burst-1) {
		bad.Add(Refuse("rate.burst", fmt.Sprint(r.Burst), "is more than the rate gives in 31 days",
			fmt.Sprintf("use at most %d", MaxLimitPer/r.Interval()+1)))
	}
	if l.Concurrency == 0 && l.Rate == (LimitRate{}) && !l.Paused {
		bad.Add(Refuse("concurrency", "0", "bounds nothing, and there is no rate",
			fmt.Sprintf("give 1 to %d, or a rate; to let none of its timers begin, pause it", MaxConcurrency)))
	}
	switch per := l.Rate.Per; {
	case l.Rate.Count == 0 && l.Rate != LimitRate{}:
		bad.Add(Refuse("rate.count", "0", "is missing", "give a rate with its time, or neither these nor a burst"))
	case l.Rate.Count > 0 && (per < MinLimitPer || per > MaxLimitPer):
		bad.Add(Refuse("rate.per", per.String(), "is out of bounds", fmt.Sprintf("use %v to %v", MinLimitPer, MaxLimitPer)))
	}
	return bad.Err()
}

// Replacing returns this limit as it is when it replaces one that exists: it counts per key if that does, and
// stays paused. It refuses, with an *Invalid, a limit per key if the other counts together.
func (l Limit) Replacing(existing Limit) (Limit, error) {
	if l.PerKey && !existing.PerKey {
		return l, Refuse("per_key", "true", "is not what limit "+l.Name+" was made with: its timers have no keys",
			"make another limit, or delete this one and write its timers again")
	}
	l.PerKey, l.Paused = existing.PerKey, l.Paused || existing.Paused
	l.Updated, l.Revision, l.Reset = existing.Updated, existing.Revision, existing.Reset
	return l, nil
}

// CheckUse refuses, with an *Invalid, a spec that names this limit and does not go with it.
func (l *Limit) CheckUse(s *Spec) error {
	switch {
	case l.PerKey && s.LimitKey == "":
		return Refuse("limit_key", "", "is missing",
			fmt.Sprintf("give the key that the timer counts for, such as a customer: limit %s counts by key", l.Name))
	case !l.PerKey && s.LimitKey != "":
		return Refuse("limit_key", s.LimitKey, "does not go with limit "+l.Name+", which counts all its timers together",
			"leave it out, or name a limit with per_key")
	}
	return nil
}

// checkLimit checks the limit that a spec names by itself.
func (s *Spec) checkLimit(add func(field, value, wrong, cure string),
	text func(field, value string, limit int, required bool)) {
	if s.Limit == "" {
		if s.LimitKey != "" {
			add("limit_key", s.LimitKey, "has no limit to count for", "name one in limit")
		}
		return
	}
	if IsTargetLimit(s.Limit) {
		add("limit", s.Limit, "bounds all timers with its target, and none of another one", "leave it out")
		return
	}
	if err := CheckLimitName("limit", s.Limit); err != nil {
		p := err.(*Invalid).Problems[0]
		add(p.Field, p.Value, p.Wrong, p.Cure)
	}
	text("limit_key", s.LimitKey, MaxLimitKey, false)
	if wrong := limitKeyFault(s.LimitKey); wrong != "" {
		add("limit_key", s.LimitKey, wrong, referenceCure)
	}
}
