package amqp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
	"github.com/rousehq/rouse/internal/pool"
)

// queues implements pool.Queues.
type queues struct {
	c    *Controller
	conn *amqplink.Conn
	free chan *amqp091.Channel // open and not in use
}

// withQueueChannel runs calls on a separate channel, because the broker reports errors by closing the
// channel.
func (q *queues) withQueueChannel(ctx context.Context, f func(ch *amqp091.Channel) error) error {
	var ch *amqp091.Channel
	select {
	case ch = <-q.free:
	default:
	}
	if ch == nil || ch.IsClosed() {
		var err error
		if ch, err = q.conn.OpenChannel(ctx); err != nil {
			return err
		}
	}
	defer q.conn.Limit(ctx)()
	err := f(ch)
	if err != nil {
		if !ch.IsClosed() {
			_ = ch.Close() // it may be blocked
		}
		return err
	}
	select {
	case q.free <- ch:
	default:
		_ = ch.Close() // there are enough idle channels
	}
	return nil
}

// List returns the existing request queues.
func (q *queues) List(ctx context.Context) ([]pool.Queue, error) {
	// List bindings first: a queue that is bound in between is bound once more, which is harmless. In the
	// other order, a queue that another client unbinds in between would be taken for bound.
	bound, err := q.c.api.boundTo(ctx, q.c.vhost, q.c.names.requestExchange())
	if err != nil {
		return nil, err
	}
	there, err := q.c.api.listQueues(ctx, q.c.vhost, prefixPattern(q.c.names.requestPrefix()), false)
	if err != nil {
		return nil, err
	}
	var list []pool.Queue
	for _, d := range there {
		key, ok := q.c.names.keyOfQueue(d.Name, d.Arguments[keyArgument])
		if !ok || d.Name != q.c.names.requestQueue(key) {
			q.c.log.Warn(
				"a queue looks like a request queue of the pool, but its name was not written by rouse; it is left alone",
				"queue", d.Name)
			continue
		}
		list = append(list, pool.Queue{Key: key, Bound: bound[d.Name]})
	}
	return list, nil
}

// Open declares the queue of a group and binds it by the group's name.
func (q *queues) Open(ctx context.Context, key string) error {
	if err := checkGroup(key); err != nil {
		return err
	}
	name := q.c.names.requestQueue(key)
	args := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum}
	if q.c.config.Classic {
		args[amqp091.QueueTypeArg] = amqp091.QueueTypeClassic
	}
	if _, ok := pool.Decode(name[len(q.c.names.requestPrefix()):]); !ok {
		args[keyArgument] = pool.Encode(key, 3*pool.MaxKey)
	}
	return q.withQueueChannel(ctx, func(ch *amqp091.Channel) error {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			return fmt.Errorf("declare %s: %w", name, err)
		}
		if err := ch.QueueBind(name, pool.GroupName(key), q.c.names.requestExchange(), false, nil); err != nil {
			return fmt.Errorf("bind %s: %w", name, err)
		}
		return nil
	})
}

// Unbind removes the binding.
func (q *queues) Unbind(ctx context.Context, key string) error {
	name := q.c.names.requestQueue(key)
	return q.withQueueChannel(ctx, func(ch *amqp091.Channel) error {
		if err := ch.QueueUnbind(name, pool.GroupName(key), q.c.names.requestExchange(), nil); err != nil {
			return asNoQueue(fmt.Errorf("unbind %s: %w", name, err))
		}
		return nil
	})
}

// Load returns the ready requests and the consumers of a queue.
func (q *queues) Load(ctx context.Context, key string) (pool.Load, error) {
	var load pool.Load
	name := q.c.names.requestQueue(key)
	err := q.withQueueChannel(ctx, func(ch *amqp091.Channel) error {
		state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return asNoQueue(fmt.Errorf("look into %s: %w", name, err))
		}
		load = pool.Load{Ready: state.Messages, Consumers: state.Consumers}
		return nil
	})
	return load, err
}

// asNoQueue converts the broker's not-found error to pool.ErrNoQueue.
func asNoQueue(err error) error {
	var answer *amqp091.Error
	if errors.As(err, &answer) && answer.Code == amqp091.NotFound {
		return fmt.Errorf("%w: %w", pool.ErrNoQueue, err)
	}
	return err
}

// Delete deletes a queue that, according to the queue loop, has been empty and without consumers for a while.
// It also verifies that no worker holds a request, for example one that has cancelled its consumer and works
// on its last request: if that worker failed, the request would be lost. Dead letters in transit prevent the
// deletion, too.
func (q *queues) Delete(ctx context.Context, key string) (lost int, err error) {
	name := q.c.names.requestQueue(key)
	d, err := q.c.api.describeQueue(ctx, q.c.vhost, name)
	switch {
	case refusalStatus(err) == http.StatusNotFound:
		return 0, nil
	case err != nil:
		return 0, err
	case d.Held != nil && *d.Held > 0 || d.Ready != nil && *d.Ready > 0 || d.Leaving > 0:
		return 0, pool.ErrInUse
	}
	err = q.withQueueChannel(ctx, func(ch *amqp091.Channel) error {
		state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return asNoQueue(err)
		}
		if state.Messages > 0 || state.Consumers > 0 {
			return pool.ErrInUse
		}
		lost, err = ch.QueueDelete(name, false, false, false)
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		return nil
	})
	return lost, err
}

// Vars returns the variables that a worker needs to reach its queue.
func (q *queues) Vars(key string) map[string]string {
	vars := map[string]string{
		"WORKER_REQUESTS_QUEUE":    q.c.names.requestQueue(key),
		"WORKER_ACTIVITY_EXCHANGE": q.c.names.activityExchange(),
		"WORKER_AMQP_URI":          q.c.config.WorkerURL,
		"WORKER_PREFETCH":          strconv.Itoa(q.c.config.Prefetch),
	}
	if name := pool.GroupName(key); name != key {
		vars["WORKER_ACTIVITY_KEY"] = name
	}
	return vars
}
