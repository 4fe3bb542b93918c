package server

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/codec"
)

// A page token contains the position where the last page ended and a hash of the query. A token of another
// query would silently skip rows. Tokens hold no secret and are not signed: a forged one only leads to
// another position in the same list.

const tokenHash = 8 // bytes

func keyToken(k rouse.Key, q *rouse.Query) string {
	b := queryHash(q)
	for _, s := range [...]string{k.Namespace, k.Name, k.Fire} {
		b = codec.AppendText(b, s)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// keyOf decodes a token; an empty one is the zero key, before all.
func keyOf(token string, q *rouse.Query) (rouse.Key, error) {
	var k rouse.Key
	if token == "" {
		return k, nil
	}
	b, err := untoken(token, queryHash(q))
	if err != nil {
		return k, err
	}
	r := codec.Read(b)
	k = rouse.Key{Namespace: r.Text(), Name: r.Text(), Fire: r.Text()}
	if !r.Done() {
		return rouse.Key{}, badToken(token)
	}
	return k, nil
}

func cursorToken(c rouse.RecordCursor, q *rouse.RecordQuery) string {
	b := binary.AppendVarint(historyHash(q), int64(c.Ended))
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(b, c.Seq))
}

// cursorOf decodes a token; an empty one is the zero cursor, newer than all.
func cursorOf(token string, q *rouse.RecordQuery) (rouse.RecordCursor, error) {
	if token == "" {
		return rouse.RecordCursor{}, nil
	}
	b, err := untoken(token, historyHash(q))
	if err != nil {
		return rouse.RecordCursor{}, err
	}
	r := codec.Read(b)
	c := rouse.RecordCursor{Ended: rouse.Instant(r.Varint()), Seq: r.Uvarint()}
	if !r.Done() {
		return rouse.RecordCursor{}, badToken(token)
	}
	return c, nil
}

// untoken checks the hash of a token and returns the rest.
func untoken(token string, hash []byte) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < tokenHash {
		return nil, badToken(token)
	}
	if string(b[:tokenHash]) != string(hash) {
		return nil, rouse.Refuse("page_token", token, "belongs to another query", "repeat the filter of the first page")
	}
	return b[tokenHash:], nil
}

func badToken(token string) error {
	return rouse.Refuse("page_token", token, "is no page token", "give next_page_token of the previous page")
}

func queryHash(q *rouse.Query) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "timers %q %q %q %v %d %d", q.Namespace, q.Prefix, q.Name, q.States, q.DueFrom, q.DueUntil)
	for _, k := range slices.Sorted(maps.Keys(q.Labels)) {
		fmt.Fprintf(h, " %q=%q", k, q.Labels[k])
	}
	return h.Sum(nil)
}

func historyHash(q *rouse.RecordQuery) []byte {
	h := fnv.New64a()
	io.WriteString(h, fmt.Sprintf("records %q %q", q.Namespace, q.Name))
	return h.Sum(nil)
}
