package webhook_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/sinktest"
	"github.com/rousehq/rouse/sink/webhook"
)

// harness brings webhooks of one mode to the contract of sinks.
func harness(mode rouse.Webhook, wrap func(rouse.Sink) rouse.Sink) sinktest.Harness {
	open := func(*testing.T) *sinktest.Peer {
		r := receiver.New(receiver.Options{Manual: true})
		s := webhook.New(webhook.Options{AllowPrivate: true})
		return &sinktest.Peer{
			Sink:   wrap(s),
			Spec:   rouse.Spec{Target: r.URL() + "/hook", Webhook: mode},
			Next:   splitter(r).next,
			Vanish: r.Close,
			Close: func() {
				r.Close()
				_ = s.Close()
			},
		}
	}
	return sinktest.Harness{Open: open, Wrong: wrongSpecs(), Codes: true}
}

// split hands out the fires of requests one by one, and answers a request when all its fires are answered.
type split struct {
	r *receiver.Receiver

	mu      sync.Mutex
	waiting []*sinktest.Arrival
}

func splitter(r *receiver.Receiver) *split { return &split{r: r} }

func (s *split) next(ctx context.Context) (*sinktest.Arrival, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		a, err := s.r.Next(ctx)
		if err != nil {
			return nil, err
		}
		fires, err := a.Fires()
		if err != nil {
			return nil, err
		}
		answer := &reply{a: a, batch: strings.Contains(a.Header.Get("Content-Type"), "batch"), left: len(fires)}
		for _, f := range fires {
			s.waiting = append(s.waiting, &sinktest.Arrival{Fire: f, Answer: func(say sinktest.Answer) { answer.add(f.ID, say) }})
		}
	}
	first := s.waiting[0]
	s.waiting = s.waiting[1:]
	return first, nil
}

var statuses = map[sinktest.Answer]int{sinktest.Take: 200, sinktest.Fail: 503, sinktest.Reject: 422}

// reply collects the answers to the fires of one request.
type reply struct {
	a     *receiver.Arrival
	batch bool

	mu      sync.Mutex
	results []string
	left    int
}

func (r *reply) add(id string, say sinktest.Answer) {
	if !r.batch {
		r.a.Reply(receiver.Status(statuses[say]))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, `{"id":"`+id+`","status":`+strconv.Itoa(statuses[say])+`}`)
	if r.left--; r.left == 0 {
		r.a.Reply(receiver.Body(200, "application/json", `{"rouse":{"results":[`+strings.Join(r.results, ",")+`]}}`))
	}
}

func plain(s rouse.Sink) rouse.Sink { return s }

func TestContract(t *testing.T) {
	for name, mode := range map[string]rouse.Webhook{
		"binary":     {},
		"structured": {Structured: true},
		"batch":      {Batch: 10},
		"put":        {Method: "PUT", Headers: map[string]string{"X-Team": "a"}},
	} {
		t.Run(name, func(t *testing.T) { sinktest.Run(t, harness(mode, plain)) })
	}
}

// The decorators keep the contract as well.
func TestContractBehindMuxAndBreaker(t *testing.T) {
	sinktest.Run(t, harness(rouse.Webhook{}, func(s rouse.Sink) rouse.Sink {
		return sink.Mux{"http": sink.NewBreaker(s, sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Deliveries: 1000}})}
	}))
}

func wrongSpecs() []rouse.Spec {
	var out []rouse.Spec
	for _, target := range wrongTargets {
		out = append(out, rouse.Spec{Target: target})
	}
	return append(out,
		rouse.Spec{Target: "https://example.com", Webhook: rouse.Webhook{Method: "BREW"}},
		rouse.Spec{Target: "https://example.com", Webhook: rouse.Webhook{Method: "GET"}, Payload: []byte("x")},
		rouse.Spec{Target: "https://example.com", ContentType: "text/plain\r\nX: y"},
	)
}
