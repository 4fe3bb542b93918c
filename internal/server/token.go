package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/codec"
	"github.com/rousehq/rouse/internal/timers"
)

// A page token contains the position where the last page ended and a hash of the query. A token of another
// query would silently skip rows. Tokens are not signed: a forged one only leads to another position in the
// same list. A page that ends at a bound may end at a timer, a record or an event that its caller may not
// see: such a token is hidden.

// hiddenToken begins tokens that are hidden; others are base64.
const hiddenToken = "."

// pageToken returns the token of a page of timers or records of a namespace as the caller may see it.
func (s *service) pageToken(ctx context.Context, token, namespace string) (string, error) {
	return s.hideToken(token, s.accessControl().HasPart(ctx, access.TimersRead, namespace))
}

// hideToken returns a token that is hidden if that is necessary.
func (s *service) hideToken(token string, hide bool) (string, error) {
	if token == "" || !hide {
		return token, nil
	}
	text, err := s.opts.Access.Sessions.Hide(token)
	return hiddenToken + text, err
}

// resolvePageToken returns the token of a request.
func (s *service) resolvePageToken(text string) (string, error) {
	hidden, ok := strings.CutPrefix(text, hiddenToken)
	if !ok || s.opts.Access == nil {
		return text, nil
	}
	if token := s.opts.Access.Sessions.Hidden(hidden); token != "" {
		return token, nil
	}
	return "", badToken(text)
}

const tokenHash = 8 // bytes

func placeToken(p *timers.Place, q *rouse.Query) string {
	if p == nil {
		return ""
	}
	b := queryHash(q)
	if q.Order != rouse.OrderName {
		b = binary.AppendVarint(b, int64(p.At))
	}
	return base64.RawURLEncoding.EncodeToString(appendKey(b, p.Key))
}

// placeOf sets the place of a query to that of a token; an empty one is before all.
func placeOf(token string, q *rouse.Query) error {
	if token == "" {
		return nil
	}
	b, err := decodePageToken(token, queryHash(q))
	if err != nil {
		return err
	}
	r := codec.Read(b)
	if q.Order != rouse.OrderName {
		q.AfterAt = rouse.Instant(r.Varint())
	}
	q.After = readKey(&r)
	if !r.Done() {
		return badToken(token)
	}
	return nil
}

func cursorToken(c *rouse.RecordCursor, q *rouse.RecordQuery) string {
	if c == nil {
		return ""
	}
	b := binary.AppendVarint(historyHash(q), int64(c.Ended))
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(b, c.Seq))
}

// cursorOf sets the place of a query to that of a token; an empty one is the beginning.
func cursorOf(token string, q *rouse.RecordQuery) error {
	if token == "" {
		return nil
	}
	b, err := decodePageToken(token, historyHash(q))
	if err != nil {
		return err
	}
	r := codec.Read(b)
	c := rouse.RecordCursor{Ended: rouse.Instant(r.Varint()), Seq: r.Uvarint()}
	if !r.Done() {
		return badToken(token)
	}
	if q.Oldest {
		q.From = c
	} else {
		q.Until = c
	}
	return nil
}

func forecastToken(p *rouse.ForecastPlace, hash []byte) string {
	if p == nil {
		return ""
	}
	b := binary.AppendVarint(hash, int64(p.Now))
	b = binary.AppendUvarint(binary.AppendVarint(b, int64(p.Due)), p.Left)
	return base64.RawURLEncoding.EncodeToString(appendKey(b, p.Key))
}

// forecastPlace returns the place of a token; nil for an empty one.
func forecastPlace(token string, hash []byte) (*rouse.ForecastPlace, error) {
	if token == "" {
		return nil, nil
	}
	b, err := decodePageToken(token, hash)
	if err != nil {
		return nil, err
	}
	r := codec.Read(b)
	p := &rouse.ForecastPlace{Now: rouse.Instant(r.Varint()), Due: rouse.Instant(r.Varint()), Left: r.Uvarint(),
		Key: readKey(&r)}
	if !r.Done() || p.Now <= 0 {
		return nil, badToken(token)
	}
	return p, nil
}

func appendKey(b []byte, k rouse.Key) []byte {
	for _, s := range [...]string{k.Namespace, k.Name, k.Fire} {
		b = codec.AppendText(b, s)
	}
	return b
}

func readKey(r *codec.Reader) rouse.Key {
	return rouse.Key{Namespace: r.Text(), Name: r.Text(), Fire: r.Text()}
}

// decodePageToken checks the hash of a token and returns the rest.
func decodePageToken(token string, hash []byte) ([]byte, error) {
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
	if q.Sought.Any() || q.Order != rouse.OrderName || q.Reverse { // tokens of earlier versions have none of these
		fmt.Fprintf(h, " %q %q %d %d %t", q.Sought.Text, q.Sought.Target, q.Sought.Code, q.Order, q.Reverse)
	}
	hashLabels(h, q.Labels)
	return h.Sum(nil)
}

func forecastHash(q *rouse.Query, from, until rouse.Instant, step time.Duration, by string) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "forecast %s %d %d %d", queryHash(q), from, until, step)
	if by != "" {
		fmt.Fprintf(h, " %q", by)
	}
	return h.Sum(nil)
}

func hashLabels(h io.Writer, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(h, " %q=%q", k, labels[k])
	}
}

func historyHash(q *rouse.RecordQuery) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "records %q %q", q.Namespace, q.Name)
	if q.Narrow() || q.Oldest || q.From.Ended != 0 || q.Until.Ended != 0 {
		fmt.Fprintf(h, " %q %v %v %q %q %d %t %d %d", q.Prefix, q.Endings, q.Causes, q.Sought.Text, q.Sought.Target,
			q.Sought.Code, q.Oldest, q.From.Ended, q.Until.Ended)
		hashLabels(h, q.Labels)
	}
	return h.Sum(nil)
}
