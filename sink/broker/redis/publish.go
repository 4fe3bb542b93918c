package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/sink/broker"
)

// chunk bounds the payload bytes of one pipeline, unless a single payload is larger.
const chunk = 1 << 20

// Publish adds messages to their streams, in pipelines.
func (p *Publisher) Publish(ctx context.Context, messages []broker.Message, f *broker.Flight) {
	there := p.away.Await(ctx)
	for from := 0; from < len(messages); {
		var list []entry
		to, size := from, 0
		for ; to < len(messages) && (to == from || size+len(messages[to].Fire.Spec.Payload) <= chunk); to++ {
			m := &messages[to]
			size += len(m.Fire.Spec.Payload)
			name, wrong := streamKey(&m.Target)
			switch {
			case wrong != "":
				f.Settle(to, broker.Failed(0, "not sent: the target "+wrong))
			case !there:
				f.Settle(to, p.away.Outcome(m.Fire))
			default:
				list = append(list, p.newEntry(to, name, m))
			}
		}
		// A call continues until its deadline, even if ctx ends.
		if len(list) > 0 && !p.startCall(func() { p.addEntries(list, messages, f) }) {
			for _, e := range list {
				f.Settle(e.i, broker.Unsent(broker.Soon, "the connection was closed"))
			}
		}
		from = to
	}
	f.Await(ctx, func(int) {})
}

// addEntries sends one pipeline of entries and settles them.
func (p *Publisher) addEntries(list []entry, messages []broker.Message, f *broker.Flight) {
	ctx, cancel := context.WithDeadline(p.life, f.Latest())
	defer cancel()
	pipe := p.client.Pipeline()
	answers := make([]*goredis.Cmd, len(list))
	for k := range list {
		answers[k] = pipe.Do(ctx, list[k].args...)
	}
	var wait *goredis.Cmd
	if p.c.Replicas > 0 {
		patience := min(p.c.Timeout, time.Until(f.Latest())) * 3 / 4
		wait = pipe.Do(ctx, "WAIT", p.c.Replicas, max(1, patience.Milliseconds()))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	replicas := p.c.Replicas
	var waited error
	if wait != nil {
		replicas, waited = wait.Int()
	}
	for k := range list {
		i := list[k].i
		err := answers[k].Err()
		switch {
		case err != nil:
			p.reportFailed(i, err, &messages[i], f)
		case waited != nil:
			f.Settle(i, broker.Failed(0, fmt.Sprintf("Redis has the entry, and did not report how many replicas have it: %v",
				waited)))
		case replicas < p.c.Replicas:
			f.Settle(i, broker.Failed(0, fmt.Sprintf("Redis has the entry, and %d of %d replicas had it in time", replicas,
				p.c.Replicas)))
		default:
			p.refuses.Back()
			f.Settle(i, broker.Done)
		}
	}
}

// reportFailed settles a message according to the error of its command.
func (p *Publisher) reportFailed(i int, err error, m *broker.Message, f *broker.Flight) {
	var answer goredis.Error
	var op *net.OpError
	switch {
	case errors.As(err, &answer) && hasPrefix(answer, unusable):
		p.reportUnreachable(err)
		f.Settle(i, p.away.Outcome(m.Fire))
	case errors.As(err, &answer) && hasPrefix(answer, readOnly):
		p.refuses.Lost(err)
		f.Settle(i, p.refuses.Outcome(m.Fire))
	case errors.As(err, &answer):
		f.Settle(i, broker.Failed(0, "Redis refused the entry: "+err.Error()))
	case errors.Is(err, goredis.ErrPoolTimeout):
		f.Settle(i, broker.Overloaded(broker.Soon, "all connections to "+p.away.Broker+" are in use"))
	case errors.As(err, &op) && op.Op == "dial":
		p.reportUnreachable(err)
		f.Settle(i, p.away.Outcome(m.Fire))
	default:
		p.requestCheck()
		f.Settle(i, broker.Failed(0, "no answer of Redis, which may have the entry: "+err.Error()))
	}
}

// requestCheck triggers a check whether Redis is still available.
func (p *Publisher) requestCheck() {
	notify.Send(p.suspect)
}

// Prefixes of errors after which Redis did nothing, and would not for any client: it cannot be used, or
// accepts no writes.
var (
	unusable = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOAUTH", "WRONGPASS", "ERR max number of clients",
		"ERR AUTH"}
	readOnly = []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"}
)

func hasPrefix(answer goredis.Error, list []string) bool {
	for _, prefix := range list {
		if strings.HasPrefix(answer.Error(), prefix) {
			return true
		}
	}
	return false
}
