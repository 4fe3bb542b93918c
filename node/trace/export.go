package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rousehq/rouse"
)

// environment has values of the standard variables of OpenTelemetry. The SDK reads the others: headers,
// certificates, timeouts, the sampler, attributes.
type environment struct {
	endpoint, protocol, kind string
	disabled                 bool
}

func fromEnv() environment {
	get := os.Getenv
	return environment{endpoint: cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), get("OTEL_EXPORTER_OTLP_ENDPOINT")),
		protocol: cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), get("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"),
		kind:     cmp.Or(get("OTEL_TRACES_EXPORTER"), "otlp"), disabled: strings.EqualFold(get("OTEL_SDK_DISABLED"), "true")}
}

// isEnabled reports whether there are traces: only if the environment names where to.
func (e environment) isEnabled() bool { return e.endpoint != "" && e.kind != "none" && !e.disabled }

// checkExport refuses exporters and protocols that are not supported.
func (e environment) checkExport() error {
	switch {
	case !e.isEnabled():
	case e.kind != "otlp":
		return rouse.Refuse("OTEL_TRACES_EXPORTER", e.kind, "is not supported", "give otlp or none")
	case e.protocol != "grpc" && e.protocol != "http/protobuf":
		return rouse.Refuse("OTEL_EXPORTER_OTLP_PROTOCOL", e.protocol, "is not supported", "give grpc or http/protobuf")
	}
	return nil
}

func (e environment) newExporter(ctx context.Context) (sdk.SpanExporter, error) {
	var c otlptrace.Client = otlptracehttp.NewClient()
	if e.protocol == "grpc" {
		c = otlptracegrpc.NewClient()
	}
	x, err := otlptrace.New(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("the exporter of OpenTelemetry: %w", err)
	}
	return x, nil
}

// counting counts the spans that an exporter sends.
type counting struct {
	sdk.SpanExporter
	counts
	log *slog.Logger
}

// ExportSpans implements sdk.SpanExporter. It logs each failure: there is one batch in five seconds at most
// while spans fail. The SDK gets no error, which it would print to stderr.
func (c counting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		c.failed.Add(float64(len(spans)))
		c.log.Warn("spans could not be sent, and are lost", "spans", len(spans), "error", err)
		return nil
	}
	c.sent.Add(float64(len(spans)))
	return nil
}

// ended counts spans that ended.
type ended struct{ counts }

// OnStart implements sdk.SpanProcessor.
func (ended) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (e ended) OnEnd(s sdk.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		e.total.Inc()
	}
}

// Shutdown implements sdk.SpanProcessor.
func (ended) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (ended) ForceFlush(context.Context) error { return nil }
