package api

import (
	"time"

	"github.com/rousehq/rouse"
)

// Quotas bound what a namespace may have and do, on all nodes together. What is missing or 0 is unlimited.
type Quotas struct {
	// that exist; those that have ended and are kept count too
	Timers int64 `json:"timers,omitzero" schema:"minimum=0"`
	// that its timers, occurrences and dead letters take
	Bytes       int64 `json:"bytes,omitzero" schema:"minimum=0"`
	DeadLetters int64 `json:"dead_letters,omitzero" schema:"minimum=0"` // that are kept, the newest
	// occurrences in progress next to their timers; more are skipped
	Overlaps int64 `json:"overlaps,omitzero" schema:"minimum=0"`
	// groups of workers that its requests have started; further keys wait
	PoolGroups int64   `json:"pool_groups,omitzero" schema:"minimum=0"`
	Creates    float64 `json:"creates_per_second,omitzero" schema:"minimum=0"` // timers that clients write
	Fires      float64 `json:"fires_per_second,omitzero" schema:"minimum=0"`   // attempts; further ones wait
	Reads      float64 `json:"reads_per_second,omitzero" schema:"minimum=0"`   // requests that read
	// concurrent deliveries; further ones wait
	Deliveries int64 `json:"deliveries,omitzero" schema:"minimum=0"`
	// timers that come due more often are refused
	MinInterval Duration `json:"min_interval,omitzero"`
	// timers whose attempts may take longer are refused; without it by max-timeout
	MaxTimeout Duration `json:"max_timeout,omitzero"`
	// steps that the search for the next occurrence of a timer may take
	ScheduleCost int64 `json:"schedule_cost,omitzero" schema:"minimum=0"`
}

// QuotasOf returns the JSON form.
func QuotasOf(q rouse.Quotas) Quotas {
	return Quotas{q.Timers, q.Bytes, q.DeadLetters, q.Overlaps, q.PoolGroups, q.Creates, q.Fires, q.Reads, q.Deliveries,
		Duration(q.MinInterval), Duration(q.MaxTimeout), q.ScheduleCost}
}

// Words returns the quotas of the form.
func (q Quotas) Words() rouse.Quotas {
	return rouse.Quotas{Timers: q.Timers, Bytes: q.Bytes, DeadLetters: q.DeadLetters, Overlaps: q.Overlaps,
		PoolGroups: q.PoolGroups, Creates: q.Creates,
		Fires: q.Fires, Reads: q.Reads, Deliveries: q.Deliveries, MinInterval: time.Duration(q.MinInterval),
		MaxTimeout: time.Duration(q.MaxTimeout), ScheduleCost: q.ScheduleCost}
}

// Usage is how much of its quotas a namespace uses. Rates are what was asked for in the last seconds; 0
// without a quota, as are bytes and pool_groups.
type Usage struct {
	Timers      int64   `json:"timers"`
	Bytes       int64   `json:"bytes"`
	DeadLetters int64   `json:"dead_letters"`
	Overlaps    int64   `json:"overlaps"`
	PoolGroups  int64   `json:"pool_groups"`
	Creates     float64 `json:"creates_per_second"`
	Fires       float64 `json:"fires_per_second"`
	Reads       float64 `json:"reads_per_second"`
}

// Namespace is a namespace that was created or has timers.
type Namespace struct {
	Name     string `json:"name"`
	Quotas   Quotas `json:"quotas"`
	Updated  Time   `json:"updated"`
	Revision uint64 `json:"revision"`       // 0: it was not created
	Usage    *Usage `json:"usage,omitzero"` // of a single one
	// how many rows it has by state, without those of which there are none; with counts, if the caller may
	// read all of its timers
	Counts map[string]int64 `json:"counts,omitempty"`
	// who is told of failures of its timers, if the caller may read all of them
	Notify []NotifyRule `json:"notify,omitempty"`
}

// NotifyRule is who is told of the failures of timers of a namespace that have no notify of their own. The
// first rule whose labels a timer has counts for it.
type NotifyRule struct {
	// that timers must have; none: all timers
	Labels map[string]string `json:"labels,omitempty"`
	Target string            `json:"target" schema:"maxLength=2048"`
	// the events; none: all that can happen, late only with the member late
	Events []string `json:"events,omitempty" schema:"maxItems=6,items.enum=overdue|recovered|dead|missed|late|paused"`
	// of late: an occurrence began later than this after it was due
	Late Duration `json:"late,omitzero"`
	// of dead: from this number of dead letters in a row on
	After uint32 `json:"after,omitzero" schema:"maximum=1000"`
	// at most one notice of a timer in so long a time, with the number of events
	Every Duration `json:"every,omitzero"`
	// of the payload; left out, it has all members
	Format string `json:"format,omitzero" schema:"enum=slack|discord|teams"`
}

// NotifyRuleOf returns the JSON form.
func NotifyRuleOf(r *rouse.NotifyRule) NotifyRule {
	return NotifyRule{r.Labels, r.Target, r.Events, Duration(r.Late), r.After, Duration(r.Every), r.Format}
}

// Words returns the rule of the form.
func (r *NotifyRule) Words() rouse.NotifyRule {
	return rouse.NotifyRule{Labels: r.Labels, Notify: rouse.Notify{Target: r.Target, Events: r.Events,
		Late: time.Duration(r.Late), After: r.After, Every: time.Duration(r.Every), Format: r.Format}}
}

// PutNotify asks for the rules of a namespace.
type PutNotify struct {
	Rules []NotifyRule `json:"rules" schema:"maxItems=10"` // all of them
	// of the namespace: another one is a conflict
	IfRevision uint64 `json:"if_revision,omitzero"`
}

// NamespaceOf returns the JSON form.
func NamespaceOf(n *rouse.Namespace) Namespace {
	out := Namespace{Name: n.Name, Quotas: QuotasOf(n.Quotas), Updated: TimeOf(n.Updated), Revision: n.Revision}
	for state, count := range n.Counts {
		if out.Counts == nil {
			out.Counts = map[string]int64{}
		}
		out.Counts[state.String()] = count
	}
	for i := range n.Notify {
		out.Notify = append(out.Notify, NotifyRuleOf(&n.Notify[i]))
	}
	return out
}

// UsageOf returns the JSON form.
func UsageOf(u *rouse.Usage) *Usage {
	return &Usage{u.Timers, u.Bytes, u.DeadLetters, u.Overlaps, u.PoolGroups, u.Creates, u.Fires, u.Reads}
}

// PutNamespace asks for a namespace with quotas.
type PutNamespace struct {
	Quotas Quotas `json:"quotas,omitzero"` // all of them; one that is missing is unlimited
}

// NamespaceList is a page of namespaces, in the order of their names.
type NamespaceList struct {
	Namespaces    []Namespace `json:"namespaces"`
	NextPageToken string      `json:"next_page_token,omitzero"`
}
