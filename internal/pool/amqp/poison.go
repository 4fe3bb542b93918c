package amqp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// Headers of a request in the inventory.
const (
	idHeader     = "x-rouse-poison"
	keyHeader    = "x-rouse-key"
	whenHeader   = "x-rouse-when"
	reasonHeader = "x-rouse-reason"

	// replayHeader marks a replayed request. It returns to the inventory, whatever ends it.
	replayHeader = "x-rouse-replayed"
)

// poisonMessage converts a request for the inventory.
func (c *Controller) poisonMessage(d *amqp091.Delivery, key, reason string) amqp091.Publishing {
	m := withoutBrokerHeaders(d)
	m.Expiration = ""
	m.DeliveryMode = amqp091.Persistent
	m.Headers[idHeader], m.Headers[keyHeader], m.Headers[whenHeader] = strings.ToLower(rand.Text()[:16]), key,
		time.Now().UTC()
	m.Headers[reasonHeader] = reason
	return m
}

// inventory is the queue of poison requests. Only its first message can be taken: to find a request, all
// before it are taken and requeued.
type inventory struct {
	c         *Controller
	publisher *publisher
	mu        sync.Mutex // one look at a time: others would not see the messages it has taken
}

// verdict is the treatment of a poison request after its examination.
type verdict uint8

const (
	leave verdict = iota
	remove
	enough // leave it, and stop
)

// eachPoison calls f with the requests of the inventory, oldest first.
func (i *inventory) eachPoison(ctx context.Context, f func(d *amqp091.Delivery) (verdict, error)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	conn, err := i.c.dialBroker(ctx, "poison") // a separate one: a message too large for its frames ends nothing else
	if err != nil {
		return err
	}
	defer conn.Guard(func(error) {})()
	ch, err := conn.OpenChannel(ctx)
	if err != nil {
		return err
	}
	for n := 0; n < i.c.config.PoisonLimit && err == nil && ctx.Err() == nil; n++ {
		done := conn.Limit(context.WithoutCancel(ctx))
		d, ok, getErr := ch.Get(i.c.names.poisonQueue(), false)
		done()
		if err = getErr; err != nil || !ok {
			break
		}
		var v verdict
		if v, err = f(&d); v == remove && err == nil {
			err = d.Ack(false)
		}
		if v == enough {
			break
		}
	}
	// The end of the channel requeues all messages that were not removed. The broker has processed the
	// removals when it answers.
	defer conn.Limit(context.WithoutCancel(ctx))()
	return errors.Join(err, ctx.Err(), ch.Close())
}

// currentInventory returns the inventory of the current term.
func (c *Controller) currentInventory() (*inventory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.poison == nil {
		return nil, fmt.Errorf("pool %s: %w: this process does not lead it", c.names.pool, rouse.ErrUnavailable)
	}
	return c.poison, nil
}

var _ pool.Inventory = (*Controller)(nil)

// ListPoison returns at most limit poison requests, oldest first, without their bodies.
func (c *Controller) ListPoison(ctx context.Context, limit int) ([]pool.Poison, error) {
	i, err := c.currentInventory()
	if err != nil {
		return nil, err
	}
	list := []pool.Poison{}
	err = i.eachPoison(ctx, func(d *amqp091.Delivery) (verdict, error) {
		p := poisonOf(d)
		p.Body = nil
		if list = append(list, p); len(list) == limit {
			return enough, nil
		}
		return leave, nil
	})
	return list, err
}

// InspectPoison returns a poison request with its body.
func (c *Controller) InspectPoison(ctx context.Context, id string) (pool.Poison, error) {
	var found *pool.Poison
	err := c.withPoisonByID(ctx, id, func(d *amqp091.Delivery) (verdict, error) {
		p := poisonOf(d)
		found = &p
		return enough, nil
	})
	if err != nil {
		return pool.Poison{}, err
	}
	return *found, nil
}

// ReplayPoison publishes a poison request again, as its client did, and removes it from the inventory; all of
// them if id is empty. A request without an answer returns to the inventory, whatever the reason.
func (c *Controller) ReplayPoison(ctx context.Context, id string) (int, error) {
	return c.removePoison(ctx, id, func(i *inventory, d *amqp091.Delivery) error {
		m := withoutBrokerHeaders(d)
		for _, name := range append([]string{idHeader, keyHeader, whenHeader, reasonHeader, cutHeader, hopsHeader,
			leftHeader}, deathHeaders...) {
			delete(m.Headers, name)
		}
		m.Headers[replayHeader] = true
		key := poisonOf(d).Key
		returned, err := i.publisher.publishConfirmed(ctx, c.names.requestExchange(), key, m)
		if err == nil && returned {
			err = errors.New("it was returned: there is no queue for it, and none for orphans")
		}
		return err
	})
}

// PurgePoison deletes a poison request; all of them if id is empty.
func (c *Controller) PurgePoison(ctx context.Context, id string) (int, error) {
	return c.removePoison(ctx, id, func(*inventory, *amqp091.Delivery) error { return nil })
}

// removePoison removes the requests for which do succeeds. Requests that arrive during the call stay.
func (c *Controller) removePoison(ctx context.Context, id string,
	do func(*inventory, *amqp091.Delivery) error) (n int, err error) {
	i, err := c.currentInventory()
	if err != nil {
		return 0, err
	}
	began := time.Now().UTC()
	one := func(d *amqp091.Delivery) (verdict, error) {
		if when, ok := d.Headers[whenHeader].(time.Time); id == "" && ok && when.After(began) {
			return leave, nil
		}
		if err := do(i, d); err != nil {
			return leave, err
		}
		n++
		return remove, nil
	}
	if id == "" {
		err = i.eachPoison(ctx, one)
	} else {
		err = c.withPoisonByID(ctx, id, one)
	}
	return n, err
}

// withPoisonByID calls f with the request of an id, if it exists.
func (c *Controller) withPoisonByID(ctx context.Context, id string,
	f func(d *amqp091.Delivery) (verdict, error)) error {
	i, err := c.currentInventory()
	if err != nil {
		return err
	}
	found := false
	err = i.eachPoison(ctx, func(d *amqp091.Delivery) (verdict, error) {
		if found {
			return enough, nil
		}
		if poisonOf(d).ID != id {
			return leave, nil
		}
		found = true
		return f(d)
	})
	if err == nil && !found {
		return fmt.Errorf("poison request %q of pool %s: %w", id, c.names.pool, rouse.ErrNotFound)
	}
	return err
}

func poisonOf(d *amqp091.Delivery) pool.Poison {
	p := pool.Poison{CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, ContentType: d.ContentType, Size: len(d.Body),
		Body: d.Body}
	p.ID, _ = d.Headers[idHeader].(string)
	p.Key, _ = d.Headers[keyHeader].(string)
	p.When, _ = d.Headers[whenHeader].(time.Time)
	p.Reason, _ = d.Headers[reasonHeader].(string)
	if p.ID == "" { // the broker put it there, as managers died with it
		sum := sha256.Sum256(fmt.Append(nil, d.CorrelationId, "\x00", d.MessageId, "\x00", d.ReplyTo, "\x00", string(d.Body)))
		p.ID, p.Reason = hex.EncodeToString(sum[:8]), "manager"
		if events, _ := d.Headers["x-death"].([]any); len(events) > 0 {
			event, _ := events[0].(amqp091.Table)
			p.When, _ = event["time"].(time.Time)
			if keys, _ := event["routing-keys"].([]any); len(keys) > 0 {
				p.Key, _ = keys[0].(string)
			}
		}
	}
	return p
}
