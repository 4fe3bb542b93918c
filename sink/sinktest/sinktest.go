// Package sinktest is the contract of rouse.Sink as a test: every sink runs it against a real target of its technology.
//
//	func TestContract(t *testing.T) {
//		sinktest.Run(t, sinktest.Harness{Open: open, Wrong: []rouse.Spec{{Target: "https://"}}})
//	}
//
// The harness opens a sink and a peer, the target's end of the wire. The contract plays both: it hands fires to the sink, takes
// them from the peer, and tells the peer what to answer. Nothing in it sleeps: what must not happen is looked for after
// everything has ended, when it can happen no more.
package sinktest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
)

// Harness is what a sink brings to the contract.
type Harness struct {
	// Open returns a new sink with a peer that answers for its target. It is called once a case, by the case's goroutine.
	Open func(t *testing.T) *Peer

	// Wrong are specs that Check must refuse with an *rouse.Invalid. Each is refused for its own reason.
	Wrong []rouse.Spec

	// Codes says that failures come with a Code, as in technologies that have a status.
	Codes bool

	// NoReject says that the peers cannot refuse a single fire for ever, as in technologies that have no word for it.
	NoReject bool
}

// Peer is a sink and the other end of its wire.
type Peer struct {
	Sink rouse.Sink

	// Spec has the target that leads to this peer, and whatever else the sink wants to be told. The contract adds payload,
	// content type and retries.
	Spec rouse.Spec

	// Next returns the next fire that reached the peer. Each waits, however many there are, until it is answered, the
	// sink gives up on it, or Close. One that waits already is returned even if ctx has ended.
	Next func(ctx context.Context) (*Arrival, error)

	// Vanish takes the peer away without an answer to what waits: connections are cut, nobody listens any more.
	Vanish func()

	// Close ends peer and sink, and waits for them. It may be called after Vanish, and twice.
	Close func()
}

// Arrival is a fire as the peer got it.
type Arrival struct {
	// Fire holds what the wire told; Fire.Spec holds Payload and ContentType only.
	Fire rouse.Fire
	// Answer is called at most once, from any goroutine.
	Answer func(Answer)
}

// Answer is what a peer says to a fire.
type Answer uint8

const (
	Take   Answer = iota + 1 // it has the fire
	Fail                     // it failed, and may succeed another time
	Reject                   // it failed, and always would
)

// patience bounds every wait of the contract. It is long, because it is spent only when the sink is broken.
const patience = 30 * time.Second

// Run runs the contract.
func Run(t *testing.T, h Harness) {
	cases := []struct {
		name string
		run  func(t *testing.T, h Harness, p *Peer)
	}{
		{"delivers payload, id and facts unchanged", unchanged},
		{"delivers hostile payloads and names unchanged", hostile},
		{"reports each fire exactly once", onceEach},
		{"tells failure from rejection", verdicts},
		{"does not retry", noRetry},
		{"keeps fires apart that run at the same time", concurrent},
		{"ends when ctx ends", obeysContext},
		{"delivers nothing for a ctx that has ended", endedContext},
		{"fails an attempt that takes too long", timeout},
		{"does not take a lost answer for a done one", lostAnswer},
		{"fails or defers when nobody listens", nobodyListens},
		{"has pure lanes", lanes},
		{"checks specs", checks},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			p := h.Open(t)
			defer goleak.VerifyNone(t, running) // after Close
			defer p.Close()
			c.run(t, h, p)
		})
	}
}
