package node

import (
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Limit bounds the deliveries to targets. All that one limit covers in one namespace is one queue: it
// shares the rate and the concurrency, and is delivered fire by fire. Of several limits that cover a target
// the first counts.
type Limit struct {
	Namespace string // "" is each namespace, with an allowance of its own
	// the beginning of the targets, in letters of any size, such as "https://api.example.com/" or
	// "stream:mail"
	Target      string
	Rate        float64 // fires a second; 0 is no limit
	Burst       int     // fires that may go at once under Rate; 0 is a second's worth
	Concurrency int     // fires that are under way at a time; 0 is as many as the kind of target has
}

func (l *Limit) checkLimit() error {
	var all rouse.Invalid
	bad := func(name, value, wrong, cure string) {
		all.Add(rouse.Refuse(name, value, wrong, cure))
	}
	if l.Namespace != "" {
		if inv, ok := rouse.CheckNamespace(l.Namespace).(*rouse.Invalid); ok {
			bad("namespace", l.Namespace, inv.Problems[0].Wrong, inv.Problems[0].Cure)
		}
	}
	if !strings.Contains(l.Target, ":") || len(l.Target) > rouse.MaxTarget {
		bad("target", l.Target, "begins no target",
			"give the beginning of the targets, such as https://api.example.com/ or stream:mail")
	}
	number := func(name string, value float64) {
		if !(value >= 0 && value <= 1e9) {
			bad(name, strconv.FormatFloat(value, 'g', -1, 64), "is out of bounds", "give 0 to 1000000000")
		}
	}
	number("rate", l.Rate)
	number("burst", float64(l.Burst))
	number("concurrency", float64(l.Concurrency))
	if l.Rate == 0 && l.Concurrency == 0 {
		bad("rate", "", "and concurrency are missing", "give one of them, or both")
	}
	if l.Burst != 0 && l.Rate == 0 {
		bad("burst", strconv.Itoa(l.Burst), "has no rate", "give a rate as well")
	}
	return all.Err()
}

// coversTarget reports whether the limit applies to a target of a namespace.
func (l *Limit) coversTarget(namespace, target string) bool {
	return (l.Namespace == "" || l.Namespace == namespace) && len(target) >= len(l.Target) &&
		strings.EqualFold(target[:len(l.Target)], l.Target)
}

// laneLimiter returns a function that applies the configuration to a lane: the rate of catching up, if its
// receivers do not pace themselves, and the first limit that covers its target.
func (c *Config) laneLimiter() func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane {
	catchUp, limits := c.CatchUpRate, c.Limits
	// No lane of a sink has a space in front of its colon. Fires that are stored before they are sent do not
	// share a queue with the others: a limit may cover unregistered functions, whose fires are not stored
	// first and call nothing.
	names := make([][2]string, len(limits))
	for i := range limits {
		name := "limit " + strconv.Itoa(i) + " " + limits[i].Target
		names[i] = [2]string{name, "spending " + name}
	}
	return func(namespace string, spec *rouse.Spec, lane rouse.Lane) rouse.Lane {
		if !lane.Paced {
			lane.CatchUp = catchUp
		}
		for i := range limits {
			l := &limits[i]
			if !l.coversTarget(namespace, spec.Target) {
				continue
			}
			lane.Name, lane.Rate, lane.Burst = names[i][0], l.Rate, l.Burst
			if lane.Spend {
				lane.Name = names[i][1]
			}
			lane.Batch = 1 // a delivery is of one lane of its sink, and this one has fires of several
			if l.Concurrency != 0 {
				lane.Limit = l.Concurrency
			}
			return lane
		}
		return lane
	}
}

// namespaceWeight returns the share of a namespace: how many deliveries it has while others, which have
// something to send too, have one.
func (c *Config) namespaceWeight() func(namespace string) int {
	if len(c.Shares) == 0 {
		return nil
	}
	shares := c.Shares
	return func(namespace string) int { return max(1, shares[namespace]) }
}
