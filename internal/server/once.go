package server

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/timers"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 256 // bytes

	// idempotencyKeep is the least time for which a timer that was created with a key is kept after it
	// ended, so that a repeated create finds it.
	idempotencyKeep = 24 * time.Hour
)

// idempotencyKey returns the key of a create, from the values of its header; "" if it has none.
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

// refuseKey refuses a key where it has no effect, though repeating the request may have one: any POST other
// than a create.
func (c *call) refuseKey() error {
	if c.r.Method != http.MethodPost || c.r.Header.Get(idempotencyHeader) == "" || strings.HasSuffix(c.r.URL.EscapedPath(), "/timers") {
		return nil
	}
	return malformed(idempotencyHeader, "", "is for POST …/timers only", "leave it out; timers of a batch can be created again if they have names")
}

// keyedName derives the name of a timer that is created with a key but without a name.
func keyedName(key string) string {
	sum := sha256.Sum256([]byte("rouse idempotency key\x00" + key))
	return "key-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}

// createOnce creates a timer, or returns the one that the same request with the same key created before.
func (s *service) createOnce(ctx context.Context, p timers.Put, key string) (timers.PutResult, error) {
	if p.Key.Name == "" {
		p.Key.Name = keyedName(key)
	}
	if p.Spec.Keep >= 0 { // negative is for ever
		p.Spec.Keep = max(p.Spec.Keep, idempotencyKeep)
	}
	res, err := s.create(ctx, p)
	if !errors.Is(err, rouse.ErrExists) {
		return res, err
	}
	t, err := s.timers.Get(access.AsSystem(ctx), p.Key) // what the caller asks for is compared with it, and shown only if it is the same
	switch {
	case errors.Is(err, rouse.ErrNotFound):
		return res, fmt.Errorf("the timer %q was deleted during the request: %w", p.Key.Name, rouse.ErrConflict)
	case err != nil:
		return res, err
	case !proto.Equal(rousev1.SpecToProto(&t.Spec), rousev1.SpecToProto(&p.Spec)):
		return res, fmt.Errorf("the timer %q of this %s was created by another request, or has changed since: use another key: %w", p.Key.Name, idempotencyHeader, rouse.ErrConflict)
	}
	s.control().Redact(ctx, &t)
	return timers.PutResult{Timer: t, Replaced: true}, nil
}
