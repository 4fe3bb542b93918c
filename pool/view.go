package pool

import (
	"cmp"
	"slices"
	"time"

	"github.com/rousehq/rouse/pool/driver"
)

// View is what a pool looks like at a moment.
type View struct {
	Pool       string      `json:"pool"`
	Leads      bool        `json:"leads"`                // this process manages it; what follows is empty if it does not
	Since      time.Time   `json:"since,omitzero"`       // when it began to
	Generation Generation  `json:"generation,omitempty"` // of what should be
	Reached    Generation  `json:"reached,omitempty"`    // that the queue loop has read
	Groups     []GroupView `json:"groups"`               // by key
}

// GroupView is what a group looks like at a moment.
type GroupView struct {
	Key     string          `json:"key"`
	Status  string          `json:"status"`               // that it should have
	Queue   string          `json:"queue"`                // what its queue is, in the same words, or closing
	Error   string          `json:"error,omitempty"`      // why its queue is not what it should be
	Report  time.Time       `json:"last_report,omitzero"` // of a worker
	Workers []driver.Worker `json:"workers"`
}

// View returns what the pool looks like.
func (m *Manager) View() View {
	v := View{Pool: m.config.Name, Groups: []GroupView{}}
	t := m.current()
	if t == nil {
		return v
	}
	v.Leads, v.Since = true, t.began
	target := t.keeper.target()
	v.Generation = target.Generation
	reached, queues := t.queues.status()
	v.Reached = reached
	workers := t.groups.workers()
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
	for key := range keys {
		q := queues[key]
		g := GroupView{Key: key, Status: target.Groups[key].String(), Queue: q.actual.String(), Report: t.lastReport(key), Workers: workers[key]}
		if q.closing {
			g.Queue = "closing"
		}
		if q.failed != nil {
			g.Error = q.failed.Error()
		}
		if g.Workers == nil {
			g.Workers = []driver.Worker{}
		}
		v.Groups = append(v.Groups, g)
	}
	slices.SortFunc(v.Groups, func(a, b GroupView) int { return cmp.Compare(a.Key, b.Key) })
	return v
}

func (t *Term) lastReport(key string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[key]
}
