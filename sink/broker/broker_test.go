package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
)

// fake is a publisher that does as its functions say.
type fake struct {
	publish func(ctx context.Context, messages []Message, f *Flight)
	check   func(t *Target) (wrong, cure string)
	closed  error
}

func (p *fake) Check(t *Target) (wrong, cure string) {
	if p.check == nil {
		return "", ""
	}
	return p.check(t)
}
func (p *fake) Publish(ctx context.Context, messages []Message, f *Flight) {
	p.publish(ctx, messages, f)
}
func (p *fake) Obstacle() string { return "" }
func (p *fake) Close() error     { return p.closed }

func newFire(target string, timeout time.Duration) rouse.Fire {
	return rouse.Fire{ID: "id", Namespace: "a", Name: "t", Attempt: 1, Spec: &rouse.Spec{Target: target, Retry: rouse.Retry{Timeout: timeout}}}
}

func TestTargets(t *testing.T) {
	s := New()
	s.Add(Connection{Name: "orders", URL: "amqp://user:hush@rabbit/", Allow: []string{"events/order.", "/mail$"}}, &fake{})
	s.Add(Connection{Name: "bus", URL: "nats://nats"}, &fake{check: func(*Target) (string, string) { return "has a fault", "fix it" }})
	s.Add(Connection{Name: "feed", URL: "redis://redis"}, &fake{})
	for target, want := range map[string]Target{
		"amqp:orders/events/order.due":                  {Scheme: "amqp", Connection: "orders", Path: "events/order.due"},
		"amqp:orders//mail":                             {Scheme: "amqp", Connection: "orders", Path: "/mail"},
		"amqp:orders//mail?mode=structured":             {Scheme: "amqp", Connection: "orders", Path: "/mail", Structured: true},
		"nats:bus/a.b?via=core&mode=structured":         {Scheme: "nats", Connection: "bus", Path: "a.b", Structured: true, Core: true},
		"nats:bus/a.b?via=core&via=jetstream":           {Scheme: "nats", Connection: "bus", Path: "a.b"},
		"redis:feed/a/b:c%3F?mode=binary":               {Scheme: "redis", Connection: "feed", Path: "a/b:c%3F"},
		"redis:feed/a?mode=structured&mode=binary":      {Scheme: "redis", Connection: "feed", Path: "a"},
		"amqp:orders/events/order.due?mode=binary":      {Scheme: "amqp", Connection: "orders", Path: "events/order.due"},
		"amqp:orders/events/order.late?mode=structured": {Scheme: "amqp", Connection: "orders", Path: "events/order.late", Structured: true},
	} {
		if got, err := s.resolveTarget(target); err != nil || got.Target != want {
			t.Errorf("%s is %+v, %v", target, got.Target, err)
		}
	}
	for target, want := range map[string]string{
		"amqp":                                    "is no target at a broker",
		"kafka:orders/x":                          "is no target at a broker",
		"amqp:orders":                             "names a connection and no place",
		"amqp:orders/":                            "names a connection and no place",
		"amqp://user:hush@rabbit/events":          "is the address of a broker",
		"redis://user:hu@sh@redis/events":         "with one of the connections feed",
		"amqp:other/x":                            "with one of the connections orders",
		"amqp:feed/x/y":                           "write redis:feed/STREAM",
		"amqp:orders/secret/x":                    "events/order., /mail$",
		"amqp:orders//mail2":                      "is not allowed for the connection",
		"amqp:orders/events/orders":               "is not allowed for the connection",
		"amqp:orders/%65vents/order.due":          "is not allowed for the connection", // another spelling of what is allowed is no hole
		"amqp:orders/events/../x":                 "is not allowed for the connection",
		"redis:feed/x?via=core":                   `the option "via=core"`,
		"redis:feed/x?":                           "",
		"redis:feed/x?mode=structured?":           "the option",
		"redis:feed/x?mode=structured&&":          "the option",
		"nats:bus/x":                              "has a fault; fix it",
		"nats:" + strings.Repeat("x", 500):        "no place",
		"nats:" + strings.Repeat("x", 500) + "/a": "does not have",
	} {
		err := s.Check(&rouse.Spec{Target: target})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", target, err)
			}
			continue
		}
		var inv *rouse.Invalid
		if !errors.As(err, &inv) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hu") {
			t.Errorf("%s: %v, which does not say %q", target, err, want)
		}
	}
	if err := New().Check(&rouse.Spec{Target: "nats:a/b"}); err == nil || !strings.Contains(err.Error(), "the file of the setting brokers") {
		t.Errorf("without connections: %v", err)
	}
	if err := s.Check(&rouse.Spec{Target: "redis:feed/x", Webhook: rouse.Webhook{Structured: true}}); err == nil || !strings.Contains(err.Error(), "?mode=structured") {
		t.Errorf("with a webhook's options: %v", err)
	}
}

