package local

import (
	"strings"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/target"
	"github.com/rousehq/rouse/sink/stream"
)

// Mine reports whether a subscription is one of a worker: its channel is the value of WORKER_REQUESTS_QUEUE.
func Mine(open *rousev1.Open) bool { return strings.HasPrefix(open.GetChannel(), target.Scheme) }

// Subscribe is the body of the gRPC method for workers.
func (s *Sink) Subscribe(to rousev1.Fires_SubscribeServer) error { return s.streams.Subscribe(to) }

// parseChannel returns the queue of a worker as pool and group.
func (s *Sink) parseChannel(open *rousev1.Open) (namespace, name string, err error) {
	name, key, of, err := target.ParseChannel(open.Channel)
	if err != nil {
		return "", "", rouse.Refuse("open.channel", open.Channel, "names no queue of a pool",
			"use the value of WORKER_REQUESTS_QUEUE")
	}
	p := s.poolNamed(name)
	if p == nil {
		return "", "", rouse.Refuse("open.channel", open.Channel, "names a pool that this node does not have",
			"subscribe at the address in WORKER_ROUSE_ADDRESS")
	}
	if p.separatesNamespaces() != (of != "") {
		return "", "", rouse.Refuse("open.channel", open.Channel,
			"names a queue as the pool had them before its setting namespaces was changed",
			"use the value of WORKER_REQUESTS_QUEUE of a new worker")
	}
	if open.NamePrefix != "" || len(open.Labels) > 0 {
		return "", "", rouse.Refuse("open", open.Channel, "chooses among the requests of a key",
			"leave out name_prefix and labels: workers take what comes")
	}
	return name, p.groupOfKey(of, key), nil
}

// handleStreamEvent handles an event of a worker's stream.
func (s *Sink) handleStreamEvent(name, key string, e stream.Event) {
	p := s.poolNamed(name)
	if p == nil {
		return
	}
	p.mu.Lock()
	term := p.term
	p.mu.Unlock()
	if term == nil {
		return
	}
	switch e {
	case stream.Joined:
		term.Note(key, pool.Started)
	case stream.Sent:
		term.Note(key, pool.RequestReceived)
	case stream.Overdue:
		term.Overdue(key)
	}
}
