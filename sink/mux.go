// Package sink combines sinks: Mux selects a sink by the scheme of a timer's target, Breaker stops requests
// to hosts and addresses that keep failing. Both are sinks themselves, so they can be nested:
//
//	sink.Mux{"https": sink.NewBreaker(hooks, sink.BreakerOptions{}), "stream": streams}
//
// A node has its own Mux; use this package to test or to build a delivery without a node.
package sink

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// Mux is a sink that passes each fire to the sink of its target's scheme: the part before the first colon.
// Schemes are lower-case. It leaves the names of lanes unchanged; they differ as long as each sink's lanes
// begin with its scheme.
type Mux map[string]rouse.Sink

// Check refuses a target with an unknown scheme, and leaves the rest to the scheme's sink.
func (m Mux) Check(spec *rouse.Spec) error {
	if s := m[targetScheme(spec.Target)]; s != nil {
		return s.Check(spec)
	}
	wrong := "has no scheme"
	if name := targetScheme(spec.Target); name != "" {
		wrong = "has a scheme that no sink serves"
	}
	return rouse.Refuse("target", spec.Target, wrong, m.schemeCure())
}

func (m Mux) schemeCure() string {
	if len(m) == 0 {
		return "this server has no sinks"
	}
	return "begin it with " + strings.Join(slices.Sorted(maps.Keys(m)), ":, ") + ":"
}

// Lane calls the scheme's sink.
func (m Mux) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	if s := m[targetScheme(spec.Target)]; s != nil {
		return s.Lane(namespace, spec)
	}
	return rouse.Lane{Name: "no sink", Limit: 1024, Batch: 1024}
}

// Deliver passes the fires, which are of one lane and so of one scheme, to the scheme's sink. Fires of a
// scheme that is no longer served fail.
func (m Mux) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	name := targetScheme(fires[0].Spec.Target)
	if s := m[name]; s != nil {
		s.Deliver(ctx, fires, settle)
		return
	}
	o := rouse.Outcome{Verdict: rouse.Failed, Detail: rouse.Shorten("no sink here serves the scheme "+name+":",
		rouse.MaxDetail)}
	for i := range fires {
		settle(i, o)
	}
}

// Obstacle calls the scheme's sink.
func (m Mux) Obstacle(namespace string, spec *rouse.Spec) string {
	s := m[targetScheme(spec.Target)]
	if s == nil {
		return "no sink here serves the scheme " + targetScheme(spec.Target) + ":"
	}
	if o, ok := s.(rouse.Obstructed); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}

// IsScheme reports whether a name can be a key of a Mux.
func IsScheme(name string) bool {
	return name != "" && name == strings.ToLower(name) && targetScheme(name+":") == name
}

// targetScheme returns the part before the first colon of a target, "" if that is not a scheme.
func targetScheme(target string) string {
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
