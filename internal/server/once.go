package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 256 // bytes
)

// idempotencyKey returns the key of a request, from the values of its header; "" if it has none.
func idempotencyKey(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", refuseMalformed(idempotencyHeader, printableText(values[1]),
			fmt.Sprintf("is one of %d in one request", len(values)), "send the header once")
	}
	key := values[0]
	if unquoted, ok := strings.CutPrefix(key, `"`); ok && strings.HasSuffix(unquoted, `"`) {
		key = unquoted[:len(unquoted)-1]
	}
	printable := strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if key == "" || len(key) > maxIdempotencyKey || !printable {
		return "", refuseMalformed(idempotencyHeader, printableText(values[0]), "is no key",
			fmt.Sprintf("give one, of 1 to %d printable ASCII characters, such as a UUID", maxIdempotencyKey))
	}
	return key, nil
}

// repeats is how a route treats a key. Other requests that change something can be repeated without one: PUT
// and DELETE, and POSTs that change nothing. They ignore it.
type repeats uint8

const (
	anyhow   repeats = iota // ignores it
	withKey                 // is carried out once
	notAtAll                // refuses it
)

// keyedContext returns the context of a request, with its key if the route takes one.
func (c *call) keyedContext() (context.Context, error) {
	ctx := c.r.Context()
	values := c.r.Header.Values(idempotencyHeader)
	if len(values) == 0 || c.route.repeats == anyhow {
		return ctx, nil
	}
	key, err := idempotencyKey(values)
	if err == nil && c.route.repeats == notAtAll {
		err = refuseMalformed(idempotencyHeader, "", "cannot make this request repeatable", "leave it out")
	}
	if err != nil {
		return ctx, err
	}
	return access.Repeatable(ctx, key), nil
}

// nameNew names timers without a name: by the key and the caller of a request that can be repeated, else by
// chance.
func nameNew(ctx context.Context, puts []timers.Put) {
	for i := range puts {
		p := &puts[i]
		if p.Key.Name != "" || p.Mode == timers.ReplaceOnly || p.IfRevision != 0 {
			continue
		}
		tag, ok := access.TagOf(ctx, p.Key.Namespace)
		switch {
		case !ok:
			p.Key.Name = madeUpName()
		case len(puts) == 1:
			p.Key.Name = "key-" + string(tag)
		default:
			p.Key.Name = fmt.Sprintf("key-%s-%d", tag, i)
		}
	}
}

// createOnce creates timers, or returns those that the same request with the same key created before: they
// are kept as long as the key is.
func (s *service) createOnce(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	nameNew(ctx, puts)
	for i := range puts {
		p := &puts[i]
		if p.Spec.Keep >= 0 { // negative is for ever
			p.Spec.Keep = max(p.Spec.Keep, access.RepeatAge)
		}
	}
	taken, err := s.admitOrShed(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	return s.putAdmitted(ctx, puts, taken)
}
