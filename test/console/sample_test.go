package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/rousetest"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// sample is a server on a clock that stands still, with timers of all kinds, behind a proxy that can refuse.
type sample struct {
	*rousetest.Server
	t       *testing.T
	url     string
	target  string       // the name of one that fails
	broken  atomic.Int32 // status that every request of data gets; 0: none
	streams atomic.Int32 // status that every stream gets; 0: none
}

// newEmpty returns a server without timers.
func newEmpty(t *testing.T, opts ...rousetest.Option) *sample {
	t.Helper()
	opts = append([]rousetest.Option{rousetest.Configure(func(c *node.Config) { c.AuditLog = node.Names{"store"} })}, opts...)
	w := &sample{Server: rousetest.NewServer(t, opts...), t: t}
	to, _ := url.Parse("http://" + w.Address)
	proxy := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status := int(w.broken.Load()); status != 0 && strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != "/v1/session" {
			rw.Header().Set("Content-Type", "application/problem+json")
			rw.WriteHeader(status)
			fmt.Fprintf(rw, `{"title": "Refused by the test", "status": %d, "code": "test", "detail": "because <b>it</b> wants to"}`, status)
			return
		}
		if status := int(w.streams.Load()); status != 0 && strings.HasSuffix(r.URL.Path, ":follow") {
			rw.WriteHeader(status)
			return
		}
		_ = http.NewResponseController(rw).EnableFullDuplex() // or it may end an answer that begins before it has read the end of the request
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	w.url = front.URL
	return w
}

// hostile are names that would do harm, or break a line, if they were not shown as text.
var hostile = []string{
	`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, "تقرير-الفواتير", "javascript:alert(1)", "a/b/c?d=e#f%41",
	strings.Repeat("w", 256), strings.Repeat("name ", 51) + "x", "=HYPERLINK(1)", "it's a \"quote\"", "😀 timer",
}

// newSample returns a server with something of everything.
func newSample(t *testing.T) *sample {
	t.Helper()
	w := newEmpty(t, rousetest.At(time.Date(2027, 3, 25, 6, 30, 0, 0, time.UTC)))
	fail := rouse.Retry{Attempts: 3, Interval: 20 * time.Second, Jitter: -1}
	bad := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text := "connection refused by the database"
		if r.URL.Path == "/" || r.URL.Path == "" { // of the hostile timers
			text = `"><img src=x onerror=alert(1)> تعذر الاتصال ` + strings.Repeat("very long ", 30)
		}
		http.Error(rw, text, http.StatusServiceUnavailable)
	}))
	t.Cleanup(bad.Close)
	w.target = bad.URL
	w.Receiver.Script(receiver.Status(503), receiver.Status(200), receiver.Status(503))
	team := func(s string) map[string]string { return map[string]string{"team": s} }
	if _, err := w.Client.Limits().Put(t.Context(), rouse.Limit{Name: "payments", Concurrency: 10, PerKey: true,
		Rate: rouse.LimitRate{Count: 100, Per: time.Minute, Burst: 20}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.Namespaces().PutNotify(t.Context(), rousetest.Namespace, []rouse.NotifyRule{
		{Labels: team("billing"), Notify: rouse.Notify{Target: w.Receiver.URL() + "/billing", Events: []string{"dead", "missed"}, Format: "slack"}},
		{Notify: rouse.Notify{Target: w.Receiver.URL() + "/pager", After: 3, Every: time.Hour}}}, 0); err != nil {
		t.Fatal(err)
	}
	w.Create("payroll", rouse.Spec{Schedule: "0 9 25 * *", Timezone: "Europe/Stockholm", Target: w.Receiver.URL(), Payload: []byte(`{"run": "monthly", "to": ["a", "b"]}`), ContentType: "application/json", Labels: team("billing"), Retry: fail, Limit: "payments", LimitKey: "acme"})
	w.Create("nightly-report", rouse.Spec{Schedule: "30 2 * * *", Timezone: "Europe/Stockholm", Target: w.Receiver.URL(), Labels: team("reports")})
	w.Create("heartbeat", rouse.Spec{Schedule: "@every 15m", Target: w.Receiver.URL(), Retry: fail})
	w.Create("sync-crm", rouse.Spec{Schedule: "*/30 * * * *", Target: bad.URL + "/sync", Labels: team("sales"), Retry: fail})
	w.Create("paused-export", rouse.Spec{Schedule: "0 * * * *", Target: w.Receiver.URL(), Labels: team("reports")})
	w.Create("large", rouse.Spec{Schedule: "@every 6h", Target: w.Receiver.URL(), Payload: []byte(`"` + strings.Repeat("0123456789", 25000) + `"`), ContentType: "application/json"})
	for i := range 18 {
		w.Create(fmt.Sprintf("invoice-%02d", i+1), rouse.Spec{Schedule: fmt.Sprintf("%d %d * * MON-FRI", i*3, 7+i%5), Timezone: "Europe/Stockholm", Target: w.Receiver.URL(), Labels: team("billing")})
	}
	if _, err := w.Client.Pause(t.Context(), rousetest.Namespace, "paused-export", "the warehouse is moving"); err != nil {
		t.Fatal(err)
	}
	for _, name := range hostile {
		if _, err := w.Client.Create(t.Context(), "hostile", name, rouse.Spec{Schedule: "@every 2h", Target: bad.URL, Retry: rouse.Retry{Attempts: 1}, Labels: map[string]string{"x": "<b>"}}); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	}
	w.Advance(4*time.Hour + 2*time.Minute + 11*time.Second)
	return w
}

// paths are the views with something in them.
func (w *sample) paths() []string {
	return []string{"/", "/upcoming", "/load", "/timers", "/timers?state=paused", "/timers/default/payroll", "/timers/default/heartbeat", "/timers/default/sync-crm", "/timers/default/gone",
		"/fires?ns=default", "/missed?ns=default", "/dead", "/jobs", "/targets", "/targets?target=" + url.QueryEscape(w.target), "/lab?schedule=30+2+*+*+*&timezone=Europe%2FStockholm", "/calendars", "/limits", "/notices", "/cluster?timer=payroll", "/doctor", "/pools", "/namespaces", "/access", "/audit", "/nothing"}
}
