package api

import (
	"time"

	"github.com/rousehq/rouse"
)

// Limit is a named limit of a namespace: how many occurrences of the timers that name it may be in progress,
// and how many may begin in a time, on all nodes together.
type Limit struct {
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Concurrency int64     `json:"concurrency,omitzero"` // occurrences in progress; left out is unlimited
	Rate        LimitRate `json:"rate,omitzero"`        // left out is unlimited
	PerKey      bool      `json:"per_key,omitzero"`     // each limit_key of timers has the limit for itself
	// of those that wait: due, or left out, which is by priority
	Order    string `json:"order,omitzero" schema:"enum=due"`
	Paused   bool   `json:"paused,omitzero"` // none begins
	Updated  Time   `json:"updated"`
	Revision uint64 `json:"revision"`
	Reset    Time   `json:"reset,omitzero"` // when its rate had its whole burst again; left out is never
	// of those that are read; in a list without keys and nodes
	Use *LimitUse `json:"use,omitzero"`
}

// LimitUse is how much of a limit is in use, on all nodes together. Each node counts what it has in its
// memory.
type LimitUse struct {
	Waiting        int64   `json:"waiting"`                 // occurrences that are due and wait for the limit
	InProgress     int64   `json:"in_progress"`             // occurrences that count for its concurrency
	OldestWaiting  Time    `json:"oldest_waiting,omitzero"` // since when the one waits that has waited longest
	BeganPerSecond float64 `json:"began_per_second"`        // occurrences that began, on average over the last ten seconds
	// of a limit with per_key: the 20 keys of which most wait, then those of which most are in progress
	Keys  []LimitKeyUse `json:"keys,omitzero"`
	More  bool          `json:"more,omitzero"`  // there are other keys
	Nodes []StatusNode  `json:"nodes,omitzero"` // that were asked
}

// LimitKeyUse is how much of a limit one key uses.
type LimitKeyUse struct {
	Key           string `json:"key"`
	Waiting       int64  `json:"waiting"`
	InProgress    int64  `json:"in_progress"`
	OldestWaiting Time   `json:"oldest_waiting,omitzero"`
}

// LimitRate is how many occurrences may begin in a time.
type LimitRate struct {
	Count int64    `json:"count" schema:"minimum=1,maximum=1000000"`
	Per   Duration `json:"per"` // 100ms to 31 days
	// how many may begin at once after a time without any; left out is the number of a tenth of a second
	Burst int64 `json:"burst,omitzero" schema:"minimum=0,maximum=1000000"`
}

// PutLimit asks for a limit of the name in the request's path.
type PutLimit struct {
	Concurrency int64     `json:"concurrency,omitzero" schema:"minimum=0,maximum=1000000"` // occurrences in progress; 0 is unlimited
	Rate        LimitRate `json:"rate,omitzero"`                                           // left out is unlimited
	// each limit_key of timers has the limit for itself; of a limit that exists, it stays as it is
	PerKey bool `json:"per_key,omitzero"`
	// of those that wait: due, which is one after another if concurrency is 1, or left out, which is by
	// priority
	Order  string `json:"order,omitzero" schema:"enum=due"`
	Paused bool   `json:"paused,omitzero"` // none begins
}

// LimitList is all limits of a namespace.
type LimitList struct {
	Limits []Limit      `json:"limits"`         // in the order of their names
	Nodes  []StatusNode `json:"nodes,omitzero"` // that were asked for the use
}

// LimitOf returns the JSON form.
func LimitOf(l *rouse.Limit) Limit {
	out := Limit{Namespace: l.Namespace, Name: l.Name, Concurrency: int64(l.Concurrency), PerKey: l.PerKey, Order: l.Order,
		Paused: l.Paused, Updated: TimeOf(l.Updated), Revision: l.Revision, Reset: TimeOf(l.Reset)}
	out.Rate = LimitRate{Count: int64(l.Rate.Count), Per: Duration(l.Rate.Per), Burst: int64(l.Rate.Burst)}
	return out
}

// Parse returns the limit in the words of rouse; what it means is for rouse.Limit.Check.
func (o *Limit) Parse() rouse.Limit {
	return rouse.Limit{Namespace: o.Namespace, Name: o.Name, Concurrency: int(o.Concurrency),
		Rate:   rouse.LimitRate{Count: int(o.Rate.Count), Per: time.Duration(o.Rate.Per), Burst: int(o.Rate.Burst)},
		PerKey: o.PerKey, Order: o.Order, Paused: o.Paused, Updated: o.Updated.Instant(), Revision: o.Revision,
		Reset: o.Reset.Instant()}
}

// LimitUseOf returns the JSON form, without nodes.
func LimitUseOf(u *rouse.LimitUse) *LimitUse {
	out := &LimitUse{Waiting: int64(u.Waiting), InProgress: int64(u.InProgress), OldestWaiting: TimeOf(u.Oldest),
		BeganPerSecond: u.Began, More: u.More}
	for _, k := range u.Keys {
		out.Keys = append(out.Keys, LimitKeyUse{k.Key, int64(k.Waiting), int64(k.InProgress), TimeOf(k.Oldest)})
	}
	return out
}
