package amqp

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/test/servers"
)

// callerHarness turns fires into requests, and records their outcomes.
type callerHarness struct {
	*harness
	caller *Caller
	ctx    context.Context // of the deliveries
	end    context.CancelFunc

	mu       sync.Mutex
	outcomes map[string][]rouse.Outcome // by fire id
	answered int
}

// newCaller runs a caller at a broker's URL until the end of the test. It shares nothing with the controller
// of the harness.
func (h *harness) newCaller(at string, o pool.CallerOptions) *callerHarness {
	h.t.Helper()
	config, managed := h.config, h.manager
	config.URL = at
	managed.Driver, managed.Metrics = h.driver, h.ctl.manager.Metrics()
	m, err := pool.NewManager(managed)
	if err != nil {
		h.t.Fatal(err)
	}
	ctl, err := New(config, m)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &callerHarness{harness: h, outcomes: map[string][]rouse.Outcome{}}
	o.Answered = func(*rouse.Fire, *rouse.Answer) { c.mu.Lock(); defer c.mu.Unlock(); c.answered++ }
	c.caller = NewCaller(ctl, o)
	c.ctx, c.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.caller.Run(ctx) })
	h.t.Cleanup(func() { c.end(); cancel(); running.Wait(); ctl.api.client.CloseIdleConnections() })
	h.eventually("the caller is connected", func() bool { return c.caller.Obstacle() == "" })
	return c
}

// fires delivers requests of one key together. Their ids consist of the key and a number.
func (c *callerHarness) fires(key string, bodies ...string) {
	list := make([]rouse.Fire, len(bodies))
	for i, body := range bodies {
		list[i] = rouse.Fire{ID: fmt.Sprint(key, " ", i), Namespace: "n", Name: "t", Due: 1, Attempt: 1, Token: 7,
			Spec: &rouse.Spec{Payload: []byte(body), ContentType: "text/plain", Retry: rouse.Retry{Timeout: 30 * time.Second}}}
	}
	c.caller.Deliver(c.ctx, key, list, func(i int, o rouse.Outcome) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.outcomes[list[i].ID] = append(c.outcomes[list[i].ID], o)
	})
}

// outcome waits for the outcome of a fire, which must be the only one.
func (c *callerHarness) outcome(id string) (o rouse.Outcome) {
	c.t.Helper()
	c.eventually("there is an outcome of "+id, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.outcomes[id]); n > 1 {
			c.t.Fatalf("%s has %d outcomes", id, n)
		} else if n == 1 {
			o = c.outcomes[id][0]
		}
		return o.Verdict != 0
	})
	return o
}

func (c *callerHarness) want(id string, verdict rouse.Verdict, code int) rouse.Outcome {
	c.t.Helper()
	o := c.outcome(id)
	if o.Verdict != verdict || o.Code != code || verdict != rouse.Done && o.Detail == "" {
		c.t.Errorf("%s: %s with code %d, %q; want %s with %d", id, o.Verdict, o.Code, o.Detail, verdict, code)
	}
	return o
}

// TestFiresAreRequests checks that a fire starts the worker of its key, that the answer becomes its outcome,
// and that failures are distinguished.
func TestFiresAreRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.start()
	c := h.newCaller(h.url, pool.CallerOptions{})
	c.fires("42", "hello", "reject", "crash", "again")
	if o := c.want("42 0", rouse.Done, 0); o.Answer == nil || string(o.Answer.Payload) != "hello" {
		t.Errorf("the answer is %+v", o.Answer)
	}
	c.want("42 1", rouse.Rejected, 422)
	c.want("42 2", rouse.Rejected, 502)
	c.want("42 3", rouse.Done, 0)
	for _, key := range []string{"", "../etc", "*.#", "日本 語"} {
		c.fires(key, "x")
		c.want(key+" 0", rouse.Done, 0)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered != 6 {
		t.Errorf("%d answers of workers were told of", c.answered)
	}
}

// TestFiresThatNoWorkerTakes checks that an expired request is a failure that may be retried.
func TestFiresThatNoWorkerTakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.MessageTTL = 500 * time.Millisecond
	h.start()
	c := h.newCaller(h.url, pool.CallerOptions{MaxWaiting: 2})
	c.fires("mute", "x", "y")
	c.fires("other", "one more than may wait")
	c.want("other 0", rouse.Deferred, 0)
	c.want("mute 0", rouse.Failed, 504)
	c.want("mute 1", rouse.Failed, 504)
	c.fires("another", "x")
	if o := c.outcome("another 0"); o.Verdict == rouse.Deferred { // it is not relevant here whether its worker starts in time
		t.Errorf("there is no room after all were answered: %s", o.Detail)
	}
}

