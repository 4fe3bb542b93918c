// Package sink puts sinks together: Mux routes by the scheme of a timer's target, Breaker spares hosts that are down. Both are
// sinks themselves, so they nest as one likes:
//
//	sink.Mux{"https": sink.NewBreaker(hooks, sink.BreakerOptions{}), "stream": streams}
package sink

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// Mux is a sink that hands each fire to the sink of its target's scheme: what stands before the first colon. Schemes are
// written in small letters. It adds nothing to the names of lanes; they differ as long as each sink begins its own with the
// scheme.
type Mux map[string]rouse.Sink

// Check refuses a target whose scheme no sink serves, and leaves the rest to the one that does.
func (m Mux) Check(spec *rouse.Spec) error {
	if s := m[scheme(spec.Target)]; s != nil {
		return s.Check(spec)
	}
	wrong := "has no scheme"
	if name := scheme(spec.Target); name != "" {
		wrong = "has a scheme that no sink serves"
	}
	return rouse.Refuse("target", spec.Target, wrong, m.offer())
}

func (m Mux) offer() string {
	if len(m) == 0 {
		return "this server has no sinks"
	}
	return "begin it with " + strings.Join(slices.Sorted(maps.Keys(m)), ":, ") + ":"
}

// Lane returns the lane that the scheme's sink names.
func (m Mux) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	if s := m[scheme(spec.Target)]; s != nil {
		return s.Lane(namespace, spec)
	}
	return rouse.Lane{Name: "no sink", Limit: 1024, Batch: 1024}
}

// Deliver hands the fires, which are of one lane and so of one scheme, to the scheme's sink. Fires of a scheme that was served
// when their timers were created, and is no more, fail.
func (m Mux) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	name := scheme(fires[0].Spec.Target)
	if s := m[name]; s != nil {
		s.Deliver(ctx, fires, settle)
		return
	}
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: rouse.Shorten("no sink here serves the scheme "+name+":", rouse.MaxDetail)}
	for i := range fires {
		settle(i, o)
	}
}

// Obstacle is the scheme's sink's.
func (m Mux) Obstacle(namespace string, spec *rouse.Spec) string {
	s := m[scheme(spec.Target)]
	if s == nil {
		return "no sink here serves the scheme " + scheme(spec.Target) + ":"
	}
	if o, ok := s.(rouse.Obstructed); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}

// scheme returns what stands before the first colon of a target, "" if that is no scheme.
func scheme(target string) string {
	for i := range len(target) {
		switch c := target[i]; {
		case c == ':':
			return target[:i]
		case 'a' <= c && c <= 'z', i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'), 'A' <= c && c <= 'Z':
		default:
			return ""
		}
	}
	return ""
}