func TestConnections(t *testing.T) {
	for want, c := range map[string]Connection{
		"name":        {Name: "A b", URL: "amqp://x"},
		"url":         {Name: "a", URL: ""},
		"url ":        {Name: "a", URL: "http://user:hush@x/"},
		"url  ":       {Name: "a", URL: "amqp://user:hush@x:port%/"},
		"in_flight":   {Name: "a", URL: "amqp://x", InFlight: -1},
		"patience":    {Name: "a", URL: "amqp://x", Patience: time.Millisecond},
		"timeout":     {Name: "a", URL: "amqp://x", Timeout: time.Hour},
		"credentials": {Name: "a", URL: "nats://x", Credentials: "/nowhere"},
		"max_length":  {Name: "a", URL: "nats://x", MaxLength: 5},
		"replicas":    {Name: "a", URL: "amqp://x", Replicas: 1},
		"allow":       {Name: "a", URL: "amqp://x", Allow: []string{""}},
		"cert":        {Name: "a", URL: "amqps://x", Cert: "x"},
		"ca":          {Name: "a", URL: "amqp://x", CA: "x"},
		"ca ":         {Name: "a", URL: "rediss://x", CA: "/nowhere"},
	} {
		inv, ok := c.Check().(*rouse.Invalid)
		if !ok {
			t.Errorf("%s: no error", want)
			continue
		}
		ps := inv.Problems
		if len(ps) != 1 || ps[0].Field != strings.TrimSpace(want) || ps[0].Wrong == "" || ps[0].Cure == "" || strings.Contains(fmt.Sprint(ps), "hush") {
			t.Errorf("of %+v is wrong %v, not %s", c, ps, want)
		}
	}
	for _, url := range []string{"amqps://u:p@x/v", "nats://x:4222", "tls://x", "redis://:p@x:6379/1", "rediss://x"} {
		c := Connection{Name: "a-1", URL: url}
		if err := c.Check(); err != nil || c.Kind() == "" || c.Host() == "" {
			t.Errorf("of %s is wrong %v", url, err)
		}
	}
}

// A message is reported once, whatever is reported later; one without a result in time has failed; the end
// of ctx ends all.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := make([]Message, 4)
		for i := range messages {
			f := newFire("x", time.Duration(i+1)*time.Second)
			messages[i].Fire = &f
		}
		var mu sync.Mutex
		reported := map[int][]rouse.Outcome{}
		var late []int
		f := newFlight(messages, func(i int, o rouse.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			reported[i] = append(reported[i], o)
		})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Await(ctx, func(i int) { late = append(late, i) })
		}()
		f.Settle(2, Done)
		f.Settle(2, Failed(0, "too late"))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if len(reported[0]) != 1 || reported[0][0].Verdict != rouse.Failed || len(reported[1]) != 0 {
			t.Errorf("after 1.5 s: %v", reported)
		}
		f.Settle(0, Done)
		time.Sleep(time.Second)
		cancel()
		<-ended
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		for i, want := range []rouse.Verdict{rouse.Failed, rouse.Failed, rouse.Done, rouse.Deferred} {
			if len(reported[i]) != 1 || reported[i][0].Verdict != want {
				t.Errorf("message %d: %v, want %v", i, reported[i], want)
			}
		}
		if fmt.Sprint(late) != "[0 1 3]" {
			t.Errorf("late are %v", late)
		}
	})
}

func TestABrokerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []error
		a := Availability{Broker: "RabbitMQ at x", Patience: time.Hour, Changed: func(err error) { heard = append(heard, err) }}
		f := newFire("x", time.Second)
		if a.Await(t.Context()) || a.Outcome(&f).Verdict != rouse.Deferred || !strings.HasSuffix(a.Obstacle(), " yet") {
			t.Error("one that was not tried is not there")
		}
		a.Lost(errors.New("refused"))
		a.Lost(errors.New("refused again"))
		if o := a.Outcome(&f); o.Verdict != rouse.Deferred || o.After < 250*time.Millisecond || o.After > time.Second || !strings.Contains(o.Detail, "refused again") {
			t.Errorf("just away: %+v", o)
		}
		time.Sleep(10 * time.Minute)
		began := time.Now()
		if a.Await(t.Context()) || time.Since(began) != 0 {
			t.Error("it waits for one that has been away for long")
		}
		if o := a.Outcome(&f); o.Verdict != rouse.Deferred || o.After < 30*time.Second || o.After > time.Minute {
			t.Errorf("away for long: %+v", o)
		}
		time.Sleep(51 * time.Minute)
		if o := a.Outcome(&f); o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "1h1m0s") {
			t.Errorf("away for too long: %+v", o)
		}
		a.Back()
		a.Back()
		if !a.Await(t.Context()) || a.Obstacle() != "" {
			t.Error("one that is back is not there")
		}
		a.Lost(errors.New("broke"))
		go func() {
			time.Sleep(100 * time.Millisecond)
			a.Back()
		}()
		if !a.Await(t.Context()) {
			t.Error("it does not wait a moment for one that has just gone")
		}
		synctest.Wait()
		if len(heard) != 4 || heard[0] == nil || heard[1] != nil || heard[2] == nil || heard[3] != nil {
			t.Errorf("changes were told as %v", heard)
		}
	})
}

func TestTooManyUnderWay(t *testing.T) {
	s := New()
	hold := make(chan struct{})
	p := &fake{publish: func(_ context.Context, messages []Message, f *Flight) {
		<-hold
		for i := range messages {
			f.Settle(i, Done)
		}
	}}
	s.Add(Connection{Name: "a", URL: "redis://x", InFlight: 1}, p)
	if l := s.Lane("ns", &rouse.Spec{Target: "redis:a/x?mode=structured"}); l != (rouse.Lane{Name: "redis:a/x", Limit: 1, Batch: 1}) {
		t.Errorf("the lane is %+v", l)
	}
	fires := make([]rouse.Fire, lanes+1)
	for i := range fires {
		fires[i] = newFire("redis:a/x", time.Minute)
	}
	var under sync.WaitGroup
	under.Go(func() {
		s.Deliver(t.Context(), fires[:lanes], func(_ int, o rouse.Outcome) {
			if o.Verdict != rouse.Done {
				t.Errorf("%+v", o)
			}
		})
	})
	for s.connections["a"].under.Load() != lanes {
		time.Sleep(time.Millisecond)
	}
	s.Deliver(t.Context(), fires[lanes:], func(_ int, o rouse.Outcome) {
		if o.Verdict != rouse.Deferred {
			t.Errorf("one too many: %+v", o)
		}
	})
	close(hold)
	under.Wait()
	if n := s.connections["a"].under.Load(); n != 0 {
		t.Errorf("%d are under way for ever", n)
	}
}

// A limit of the server's can put fires of several brokers into one lane.
func TestFiresOfSeveralBrokers(t *testing.T) {
	s := New()
	for _, name := range []string{"a", "b"} {
		s.Add(Connection{Name: name, URL: "redis://x"}, &fake{publish: func(_ context.Context, messages []Message, f *Flight) {
			for i := range messages {
				if messages[i].Target.Connection != name {
					t.Errorf("%s got a message for %s", name, messages[i].Target.Connection)
				}
				f.Settle(i, Done)
			}
		}})
	}
	fires := []rouse.Fire{newFire("redis:none/x", time.Second), newFire("redis:a/x", time.Second), newFire("redis:b/x", time.Second), newFire("redis:a/y", time.Second)}
	got := make([]rouse.Verdict, len(fires))
	s.Deliver(t.Context(), fires, func(i int, o rouse.Outcome) { got[i] = o.Verdict })
	if fmt.Sprint(got) != "[failed done deferred done]" {
		t.Errorf("they ended as %v", got)
	}
}

func TestCloseTellsWhich(t *testing.T) {
	s := New()
	s.Add(Connection{Name: "a", URL: "redis://x"}, &fake{closed: errors.New("stuck")})
	for range 2 {
		if err := s.Close(); err == nil || err.Error() != "broker a: stuck" {
			t.Errorf("closed with %v", err)
		}
	}
}
