package trace_test

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/all"
	"github.com/rousehq/rouse/test/servers"
)

// backend receives spans, as an OpenTelemetry collector does.
type backend struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

// collect starts a backend, and sets the environment of nodes for it.
func collect(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	s := httptest.NewServer(http.HandlerFunc(b.receive))
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	return b
}

func (b *backend) receive(w http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in = z
	}
	body, err := io.ReadAll(in)
	var req collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(body, &req)); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "this is no export of traces", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range req.ResourceSpans {
		for _, in := range of.ScopeSpans {
			b.spans = append(b.spans, in.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named returns the spans whose names begin with a text.
func (b *backend) named(prefix string) (list []*otlp.Span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spans {
		if strings.HasPrefix(s.Name, prefix) {
			list = append(list, s)
		}
	}
	return list
}

// wait waits for n spans whose names begin with a text, and returns them.
func (b *backend) wait(t *testing.T, prefix string, n int) []*otlp.Span {
	t.Helper()
	poll.Until(t, "spans "+prefix, func() bool { return len(b.named(prefix)) >= n })
	return b.named(prefix)
}

// serve runs a node with the API, and its keys in a directory, until stop is called.
func serve(t *testing.T, store, data string) (n *node.Node, stop func()) {
	t.Helper()
	n, err := node.Open(t.Context(), store, node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.AllowPrivate, c.Unsafe, c.Data = true, true, data
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- n.Run(context.WithoutCancel(t.Context())) }()
	return n, func() {
		if err := errors.Join(n.Close(), <-ran); err != nil {
			t.Error(err)
		}
	}
}

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent      = "00-" + parentTrace + "-00f067aa0ba902b7-01"
	unsampled   = "00-" + parentTrace + "-00f067aa0ba902b7-00"
)

// target answers requests, and keeps their headers traceparent.
type target struct {
	mu   sync.Mutex
	code int
	got  []string
}

func (h *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, r.Header.Get("Traceparent"))
	w.WriteHeader(h.code)
}

func (h *target) answer(code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.code = code
}

func (h *target) headers() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

// create makes a timer by a call that is a part of a trace.
func create(t *testing.T, n *node.Node, traceparent string, spec rouse.Spec) {
	t.Helper()
	c, err := client.Dial(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), "default", "traced", spec); err != nil {
		t.Fatal(err)
	}
}

// TestAFireIsATraceLinkedToItsCreation: on each kind of store, the span of a create is a child of its
// caller's; after a restart of the node, the fire is another trace with a link to it, and each attempt is a
// span of the fire, which the target gets.
func TestAFireIsATraceLinkedToItsCreation(t *testing.T) {
	for name, url := range map[string]func() string{
		"pebble":   func() string { return "pebble:" + t.TempDir() },
		"sqlite":   func() string { return "sqlite:" + filepath.Join(t.TempDir(), "timers.db") },
		"postgres": func() string { return servers.Postgres(t) },
		"redis":    func() string { return servers.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			spans, store, data := collect(t), url(), t.TempDir()
			h := &target{code: http.StatusServiceUnavailable}
			s := httptest.NewServer(h)
			defer s.Close()
			n, stop := serve(t, store, data)
			create(t, n, parent, rouse.Spec{Schedule: "@after 1s", Target: s.URL, Retry: rouse.Retry{Attempts: 9, Interval: 2 * time.Second, Factor: 1}})
			poll.Until(t, "the first attempt", func() bool { return len(h.headers()) >= 1 })
			made := spans.wait(t, "create timer", 1)[0]
			spans.wait(t, "deliver http", 1)
			stop()
			before := len(h.headers()) // more than one, if the end took longer than the interval of attempts
			h.answer(http.StatusOK)
			_, stop = serve(t, store, data)
			defer stop()
			fire := spans.wait(t, "fire", 1)[0]
			attempts := spans.wait(t, "deliver http", before+1)
			slices.SortFunc(attempts, func(a, b *otlp.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })

			if hex.EncodeToString(made.TraceId) != parentTrace || hex.EncodeToString(made.ParentSpanId) != "00f067aa0ba902b7" || made.Kind != otlp.Span_SPAN_KIND_PRODUCER {
				t.Errorf("the create is %v, and no child of its caller's span", made)
			}
			if string(fire.TraceId) == string(made.TraceId) || len(fire.ParentSpanId) != 0 {
				t.Errorf("the fire is no trace of its own: %v", fire)
			}
			if len(fire.Links) != 1 || string(fire.Links[0].SpanId) != string(made.SpanId) || string(fire.Links[0].TraceId) != string(made.TraceId) {
				t.Errorf("the fire has the links %v, not one to %x", fire.Links, made.SpanId)
			}
			for i, a := range attempts {
				if string(a.TraceId) != string(fire.TraceId) || string(a.ParentSpanId) != string(fire.SpanId) || a.Kind != otlp.Span_SPAN_KIND_CLIENT {
					t.Errorf("the attempt %d is no span of the fire: %v", i+1, a)
				}
				if want := "00-" + hex.EncodeToString(a.TraceId) + "-" + hex.EncodeToString(a.SpanId) + "-01"; h.headers()[i] != want {
					t.Errorf("the target got %q, not %q", h.headers()[i], want)
				}
				if failed := a.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR; failed != (i < before) {
					t.Errorf("attempt %d ended with %v", i+1, a.Status)
				}
			}
		})
	}
}

