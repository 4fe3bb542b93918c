package pool

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// View is a snapshot of a pool.
type View struct {
	Pool       string      `json:"pool"`
	Namespaces string      `json:"namespaces"`           // shared or apart
	Leads      bool        `json:"leads"`                // this process manages it; the next fields are empty if it does not
	Since      time.Time   `json:"since,omitzero"`       // when it began to
	Generation Generation  `json:"generation,omitempty"` // of the target
	Reached    Generation  `json:"reached,omitempty"`    // that the queue loop has read
	Groups     []GroupView `json:"groups"`               // by key
	// keys that may have no group yet, the first hundred, in the order of their turns
	Waiting []WaitView `json:"waiting,omitempty"`
	Waits   int        `json:"waits,omitempty"`  // how many there are
	Leader  string     `json:"leader,omitempty"` // the process that leads the pool, if known
}

// WaitView is a key whose group would be over a limit.
type WaitView struct {
	Namespace string    `json:"namespace,omitempty"` // of its group, if namespaces are apart
	Key       string    `json:"key"`
	Limit     string    `json:"limit"`
	Since     time.Time `json:"since"`
}

// mostShown is the maximum number of waiting keys in a View.
const mostShown = 100

// GroupView is a snapshot of a group.
type GroupView struct {
	Namespace string `json:"namespace,omitempty"` // whose group it is, if namespaces are apart
	Key       string `json:"key"`
	Status    string `json:"status"` // that it should have
	Queue     string `json:"queue"`  // the state of its queue, in the same words, or closing
	// why its queue has not the desired state, or its workers cannot be started or ended
	Error   string          `json:"error,omitempty"`
	Report  time.Time       `json:"last_report,omitzero"` // of its workers
	Ready   int             `json:"ready"`                // requests in its queue, when they were last counted
	Held    int             `json:"held"`                 // requests that its workers had then
	Limit   string          `json:"limit,omitempty"`      // its workers wait for this one
	Pinned  bool            `json:"pinned,omitempty"`
	Workers []driver.Worker `json:"workers"`
}

// View returns a snapshot of the pool.
func (m *Manager) View() View {
	v := View{Pool: m.config.Name, Namespaces: m.config.Namespaces, Groups: []GroupView{}}
	t := m.currentTerm()
	if t == nil {
		return v
	}
	v.Leads, v.Since = true, t.began
	target := t.tracker.currentTarget()
	v.Generation = target.Generation
	reached, queues := t.queues.queueStatuses()
	v.Reached = reached
	workers := t.groups.listedWorkers()
	keys := map[string]bool{}
	for key := range target.Groups {
		keys[key] = true
	}
	for key := range queues {
		keys[key] = true
	}
	for key := range workers {
		keys[key] = true
	}
	waiting := t.tracker.waitingKeys()
	v.Waits = len(waiting)
	for _, w := range waiting[:min(len(waiting), mostShown)] {
		namespace, key := SplitGroup(w.key)
		v.Waiting = append(v.Waiting, WaitView{namespace, key, w.limit, w.since})
	}
	limited, failed, unlisted := t.groups.limitedKeys(), t.groups.callFailures(), t.groups.listFailure()
	closed := t.groups.windowWait()
	t.mu.Lock()
	load, seen := t.load, maps.Clone(t.seen)
	t.mu.Unlock()
	m.mu.Lock()
	pinned := maps.Clone(m.pinned)
	m.mu.Unlock()
	for key := range keys {
		q := queues[key]
		namespace, plain := SplitGroup(key)
		g := GroupView{Namespace: namespace, Key: plain, Status: target.Groups[key].String(), Queue: q.actual.String(),
			Report:  seen[key],
			Workers: slices.Clone(workers[key]), Ready: load[key].Ready, Held: load[key].Held, Limit: limited[key],
			Pinned: pinned[key]}
		if closed != "" && target.Groups[key] == Active {
			g.Limit = closed
		}
		if q.closing {
			g.Queue = "closing"
		}
		if err := cmp.Or(q.failed, failed[key], unlisted); err != nil {
			g.Error = err.Error()
		}
		for i := range g.Workers {
			g.Workers[i].Key = plain
		}
		if g.Workers == nil {
			g.Workers = []driver.Worker{}
		}
		v.Groups = append(v.Groups, g)
	}
	slices.SortFunc(v.Groups, func(a, b GroupView) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Namespace, b.Namespace))
	})
	return v
}

// Statuses returns the states of pools in the form of the API.
func Statuses(pools []Served) []rouse.PoolStatus {
	list := make([]rouse.PoolStatus, 0, len(pools))
	for _, p := range pools {
		v := p.Manager.View()
		list = append(list, p.statusOf(&v))
	}
	return list
}

// statusOf returns the state of the pool, with the counts of its groups.
func (p *Served) statusOf(v *View) rouse.PoolStatus {
	s := rouse.PoolStatus{Pool: v.Pool, Namespaces: v.Namespaces, State: p.Transport.State(),
		Leader: p.Transport.Leader(), Since: instantOrZero(v.Since), GroupCount: len(v.Groups), Waiting: v.Waits}
	for i := range v.Groups {
		g := v.Groups[i].Group()
		s.Workers += len(g.Workers)
		s.Ready += g.Ready
		s.Held += g.Held
		if g.Limit != "" {
			s.Waiting++
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

// Group returns the group in the form of the API.
func (g *GroupView) Group() rouse.PoolGroup {
	out := rouse.PoolGroup{Namespace: g.Namespace, Key: g.Key, Status: g.Status, Queue: g.Queue,
		Error: shortenDetail(g.Error), Limit: g.Limit, Pinned: g.Pinned,
		LastReport: instantOrZero(g.Report), Ready: g.Ready, Held: g.Held}
	for i := range g.Workers {
		w := &g.Workers[i]
		out.Workers = append(out.Workers, rouse.PoolWorker{ID: w.ID, State: string(w.State), Since: instantOrZero(w.Since),
			Starts: w.Starts, LastExit: shortenDetail(w.LastExit)})
	}
	return out
}

func shortenDetail(text string) string {
	return rouse.Shorten(strings.ToValidUTF8(text, "\uFFFD"), rouse.MaxDetail)
}

// instantOrZero returns a time of this machine's clock; 0: there is none.
func instantOrZero(t time.Time) rouse.Instant {
	if t.IsZero() {
		return 0
	}
	return rouse.Reached(t)
}
