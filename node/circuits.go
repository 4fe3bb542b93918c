package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
)

// Circuit changes the circuits of callbacks. Of several that cover a circuit the first counts; fields that
// are not given have the defaults of sink.CircuitOptions.
type Circuit struct {
	Namespace  string        // "" is each namespace
	Target     string        // the beginning of the addresses, such as "https://api.example.com/"; "*" is all
	Off        bool          // no circuit
	Share      float64       // part of the deliveries that have to fail, at most 1
	Deliveries int           // how many it takes at least
	Window     time.Duration // in which they are counted
	Open       time.Duration // how long it stays open at first
}

// Bounds of the fields of a circuit.
const (
	maxCircuitDeliveries = 1_000_000
	maxCircuitTime       = time.Hour
)

func (c *Circuit) checkCircuit() error {
	var all rouse.Invalid
	bad := func(name, value, wrong, cure string) {
		all.Add(rouse.Refuse(name, value, wrong, cure))
	}
	if c.Namespace != "" {
		if inv, ok := rouse.CheckNamespace(c.Namespace).(*rouse.Invalid); ok {
			bad("namespace", c.Namespace, inv.Problems[0].Wrong, inv.Problems[0].Cure)
		}
	}
	if lower := strings.ToLower(c.Target); c.Target != "*" && !strings.HasPrefix(lower, "http://") &&
		!strings.HasPrefix(lower, "https://") || len(c.Target) > rouse.MaxTarget {
		bad("target", c.Target, "begins no address of a callback",
			"give the beginning of the addresses, such as https://api.example.com/, or * for all")
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		bad("share", strconv.FormatFloat(c.Share, 'g', -1, 64), "is out of bounds", "give a part such as 0.5, at most 1")
	}
	if c.Deliveries < 0 || c.Deliveries > maxCircuitDeliveries {
		bad("deliveries", strconv.Itoa(c.Deliveries), "is out of bounds", fmt.Sprintf("give 1 to %d", maxCircuitDeliveries))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"window", c.Window}, {"open", c.Open}} {
		if d.value != 0 && (d.value < 100*time.Millisecond || d.value > maxCircuitTime) {
			bad(d.name, d.value.String(), "is out of bounds", fmt.Sprintf("give 100ms to %v", maxCircuitTime))
		}
	}
	switch set := c.Share != 0 || c.Deliveries != 0 || c.Window != 0 || c.Open != 0; {
	case c.Off && set:
		bad("off", "", "leaves nothing to set", "give off alone, or leave it out")
	case !c.Off && !set:
		bad("off", "", "and all that could be set are missing", "give off, or one of share, deliveries, window and open")
	}
	return all.Err()
}

// checkCircuits looks at the circuits of callbacks.
func (c *Config) checkCircuits() error {
	var bad rouse.Invalid
	for i := range c.Circuits {
		bad.Add(rouse.Under(fmt.Sprintf("circuits[%d]", i), c.Circuits[i].checkCircuit()))
	}
	return bad.Err()
}

// circuitOptions returns the options of a circuit: those of the first setting that covers its name.
func (c *Config) circuitOptions(namespace, name string) (o sink.CircuitOptions) {
	for i := range c.Circuits {
		s := &c.Circuits[i]
		if (s.Namespace == "" || s.Namespace == namespace) &&
			(s.Target == "*" || len(name) >= len(s.Target) && strings.EqualFold(name[:len(s.Target)], s.Target)) {
			return sink.CircuitOptions{Off: s.Off, Share: s.Share, Deliveries: s.Deliveries, Window: s.Window, Open: s.Open}
		}
	}
	return o
}

// newBreaker puts the circuits of callbacks in front of their sink, and counts those that are open.
func (n *Node) newBreaker(hooks rouse.Sink) rouse.Sink {
	b := sink.NewBreaker(hooks, sink.BreakerOptions{Circuit: n.cfg.circuitOptions})
	n.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_circuits_open",
		Help: "Circuits of hosts and addresses of callbacks that are not closed."},
		func() float64 { return float64(b.Open()) }))
	return b
}

// Circuits are circuits of callbacks as a setting is written: the beginning of the addresses and the fields,
// one after another, with semicolons or line ends between.
//
//	https://api.example.com/ namespace=acme share=0.8 deliveries=20; https://old.example.com/ off; * open=5s
type Circuits []Circuit

// UnmarshalText reads circuits. Config.Check checks them.
func (l *Circuits) UnmarshalText(text []byte) error {
	*l = nil
	for part := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		c := Circuit{Target: words[0]}
		for _, word := range words[1:] {
			name, value, given := strings.Cut(word, "=")
			var err error
			kind := "number"
			switch name {
			case "namespace":
				c.Namespace = value
			case "off":
				if c.Off = true; given {
					return fmt.Errorf("off of %s has a value: give off alone", c.Target)
				}
			case "share":
				c.Share, err = strconv.ParseFloat(value, 64)
			case "deliveries":
				c.Deliveries, err = strconv.Atoi(value)
			case "window":
				kind = "duration"
				c.Window, err = rouse.ParseDuration(value)
			case "open":
				kind = "duration"
				c.Open, err = rouse.ParseDuration(value)
			default:
				return fmt.Errorf("%q is not off, namespace=, share=, deliveries=, window= or open=", word)
			}
			if err != nil {
				return fmt.Errorf("%s of %s: %q is no %s", name, c.Target, value, kind)
			}
		}
		*l = append(*l, c)
	}
	return nil
}

// String returns circuits as UnmarshalText reads them.
func (l Circuits) String() string {
	parts := make([]string, len(l))
	for i, c := range l {
		parts[i] = c.Target
		add := func(name, value string, set bool) {
			if set {
				parts[i] += " " + name + "=" + value
			}
		}
		add("namespace", c.Namespace, c.Namespace != "")
		if c.Off {
			parts[i] += " off"
		}
		add("share", strconv.FormatFloat(c.Share, 'g', -1, 64), c.Share != 0)
		add("deliveries", strconv.Itoa(c.Deliveries), c.Deliveries != 0)
		add("window", c.Window.String(), c.Window != 0)
		add("open", c.Open.String(), c.Open != 0)
	}
	return strings.Join(parts, "; ")
}

// Kind describes a value for errors.
func (Circuits) Kind() string {
	return "circuits such as 'https://api.example.com/ share=0.8 window=1m; https://old.example.com/ off'"
}
