package server

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
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
	key := values[0]
	if unquoted, ok := strings.CutPrefix(key, `"`); ok && strings.HasSuffix(unquoted, `"`) {
		key = unquoted[:len(unquoted)-1]
	}
	printable := strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || !printable {
		return "", malformed(idempotencyHeader, shown(values[0]), "is no key", fmt.Sprintf("give one, of 1 to %d printable ASCII characters, such as a UUID", maxIdempotencyKey))
	}
	return key, nil
}

// What a route does with a key. Other requests that change something can be repeated without one: PUT and
// DELETE, and POSTs that change nothing. They ignore it.
type repeats uint8

const (
	anyhow   repeats = iota // ignores it
	withKey                 // is carried out once
	notAtAll                // refuses it
)

// keyed returns the context of a request, with its key if the route takes one.
func (c *call) keyed() (context.Context, error) {
	ctx := c.r.Context()
	values := c.r.Header.Values(idempotencyHeader)
	if len(values) == 0 || c.route.repeats == anyhow {
		return ctx, nil
	}
	key, err := idempotencyKey(values)
	if err == nil && c.route.repeats == notAtAll {
		err = malformed(idempotencyHeader, "", "cannot make this request repeatable", "leave it out")
	}
	if err != nil {
		return ctx, err
	}
	return access.Repeatable(ctx, key), nil
}

// keyedName derives the name of a timer that is created with a key but without a name.
func keyedName(key string) string {
	sum := sha256.Sum256([]byte("rouse idempotency key\x00" + key))
	return "key-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}

// bind makes the key of a request, if it has one, the key of what this asks for, unless the caller may not do
// that anyway.
func (s *service) bind(ctx context.Context, v access.Verb, namespace string, what ...any) error {
	if access.RepeatKey(ctx) == "" {
		return nil
	}
	if err := s.control().Admit(ctx, v); err != nil {
		return err
	}
	return s.timers.BindKey(ctx, namespace, append([]any{v}, what...)...)
}

// createOnce creates timers, or returns those that the same request with the same key created before: they
// are kept as long as the key is.
func (s *service) createOnce(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	key := access.RepeatKey(ctx)
	for i := range puts {
		p := &puts[i]
		if p.Key.Name == "" {
			if p.Key.Name = keyedName(key); len(puts) > 1 {
				p.Key.Name = keyedName(fmt.Sprintf("%s %d", key, i))
			}
		}
		if p.Spec.Keep >= 0 { // negative is for ever
			p.Spec.Keep = max(p.Spec.Keep, access.RepeatAge)
		}
	}
	taken, err := s.admit(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	return s.put(ctx, puts, taken)
}
