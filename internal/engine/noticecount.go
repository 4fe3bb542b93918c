package engine

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// noticeCount is how many notices and callbacks of a timer or a namespace wait for their targets.
type noticeCount struct {
	n    int       // of the last count, and those that this node has added since
	left int       // that this node may add before it counts again
	at   time.Time // of the last count; zero: they were not counted yet
}

const (
	// maxNamespaceNotices bounds the notices and callbacks of a namespace that wait, with everything else
	// that is in progress next to its timers.
	maxNamespaceNotices = 1_000_000
	// uncounted is how many notices and callbacks of a timer this node adds before it counts them the first
	// time, at most: most timers have few, and a count for each of them would be as many reads as callbacks.
	uncounted = 100
	// noticeLook is how soon they are counted again if there are as many as may be.
	noticeLook = 5 * time.Second
)

// callbacksMost returns how many callbacks may wait: a tenth of the places is for notices of failures, which
// arrive although the callbacks of the timer do not.
func (b *bound) callbacksMost() int { return b.most - b.most/10 }

// addNotices adds the notices and callbacks of a step, or records in place of those for which there is no
// room. If that needs a count and the meter has a limit, it returns errLater.
func (c *crowds) addNotices(step *rouse.Step, was *rouse.Timer, o rouse.Outcome, now rouse.Instant,
	m *schedulecache.Meter) error {
	step.AddNotices(was, o, now, c.NotifyRules(was.Key.Namespace))
	n := step.CountNotices()
	if n == 0 {
		return nil
	}
	bounds := c.noticeBounds(was)
	for _, b := range bounds {
		if c.knowsNotices(b, n) {
			continue
		}
		if m.Limit > 0 {
			return errLater
		}
		m.Steps += c.recountNotices(b, n)
	}
	step.SkipNotices(now, func(callback bool) string {
		for _, b := range bounds {
			if !c.takeNotice(b, callback) {
				return fmt.Sprintf("more than %d notices and callbacks of the %s wait for their targets", b.most, b.name)
			}
		}
		return ""
	})
	return nil
}

// noticeBounds returns the bounds of the notices and callbacks of a timer. One of a single occurrence has
// few, and is deleted: its name is not counted.
func (c *crowds) noticeBounds(t *rouse.Timer) (list []bound) {
	if c.opts.NoticesPerTimer >= 0 && (t.Spec.Recurring() || t.Spec.IsCheck()) {
		list = append(list, bound{rouse.Key{Namespace: t.Key.Namespace, Name: t.Key.Name}, c.opts.NoticesPerTimer, "timer"})
	}
	return append(list, bound{rouse.Key{Namespace: t.Key.Namespace}, c.opts.NoticesPerNamespace, "namespace"})
}

// knowsNotices reports whether it is known if there is room for n more.
func (c *crowds) knowsNotices(b bound, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, counted := c.notices[b.key]
	if !counted {
		w.left = min(b.most/10, uncounted)
		c.cacheNotices(b.key, w)
	}
	if w.n+n > b.callbacksMost() {
		return counted && time.Since(w.at) < noticeLook
	}
	return w.left >= n
}

// takeNotice takes the place of a notice or a callback, if there is one.
func (c *crowds) takeNotice(b bound, callback bool) bool {
	most := b.most
	if callback {
		most = b.callbacksMost()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.notices[b.key]
	if w.n >= most {
		return false
	}
	w.n, w.left = w.n+1, w.left-1
	c.cacheNotices(b.key, w)
	return true
}

// cacheNotices keeps a count. The mutex is held.
func (c *crowds) cacheNotices(key rouse.Key, w noticeCount) {
	if c.notices == nil || len(c.notices) >= maxCrowds {
		c.notices = map[rouse.Key]noticeCount{}
	}
	c.notices[key] = w
}

// recountNotices counts the notices and callbacks that wait, before n more are added. Of the room that is
// left, a node next to others takes half of its part before it counts again. looks is how many rows it read.
func (c *crowds) recountNotices(b bound, n int) (looks int) {
	w := noticeCount{n: c.countRowsInState(b.key, rouse.StateFiring)}
	if b.key.Name != "" && w.n+n > b.callbacksMost() {
		w.n, looks = c.countFiring(b, func(t *rouse.Timer) bool { return t.Notice != 0 })
	}
	w.left, w.at = max(b.most-w.n, 0), time.Now()
	if nodes := c.nodeCount(); nodes > 1 {
		w.left = max(n, w.left/(2*nodes))
	}
	c.mu.Lock()
	c.cacheNotices(b.key, w)
	c.mu.Unlock()
	return looks
}

// AddNotices adds the notices and callbacks that a client's step calls for, as settles do.
func (e *Engine) AddNotices(step *rouse.Step, was *rouse.Timer) {
	_ = e.settler.crowds.addNotices(step, was, rouse.Outcome{}, e.Latest(), &schedulecache.Meter{}) // without a limit
}
