// Package trace adds OpenTelemetry traces to a node. A program imports it, and its environment has the
// standard variables, such as OTEL_EXPORTER_OTLP_ENDPOINT; without them there are no traces, and no cost:
//
//	import _ "github.com/rousehq/rouse/node/trace"
//
// A call that creates timers is a span, which the timers keep. Each fire is a trace of its own, because it
// may be years later, with a link to that span; each attempt is a span of it, whose context the target gets.
//
// All ids of a fire follow from its fire id. So the attempts of one fire are in one trace, whichever node
// makes them, and whatever restarts in between.
package trace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
)

// flushTimeout bounds how long a node that ends waits for its last spans to be sent.
const flushTimeout = 5 * time.Second

// tracer makes the spans of a node.
type tracer struct {
	provider *sdk.TracerProvider
	spans    trace.Tracer
}

func openTracePart(ctx context.Context, n core) (parts.Part, error) {
	env := fromEnv()
	if !env.isEnabled() {
		return parts.Part{}, nil
	}
	exporter, err := env.newExporter(ctx)
	if err != nil {
		return parts.Part{}, fmt.Errorf("trace: %w", err)
	}
	cfg := n.Config()
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "rouse"),
		attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", cfg.Node)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return parts.Part{}, fmt.Errorf("trace: %w", err)
	}
	c := newCounts(n.Registry())
	p := sdk.NewTracerProvider(sdk.WithBatcher(counting{exporter, c, cfg.Log}), sdk.WithSpanProcessor(ended{c}),
		sdk.WithResource(about), sdk.WithIDGenerator(generator{}))
	t := &tracer{provider: p, spans: p.Tracer("github.com/rousehq/rouse")}
	cfg.Log.Info("traces are sent", "protocol", env.protocol)
	return parts.Part{Value: t, Engine: func(o *engine.Options) { o.Created = t.beginCreateSpan },
		Deliver: func(s rouse.Sink) rouse.Sink { return &sink{s, t} }, Close: t.shutDownTracer}, nil
}

func (t *tracer) shutDownTracer() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // spans that could not be sent were counted and logged; it is no reason to fail
	return nil
}

// Traces marks the value of a part that wants the contexts of callers.
func (t *tracer) Traces() {}

// beginCreateSpan begins the span of a call that creates timers: a child of the caller's span, if there is
// one.
func (t *tracer) beginCreateSpan(ctx context.Context, key rouse.Key, timers int) (*rouse.TraceContext, func(error)) {
	if c := rouse.TraceOf(ctx); c != nil && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(c))
	}
	attributes := []attribute.KeyValue{attribute.String("rouse.namespace", key.Namespace)}
	if timers == 1 {
		attributes = append(attributes, attribute.String("rouse.timer", key.Name))
	} else {
		attributes = append(attributes, attribute.Int("messaging.batch.message_count", timers))
	}
	_, span := t.spans.Start(ctx, "create timer", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attributes...))
	return spanOf(span.SpanContext()), func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// beginFireSpan begins the span of a fire, or begins it again for a further attempt: its ids and its begin
// are always the same, and only the attempt that ends the fire ends it. A span that does not end is never
// sent. It is not recorded if the timer was created by a span that was not.
func (t *tracer) beginFireSpan(ctx context.Context, f *rouse.Fire) (context.Context, trace.Span) {
	ids := idsOf(f.ID)
	if f.Origin != nil && !f.Origin.Sampled() {
		c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: ids.trace, SpanID: ids.span})
		ctx = trace.ContextWithSpanContext(ctx, c)
		return ctx, trace.SpanFromContext(ctx)
	}
	o := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(f.Due.Time()), trace.WithAttributes(
		attribute.String("rouse.namespace", f.Namespace), attribute.String("rouse.timer", f.Name),
		attribute.String("rouse.fire_id", f.ID),
		attribute.String("rouse.due", f.Due.String()), attribute.Bool("rouse.manual", f.Manual))}
	if f.Origin != nil {
		o = append(o, trace.WithLinks(trace.Link{SpanContext: contextOf(f.Origin)}))
	}
	return t.spans.Start(context.WithValue(ctx, idKey{}, ids), "fire", o...)
}

// Exemplar returns the trace of a fire, "" if it is not recorded.
func (t *tracer) Exemplar(f *rouse.Fire) string {
	_, span := t.beginFireSpan(context.Background(), f)
	if !span.SpanContext().IsSampled() {
		return ""
	}
	return span.SpanContext().TraceID().String()
}

// spanKindOf returns the kind of span of an attempt: a request that waits for its response, or a message.
func spanKindOf(scheme string) trace.SpanKind {
	switch scheme {
	case "http", "https", "func":
		return trace.SpanKindClient
	}
	return trace.SpanKindProducer
}

// schemeOf returns the scheme of a target.
func schemeOf(target string) string {
	scheme, _, _ := strings.Cut(target, ":")
	return strings.Clone(scheme)
}

// contextOf returns a span as OpenTelemetry has it.
func contextOf(c *rouse.TraceContext) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.Trace, SpanID: c.Span,
		TraceFlags: trace.TraceFlags(c.Flags), Remote: true})
}

// spanOf returns a span as rouse has it.
func spanOf(c trace.SpanContext) *rouse.TraceContext {
	return &rouse.TraceContext{Trace: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags())}
}

// ids are those of the span of a fire.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

func idsOf(fireID string) (i ids) {
	sum := sha256.Sum256([]byte(fireID))
	copy(i.trace[:], sum[:16])
	copy(i.span[:], sum[16:24])
	return i
}

// idKey is the key of the ids that a root span is to have.
type idKey struct{}

// generator makes ids, or takes those of the context.
type generator struct{}

// NewIDs implements sdk.IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if i, ok := ctx.Value(idKey{}).(ids); ok {
		return i.trace, i.span
	}
	var i ids
	_, _ = rand.Read(i.trace[:]) // it never fails
	_, _ = rand.Read(i.span[:])
	return i.trace, i.span
}

// NewSpanID implements sdk.IDGenerator.
func (generator) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}

// counts are the metrics of traces.
type counts struct{ total, sent, failed prometheus.Counter }

func newCounts(r prometheus.Registerer) counts {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	return counts{counter("rouse_trace_spans_total",
		"Spans that ended and are to be sent. More than were sent or failed: dropped, as the queue of spans was full."),
		counter("rouse_trace_spans_sent_total", "Spans that were sent."),
		counter("rouse_trace_spans_failed_total", "Spans that could not be sent, and are lost.")}
}
