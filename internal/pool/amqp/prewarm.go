package amqp

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// Near announces a fire for a key, which is due in a while unless it changes, so that its group is started in
// time. It is quick, and calls no other code.
func (a *Caller) Near(namespace, key string, in time.Duration) {
	if a.opts.Prewarm == 0 {
		return
	}
	name, err := a.groupName(namespace, key)
	if err != nil {
		return // the request will be refused
	}
	fire := time.Now().Add(in)
	a.ahead.Add(pool.Coming{Key: name, Start: fire.Add(-a.opts.Prewarm), Fire: fire})
}

// keepWarm requests the groups of announced fires until ctx ends. It publishes reports as workers do, which
// reach whichever process leads the pool. A group stays for the unbind delay.
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
			for _, key := range a.dueKeys(now, again) {
				report := amqp091.Publishing{Headers: amqp091.Table{eventHeader: pool.Wanted}}
				if l.publishRequest(a.c.names.activityExchange(), key, report) != nil {
					return // the session ends
				}
			}
		}
	}
}

// dueKeys returns the keys whose groups must be requested now. Keys with fires due later than again from now
// are requested again then.
func (a *Caller) dueKeys(now time.Time, again time.Duration) (keys []string) {
	asked := map[string]bool{}
	for _, c := range a.ahead.Due(now) {
		if c.Fire.Before(now.Add(-rouse.MisfireGrace)) {
			continue // there was no connection for long
		}
		if !asked[c.Key] {
			asked[c.Key] = true
			keys = append(keys, c.Key)
		}
		if next := now.Add(again); next.Before(c.Fire) {
			c.Start = next
			a.ahead.Add(c)
		}
	}
	return keys
}
