package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rousehq/rouse"
)

// sink makes a span of each attempt, around the sinks of a node.
type sink struct {
	rouse.Sink
	tracer *tracer
}

// Obstacle returns the reason why fires do not reach a target, if its sink knows one.
func (s *sink) Obstacle(namespace string, spec *rouse.Spec) string {
	if o, ok := s.Sink.(interface {
		Obstacle(namespace string, spec *rouse.Spec) string
	}); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}

// attempt is the span of an attempt within that of its fire.
type attempt struct{ fire, span trace.Span }

// Deliver passes fires on with the contexts of their spans, which end with their outcomes.
func (s *sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	begun := make([]attempt, len(fires))
	for i := range fires {
		begun[i] = s.tracer.beginAttempt(ctx, &fires[i])
	}
	s.Sink.Deliver(ctx, fires, func(i int, o rouse.Outcome) {
		begun[i].endSpans(&o, fires[i].Last)
		settle(i, o)
	})
}

// beginAttempt begins the span of an attempt.
func (t *tracer) beginAttempt(ctx context.Context, f *rouse.Fire) (a attempt) {
	ctx, a.fire = t.beginFireSpan(ctx, f)
	a.span = a.fire
	if a.fire.SpanContext().IsSampled() {
		scheme := schemeOf(f.Spec.Target)
		_, a.span = t.spans.Start(ctx, "deliver "+scheme, trace.WithSpanKind(spanKindOf(scheme)),
			trace.WithAttributes(attribute.Int64("rouse.attempt", int64(f.Attempt)),
				attribute.String("rouse.target", f.Spec.Target)))
	}
	f.Traceparent = spanOf(a.span.SpanContext()).String()
	return a
}

// endSpans ends the span of an attempt, and that of its fire if no other attempt follows.
func (a *attempt) endSpans(o *rouse.Outcome, last bool) {
	if !a.span.IsRecording() {
		return
	}
	over := true
	set := func(s trace.Span) {
		s.SetAttributes(attribute.String("rouse.verdict", o.Verdict.String()))
		if o.Verdict == rouse.Failed || o.Verdict == rouse.Rejected {
			s.SetStatus(codes.Error, o.Detail)
		}
	}
	switch o.Verdict {
	case rouse.Deferred:
		over = false
	case rouse.Failed:
		over = last
	}
	if o.Code != 0 {
		a.span.SetAttributes(attribute.Int("http.response.status_code", o.Code))
	}
	set(a.span)
	a.span.End()
	if over {
		set(a.fire)
		a.fire.End()
	}
}
