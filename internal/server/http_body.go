package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/transport"
)

const (
	maxBody      = 1 << 20
	maxBatchBody = 8 << 20 // also bounds gRPC messages
	bodyChunk    = 64 << 10
)

// lists are the maximum lengths of lists in messages; bounded has those of bodies.
var lists = transport.Lists{
	"rouse.v1.BatchCreateRequest": {"timers": rouse.MaxBatch},
	"rouse.v1.ImportRequest":      {"timers": maxImport, "calendars": maxImportCalendars},
}

// boundedList is a body that contains a list with a limit.
func boundedList(to any) (field string, most int) {
	switch to.(type) {
	case *api.BatchCreate:
		return "timers", rouse.MaxBatch
	case *api.Import:
		return "timers", maxImport
	}
	return "", 0
}

// decodeBody reads the body into a value of package api. With optional the body may be empty.
func (c *call) decodeBody(limit int64, optional bool, to any) error {
	if c.r.ContentLength == 0 && optional {
		return nil
	}
	if err := c.checkType(optional); err != nil {
		return err
	}
	body, err := c.readBody(limit)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		if optional {
			return nil
		}
		return refuseMalformed("body", "", "is missing", "send a JSON object")
	}
	cost, longest := transport.WeighJSON(body)
	if field, most := boundedList(to); field != "" && longest > most {
		return transport.TooMany(field, longest, most)
	}
	if most := c.handler.memory.Most(); cost > most {
		return &failure{code: "too_large",
			detail: fmt.Sprintf(
				"the body takes about %d bytes in memory, and all requests together may take %d; send several requests",
				cost, most)}
	}
	if !c.reserveMemory(cost) {
		return transport.NewMemoryOverload()
	}
	if err := api.Decode(body, to); err != nil {
		return wrapMalformed(err)
	}
	return nil
}

func (c *call) checkType(optional bool) error {
	h := c.r.Header
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return unsupportedMedia("Content-Encoding", enc, "send the body as it is")
	}
	given := h.Get("Content-Type")
	if given == "" && optional && c.r.ContentLength < 0 {
		return nil // a chunked body may turn out to be empty
	}
	media, params, err := mime.ParseMediaType(given)
	if media == mergeType && c.r.Method == http.MethodPatch {
		media = jsonType
	}
	if err != nil || media != jsonType || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return unsupportedMedia("Content-Type", given, "send "+jsonType)
	}
	return nil
}

func unsupportedMedia(header, value, cure string) error {
	err := rouse.Refuse(header, printableText(value), "is not supported", cure)
	return &failure{code: "unsupported_media_type", detail: err.Error(), err: err,
		header: http.Header{"Accept": {jsonType}}}
}

// readBody reads the whole body. It takes memory from a budget shared by all requests as the bytes arrive, so
// neither a large Content-Length nor many slow senders can exhaust it.
func (c *call) readBody(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	from := http.MaxBytesReader(c.w, c.r.Body, limit)
	var body []byte
	for {
		if len(body) == cap(body) {
			grown := min(max(2*cap(body), 4<<10), cap(body)+max(cap(body)/2, bodyChunk))
			if n := c.r.ContentLength; n >= 0 && n <= bodyChunk {
				grown = int(n) + 1
			}
			if !c.reserveMemory(int64(grown - cap(body))) {
				return nil, transport.NewMemoryOverload()
			}
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, bodyFailure(err, limit)
		}
	}
}

// reserveMemory takes bytes from the budget until the response is written.
func (c *call) reserveMemory(n int64) bool {
	c.held += n
	return c.handler.memory.TakeBytes(c.conn, n)
}

func bodyTooLarge(limit int64) error {
	return &failure{code: "too_large",
		detail: fmt.Sprintf("the body has more than %d bytes; send less, or several requests", limit)}
}

func bodyFailure(err error, limit int64) error {
	var large *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &large):
		return bodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &failure{code: "timeout", detail: "the body did not come in time",
			header: http.Header{"Connection": {"close"}}}
	case errors.Is(err, context.Canceled):
		return err
	}
	return refuseMalformed("body", "", "ends early or is not framed properly",
		"send as many bytes as the headers announce")
}

// printableText returns a short, printable form of a client's text.
func printableText(s string) string {
	return rouse.Shorten(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s), 128)
}

// decodeOptionalBody reads a request that needs no body and has no parameters.
func (c *call) decodeOptionalBody(body any) error {
	return c.decodeBody(maxBody, true, body)
}

// decodeRequiredBody decodes the body of a request without query parameters.
func (c *call) decodeRequiredBody(body any) error {
	return c.decodeBody(maxBody, false, body)
}
