package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Lane returns one lane for each host: "scheme://host:port", without the default port. Fires in batches
// have a lane for each target and set of options, because only fires with equal ones can share a request.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	if spec.Webhook.Batch > 1 {
		n := int(spec.Webhook.Batch)
		return rouse.Lane{Name: batchLane(namespace, spec), Limit: s.opts.BatchRequests * n, Batch: n}
	}
	return rouse.Lane{Name: originOf(spec.Target), Limit: s.opts.HostConcurrency, Batch: 1}
}

// Address returns scheme, host and port of a target, and the same with its path: each has a circuit of its
// own (sink.Breaker). A query differs from call to call, and is left out.
func (s *Sink) Address(spec *rouse.Spec) (host, address string) {
	p := placeOf(spec.Target)
	path, _, _ := strings.Cut(p.path, "?")
	if strings.HasPrefix(spec.Target, p.origin) && strings.HasPrefix(spec.Target[len(p.origin):], path) {
		return p.origin, spec.Target[:len(p.origin)+len(path)]
	}
	return p.origin, p.origin + path
}

// originOf returns scheme, host and port of a target that passed Check. It runs for every fire, so it slices
// the string instead of parsing it; Check ensures that a parser would get the same result.
func originOf(target string) string {
	host := strings.Index(target, "://") + 3
	if host < 3 {
		return target
	}
	end := len(target)
	if i := strings.IndexAny(target[host:], "/?#"); i >= 0 {
		end = host + i
	}
	o := target[:end]
	switch target[:host] {
	case "https://":
		o = strings.TrimSuffix(o, ":443")
	case "http://":
		o = strings.TrimSuffix(o, ":80")
	}
	return strings.ToLower(o) // the same string if it is lower-case already
}

// batchLane begins with the whole target. A target contains no '#', so it is distinct from the rest.
func batchLane(namespace string, spec *rouse.Spec) string {
	w := &spec.Webhook
	b := make([]byte, 0, 256)
	b = append(b, spec.Target...)
	b = append(b, "#batch="...)
	b = strconv.AppendUint(b, uint64(w.Batch), 10)
	b = append(b, " namespace="...)
	b = append(b, namespace...)
	b = append(b, " method="...)
	b = append(b, methodOf(spec)...)
	b = append(b, " timeout="...)
	b = strconv.AppendInt(b, int64(spec.Retry.Effective().Timeout), 10)
	if len(w.Headers) > 0 {
		h := sha256.New()
		for _, k := range slices.Sorted(maps.Keys(w.Headers)) {
			h.Write(strconv.AppendQuote(nil, k))
			h.Write(strconv.AppendQuote(nil, w.Headers[k]))
		}
		b = append(b, " headers="...)
		b = hex.AppendEncode(b, h.Sum(nil))
	}
	return string(b)
}

func methodOf(spec *rouse.Spec) string {
	if spec.Webhook.Method == "" {
		return "POST"
	}
	return spec.Webhook.Method
}
