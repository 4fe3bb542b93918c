package rouse

import (
	"context"
	"encoding/hex"
)

// TraceContext identifies a span of a distributed trace, as the header traceparent of W3C does. A timer keeps
// that of its creation, so that the traces of its fires can link to it.
type TraceContext struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// traceSampled is the flag of spans that are recorded.
const traceSampled = 1

// Sampled reports whether the span is recorded.
func (c *TraceContext) Sampled() bool { return c.Flags&traceSampled != 0 }

// String returns the header traceparent of the span.
func (c *TraceContext) String() string {
	b := append(make([]byte, 0, 55), "00-"...)
	b = append(hex.AppendEncode(b, c.Trace[:]), '-')
	b = append(hex.AppendEncode(b, c.Span[:]), '-')
	return string(hex.AppendEncode(b, []byte{c.Flags}))
}

// ParseTraceparent reads a header traceparent. As W3C requires, a header that is malformed is ignored: the
// result is nil.
func ParseTraceparent(s string) *TraceContext {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || s[:2] == "00" && len(s) != 55 ||
		len(s) > 55 && s[55] != '-' {
		return nil
	}
	for _, c := range []byte(s[:55]) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return nil
		}
	}
	var c TraceContext
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {c.Trace[:], s[3:35]}, {c.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return nil
		}
	}
	if c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return nil
	}
	c.Flags = flags[0] & traceSampled
	return &c
}

type traceKey struct{}

// WithTrace returns a context of a call that is a part of a trace: if the node has tracing, the spans of
// timers that the call creates are children of c.
func WithTrace(ctx context.Context, c *TraceContext) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, c)
}

// TraceOf returns the span that a call is a part of, or nil.
func TraceOf(ctx context.Context) *TraceContext {
	c, _ := ctx.Value(traceKey{}).(*TraceContext)
	return c
}

// appendTrace appends the stored form of a span.
func appendTrace(b []byte, c *TraceContext) []byte {
	return append(append(append(b, c.Trace[:]...), c.Span[:]...), c.Flags)
}

// readTrace decodes the context that appendTrace encoded.
func readTrace(d *decoder) *TraceContext {
	var c TraceContext
	for i := range c.Trace {
		c.Trace[i] = d.Byte()
	}
	for i := range c.Span {
		c.Span[i] = d.Byte()
	}
	c.Flags = d.Byte()
	return &c
}