// TestCallersOutliveTheirBroker checks that waiting requests fail if the connection breaks, that no request
// is made without a connection, and that requests are made again after the reconnect.
func TestCallersOutliveTheirBroker(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.start()
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servers.NewProxy(t, u.Host)
	c := h.newCaller(proxy.URL(h.url), pool.CallerOptions{})
	c.fires("k", "sleep 1m")
	h.eventually("its worker has come", func() bool { return h.started() == 1 })
	proxy.Refuse(true)
	proxy.Reset()
	c.want("k 0", rouse.Failed, 0)
	h.eventually("the caller knows", func() bool { return c.caller.Obstacle() != "" })
	c.fires("away", "x")
	c.want("away 0", rouse.Deferred, 0)
	c.caller.mu.Lock()
	left := len(c.caller.waits)
	c.caller.mu.Unlock()
	if left != 0 {
		t.Errorf("%d requests are remembered", left)
	}
	proxy.Refuse(false)
	h.eventually("the caller is connected again", func() bool { return c.caller.Obstacle() == "" })
	c.fires("later", "x")
	c.want("later 0", rouse.Done, 0)
}

// TestCallersLetGo checks that shutdown does not wait for answers.
func TestCallersLetGo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.start()
	c := h.newCaller(h.url, pool.CallerOptions{})
	c.fires("a", "sleep 1m")
	c.end()
	c.want("a 0", rouse.Deferred, 0)
	c.ctx = context.Background()
	c.fires("b", "sleep 1m")
	c.caller.Drain()
	c.want("b 0", rouse.Deferred, 0)
	c.fires("c", "x")
	c.want("c 0", rouse.Deferred, 0)
}

// TestGroupsAreThereBeforeTheirFires checks that the group of an announced fire is started before the fire
// and stays until then.
func TestGroupsAreThereBeforeTheirFires(t *testing.T) {
	t.Parallel()
	h := newHarness(t, pool.Delays{Unbind: 3 * time.Second, Stop: 100 * time.Millisecond})
	h.start()
	c := h.newCaller(h.url, pool.CallerOptions{Prewarm: time.Minute})
	const in = 8 * time.Second // longer than the lifetime of an idle group
	fire := time.Now().Add(in)
	c.caller.Near("n", "far", time.Hour)
	c.caller.Near("n", "k", in)
	h.eventually("the worker of the near one has come", func() bool { return h.started() == 1 })
	h.eventually("the group is gone again", func() bool { return len(h.ctl.manager.View().Groups) == 0 })
	if early := time.Until(fire); early > 0 {
		t.Errorf("it was gone %v before its fire", early)
	}
	if n := h.started(); n != 1 {
		t.Errorf("%d workers were started", n)
	}
}

// refuseLarge checks that a request of a timer that is larger than the broker accepts is rejected by
// itself: RabbitMQ would close the channel on which all others wait for their answers.
func (h *harness) refuseLarge(broker *servers.Server) {
	h.t.Helper()
	broker.Eval(`application:set_env(rabbit, max_message_size, 50000)`)
	defer broker.Eval(`application:unset_env(rabbit, max_message_size)`)
	c := h.newCaller(h.url, pool.CallerOptions{})
	h.knowsLimit(c.caller, 50_000)
	bodies := make([]string, 20)
	for i := range bodies {
		bodies[i] = "sleep 100ms"
	}
	bodies[10] = strings.Repeat("x", 100_000)
	c.fires("large", bodies...)
	for i := range bodies {
		switch o := c.outcome(fmt.Sprint("large ", i)); {
		case i == 10 && (o.Verdict != rouse.Rejected || !strings.Contains(o.Detail, "50000")):
			h.t.Errorf("the large one: %+v", o)
		case i != 10 && o.Verdict != rouse.Done:
			h.t.Errorf("another one: %+v", o)
		}
	}
}

// knowsLimit waits until the caller knows how large requests may be.
func (h *harness) knowsLimit(c *Caller, limit int64) {
	h.t.Helper()
	h.eventually("the caller knows the limit", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.link != nil && c.link.sizeLimit.Load() == limit
	})
}

// keepConnection checks that the connection for requests lasts while the broker is short of memory, although
// the question for the size limit gets no answer then, and that it is asked again.
func (h *harness) keepConnection(broker *servers.Server) {
	h.t.Helper()
	const alarm = `{resource_limit, memory, node()}`
	broker.Eval(`application:set_env(rabbit, max_message_size, 50000)`)
	defer broker.Eval(`application:unset_env(rabbit, max_message_size)`)
	broker.Eval(`rabbit_alarm:set_alarm({` + alarm + `, []})`)
	clearAlarm := sync.OnceFunc(func() { broker.Eval(`rabbit_alarm:clear_alarm(` + alarm + `)`) })
	defer clearAlarm()
	defer func(before time.Duration) { h.config.Timeout = before }(h.config.Timeout)
	h.config.Timeout = time.Second
	c := h.newCaller(h.url, pool.CallerOptions{})
	h.eventually("the caller does not know the limit", func() bool {
		return strings.Contains(h.log.String(), "it is unknown how large requests may be")
	})
	clearAlarm()
	c.fires("alarm", "x")
	c.want("alarm 0", rouse.Done, 0)
	h.knowsLimit(c.caller, 50_000)
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, "requests of timers cannot be sent") && strings.Contains(line, "the connection broke") {
			h.t.Error(line)
		}
	}
}