// TestUnsampledCallersStayUnsampled: neither the create nor the fires are recorded; the target is told so.
func TestUnsampledCallersStayUnsampled(t *testing.T) {
	spans := collect(t)
	h := &target{code: http.StatusOK}
	s := httptest.NewServer(h)
	defer s.Close()
	n, stop := serve(t, "mem:", t.TempDir())
	create(t, n, unsampled, rouse.Spec{Schedule: "@after 1ms", Target: s.URL})
	poll.Until(t, "the fire", func() bool { return len(h.headers()) >= 1 })
	stop()
	if got := h.headers()[0]; len(got) != 55 || !strings.HasSuffix(got, "-00") {
		t.Errorf("the target got %q", got)
	}
	if list := spans.named(""); len(list) != 0 {
		t.Errorf("there are spans: %v", list)
	}
}

// TestSamplersDecide: without a caller's span, the sampler of the environment decides about each fire, and
// about all its attempts alike.
func TestSamplersDecide(t *testing.T) {
	spans := collect(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	h := &target{code: http.StatusOK}
	s := httptest.NewServer(h)
	defer s.Close()
	n, stop := serve(t, "mem:", t.TempDir())
	create(t, n, "", rouse.Spec{Schedule: "@after 1ms", Target: s.URL})
	poll.Until(t, "the fire", func() bool { return len(h.headers()) >= 1 })
	stop()
	if got := h.headers()[0]; !strings.HasSuffix(got, "-00") || len(spans.named("")) != 0 {
		t.Errorf("the target got %q; spans: %v", got, spans.named(""))
	}
}

// TestNoEnvironmentNoTraces: without the variables, targets get no header, and nothing is stored.
func TestNoEnvironmentNoTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	h := &target{code: http.StatusOK}
	s := httptest.NewServer(h)
	defer s.Close()
	n, stop := serve(t, "mem:", t.TempDir())
	defer stop()
	create(t, n, parent, rouse.Spec{Schedule: "@after 1ms", Target: s.URL})
	poll.Until(t, "the fire", func() bool { return len(h.headers()) >= 1 })
	if got := h.headers()[0]; got != "" {
		t.Errorf("the target got %q", got)
	}
}

// TestTheLagHasExemplars: the histogram of the lag names traces of its fires.
func TestTheLagHasExemplars(t *testing.T) {
	spans := collect(t)
	s := httptest.NewServer(&target{code: http.StatusOK})
	defer s.Close()
	n, stop := serve(t, "mem:", t.TempDir())
	defer stop()
	create(t, n, parent, rouse.Spec{Schedule: "@after 1ms", Target: s.URL})
	fire := spans.wait(t, "fire", 1)[0]
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := httptest.NewRecorder()
	n.Metrics().ServeHTTP(w, r)
	if want := `# {trace_id="` + hex.EncodeToString(fire.TraceId) + `"}`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("the metrics lack %s:\n%s", want, w.Body)
	}
}

// TestEnvironmentsThatAreRefused: what cannot be done is an error at the start.
func TestEnvironmentsThatAreRefused(t *testing.T) {
	for name, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"} {
		t.Run(name, func(t *testing.T) {
			collect(t)
			t.Setenv(name, value)
			if _, err := node.Open(t.Context(), "mem:"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
		})
	}
}
