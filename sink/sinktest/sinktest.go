// Package sinktest is the contract of rouse.Sink as a test: every sink runs it against a real target of its
// technology.
//
//	func TestContract(t *testing.T) {
//		sinktest.Run(t, sinktest.Harness{Open: open, Wrong: []rouse.Spec{{Target: "https://"}}})
//	}
//
// The harness opens a sink and a peer, the target's end of the wire. The contract controls both: it passes
// fires to the sink, takes them from the peer, and decides the peer's answers. Nothing in it sleeps: it
// checks that something did not happen after everything has ended, when it cannot happen any more.
package sinktest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
)

// Harness connects a sink to the contract.
type Harness struct {
	// Open returns a new sink with a peer that answers for its target. It is called once per case, by the
	// case's goroutine.
	Open func(t *testing.T) *Peer

	// Wrong are specs that Check must refuse with an *rouse.Invalid, each for its own reason.
	Wrong []rouse.Spec

	// Codes is set if failures have a Code, as in technologies with a status.
	Codes bool

	// NoReject is set if the peers cannot permanently refuse a single fire, because the technology cannot
	// express it.
	NoReject bool
}

// Peer is a sink and the other end of its wire.
type Peer struct {
	Sink rouse.Sink

	// Spec has the target of this peer, and other options of the sink. The contract adds payload, content
	// type and retries.
	Spec rouse.Spec

	// Next returns the next fire that reached the peer. Any number of fires wait until they are answered,
	// the sink gives up, or Close. A waiting fire is returned even if ctx has ended.
	Next func(ctx context.Context) (*Arrival, error)

	// Vanish removes the peer without answering waiting fires: connections are cut, and there is no
	// listener any more.
	Vanish func()

	// Close ends peer and sink, and waits for them. It may be called after Vanish, and twice.
	Close func()
}

// Arrival is a fire as the peer received it.
type Arrival struct {
	// Fire has the transmitted fields; Fire.Spec has only Payload and ContentType.
	Fire rouse.Fire
	// Answer is called at most once, from any goroutine.
	Answer func(Answer)
}

// From returns a Next that receives from a channel.
func From(arrivals <-chan *Arrival) func(ctx context.Context) (*Arrival, error) {
	return func(ctx context.Context) (*Arrival, error) {
		select {
		case a := <-arrivals:
			return a, nil
		default:
		}
		select {
		case a := <-arrivals:
			return a, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Answer is the peer's answer to a fire.
type Answer uint8

const (
	Take   Answer = iota + 1 // it has the fire
	Fail                     // it failed, but may succeed later
	Reject                   // it failed, and always will
)

// patience bounds every wait of the contract. It is long, because only a broken sink uses it up.
const patience = 2 * time.Minute

// Run runs the contract.
func Run(t *testing.T, h Harness) {
	cases := []struct {
		name string
		run  func(t *testing.T, h Harness, p *Peer)
	}{
		{"delivers payload, id and facts unchanged", testUnchanged},
		{"delivers hostile payloads and names unchanged", testHostile},
		{"reports each fire exactly once", onceEach},
		{"tells failure from rejection", testVerdicts},
		{"does not retry", noRetry},
		{"keeps fires apart that run at the same time", testConcurrent},
		{"ends when ctx ends", obeysContext},
		{"delivers nothing for a ctx that has ended", endedContext},
		{"fails an attempt that takes too long", testTimeout},
		{"does not take a lost answer for a done one", lostAnswer},
		{"fails or defers without a listener", noListener},
		{"has pure lanes", testLanes},
		{"checks specs", testChecks},
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
