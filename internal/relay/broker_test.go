package relay_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/internal/queue/amqp"
	"github.com/rousehq/rouse/internal/queue/jetstream"
	"github.com/rousehq/rouse/test/servers"
)

func TestFiresGoThroughNATS(t *testing.T) {
	w := newSimulation(t)
	broker := servers.NATS(t)
	w.open = func(ctx context.Context) (queue.Queue, error) {
		return jetstream.Open(ctx, broker, jetstream.Options{Options: queueOptions})
	}
	w.startScheduler()
	x := w.startExecutor()
	w.fired(w.put("t", 300, rouse.Spec{}))
	w.once()
	w.drained(x.q)
}

// After a lost connection, RabbitMQ delivers all unacknowledged messages again. Fires that are still here
// must not be called twice.
func TestABrokenConnectionDoublesNothing(t *testing.T) {
	w := newSimulation(t)
	broker := servers.RabbitMQ(t)
	proxy := servers.NewProxy(t, hostOf(t, broker))
	w.open = func(ctx context.Context) (queue.Queue, error) {
		return amqp.Open(ctx, proxy.URL(broker), amqp.Options{Options: queueOptions})
	}
	hold := make(chan struct{})
	w.target.answer = func(context.Context, rouse.Fire) rouse.Outcome { <-hold; return rouse.Outcome{Verdict: rouse.Done} }
	w.startScheduler()
	w.exec.Prefetch = 32
	taken := make(chan struct{}, 1000)
	w.step = func(_ mortal, at step) {
		if at == whenTaken {
			taken <- struct{}{}
		}
	}
	w.startExecutor()
	names := w.put("t", 10, rouse.Spec{})
	for range names {
		<-taken
	}
	w.until("it is called", func() bool { return len(w.target.got()) > 0 })
	proxy.Reset()
	for range names { // they are delivered again
		<-taken
	}
	close(hold)
	w.fired(names)
	w.once()
	w.fired(w.put("more", 100, rouse.Spec{}))
	w.once()
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
