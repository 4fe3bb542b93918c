package broker

import "fmt"

// Opener connects to a broker. It returns immediately and retries until it is connected; changed is called
// with an error when the connection is lost, and with nil when it is restored.
type Opener func(c Connection, changed func(error)) (Publisher, error)

var openers = map[string]Opener{}

// Register makes a kind of broker available. The package of the kind, which has its name, calls it when the
// program starts.
func Register(kind string, open Opener) { openers[kind] = open }

// Open connects to the broker of a connection that passed Check.
func Open(c Connection, changed func(error)) (Publisher, error) {
	kind := c.Kind()
	open, linked := openers[kind]
	if !linked {
		return nil, fmt.Errorf("this program does not link brokers of the kind %s: import _ %q", kind,
			"github.com/rousehq/rouse/sink/broker/"+kind)
	}
	p, err := open(c, changed)
	if err != nil {
		return nil, err // not p, which may hold a nil pointer
	}
	return p, nil
}
