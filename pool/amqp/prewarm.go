package amqp

import (
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/pool"
)

// maxComing bounds the fires of a pool that are known to come; groups of others start when the time has come.
const maxComing = 1 << 16

// warmth is the fires that come, by when their groups are next to be asked for.
type warmth struct {
	mu   sync.Mutex
	list byStart
}

// coming is a fire that comes.
type coming struct {
	key   string
	start time.Time // when its group is to be asked for
	fire  time.Time
}

// byStart is a heap.
type byStart []coming

func (b byStart) Len() int           { return len(b) }
func (b byStart) Less(i, j int) bool { return b[i].start.Before(b[j].start) }
func (b byStart) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byStart) Push(x any)        { *b = append(*b, x.(coming)) }

func (b *byStart) Pop() any {
	old := *b
	n := old[len(old)-1]
	old[len(old)-1] = coming{}
	*b = old[:len(old)-1]
	return n
}

// Near tells of a fire for a key that comes in a while, if nothing happens to it: its group is there so long before. It is quick, and
// calls nobody back.
func (a *Caller) Near(key string, in time.Duration) {
	if a.opts.Prewarm == 0 {
		return
	}
	fire := time.Now().Add(in)
	a.warm.mu.Lock()
	defer a.warm.mu.Unlock()
	if len(a.warm.list) < maxComing {
		heap.Push(&a.warm.list, coming{strings.Clone(key), fire.Add(-a.opts.Prewarm), fire})
	}
}

// keepWarm asks for the groups of fires that are near, until ctx ends. It does so by the reports that workers make, so that it reaches
// whichever process leads the pool. A group stays for the unbind delay.
func (a *Caller) keepWarm(ctx context.Context, l *link) {
	if a.opts.Prewarm == 0 {
		return
	}
	again := max(a.c.manager.Config().Delays.Unbind/2, 10*time.Millisecond)
	tick := time.NewTicker(min(time.Second, max(a.opts.Prewarm/4, 10*time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, key := range a.warm.due(now, again) {
				report := amqp091.Publishing{Headers: amqp091.Table{eventHeader: pool.Wanted}}
				if l.publish(a.c.names.activityExchange(), key, report) != nil {
					return // the session ends
				}
			}
		}
	}
}

// due returns the keys whose groups are to be asked for now. Those whose fires come later than again from now are asked for then once more.
func (w *warmth) due(now time.Time, again time.Duration) (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := map[string]bool{}
	for len(w.list) > 0 && !w.list[0].start.After(now) {
		c := heap.Pop(&w.list).(coming)
		if c.fire.Before(now.Add(-rouse.MisfireGrace)) {
			continue // there was no connection for long
		}
		if !asked[c.key] {
			asked[c.key] = true
			keys = append(keys, c.key)
		}
		if next := now.Add(again); next.Before(c.fire) {
			c.start = next
			heap.Push(&w.list, c)
		}
	}
	return keys
}
