package access

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"time"
)

// RepeatAge is for how long a request with an Idempotency-Key can be repeated.
const RepeatAge = 24 * time.Hour

// NoteName begins the names of the notes of Idempotency-Keys: rows of the namespaces of their requests.
const NoteName = "\x01asked/"

// MarkFire ends the fires of the rows next to timers, dead letters and occurrences that have which requests
// with an Idempotency-Key changed them; no fire id has a control character.
const MarkFire = "\x01asked"

// Tag identifies the requests that one caller sends in one namespace with one Idempotency-Key. The rows that
// such a request changes keep the tag, in the same commit, so that a repetition of the request finds it there
// and changes nothing. A tag does not reveal its key.
type Tag string

type repeatKey struct{}

type partsKey struct{}

// Repeatable returns the context of a request that its caller may repeat with the same key.
func Repeatable(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, repeatKey{}, key)
}

// RepeatableParts returns the context of a job, of which each part is carried out once: its parts have one
// key, and differ.
func RepeatableParts(ctx context.Context, key string) context.Context {
	return context.WithValue(Repeatable(ctx, key), partsKey{}, true)
}

// OfParts reports whether a context is one of RepeatableParts.
func OfParts(ctx context.Context) bool { return ctx.Value(partsKey{}) != nil }

// Harmless returns the context of a part of a request that may be done again.
func Harmless(ctx context.Context) context.Context {
	if RepeatKey(ctx) == "" {
		return ctx
	}
	return context.WithValue(ctx, repeatKey{}, "")
}

type doneKey struct{}

// CarriedOut returns the context of a request that was carried out before.
func CarriedOut(ctx context.Context) context.Context { return context.WithValue(ctx, doneKey{}, true) }

// WasCarriedOut reports whether a context is one of CarriedOut: the rows that the request has changed may
// have been changed again since, and not have its tag any more.
func WasCarriedOut(ctx context.Context) bool { return ctx.Value(doneKey{}) != nil }

// RepeatKey returns the key of a request; "" if it has none.
func RepeatKey(ctx context.Context) string {
	key, _ := ctx.Value(repeatKey{}).(string)
	return key
}

// TagOf returns the tag of a request; ok is false if it has no key. An empty namespace is of requests that
// belong to none.
func TagOf(ctx context.Context, namespace string) (tag Tag, ok bool) {
	key := RepeatKey(ctx)
	if key == "" {
		return "", false
	}
	caller := ""
	if p := From(ctx); p != nil {
		caller = p.ID
	}
	sum := sha256.Sum256([]byte("rouse repeat\x00" + caller + "\x00" + namespace + "\x00" + key))
	return Tag(tagDigits.EncodeToString(sum[:15])), true
}

var tagDigits = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
