package webhook_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

// TestAddressesHaveBounds: one machine with many names gets a bounded number of requests of a namespace at a
// time, over new connections and idle ones. Further ones wait without an attempt, and those of other
// namespaces, and to other addresses, do not.
func TestAddressesHaveBounds(t *testing.T) {
	const most = 3
	busy := make(chan struct{}, 100)
	release := make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/hang" {
			busy <- struct{}{}
			<-release
		}
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	sink := webhook.New(webhook.Options{AllowPrivate: true, AddressRequests: most,
		Resolver: names(func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })})
	defer sink.Close()
	to := func(namespace, host, path string) rouse.Outcome {
		f := fireTo("http://" + host + ":" + port + path)
		f.Namespace = namespace
		return send(context.WithoutCancel(t.Context()), sink, f)[0]
	}
	if o := to("acme", "idle.test", "/"); o.Verdict != rouse.Done { // it leaves an idle connection
		t.Fatalf("without others: %+v", o)
	}
	ended := make(chan rouse.Outcome, most)
	for i := range most {
		go func() { ended <- to("acme", string(rune('a'+i))+".test", "/hang") }()
		<-busy
	}
	for _, host := range []string{"idle.test", "new.test"} {
		o := to("acme", host, "/")
		if o.Verdict != rouse.Deferred || o.Cause != rouse.CauseBacklog || o.After < time.Second || !strings.Contains(o.Detail, "127.0.0.1") {
			t.Errorf("beyond the bound, to %s: %+v", host, o)
		}
	}
	if o := to("other", "new.test", "/"); o.Verdict != rouse.Done {
		t.Errorf("of another namespace: %+v", o)
	}
	close(release)
	for range most {
		if o := <-ended; o.Verdict != rouse.Done {
			t.Errorf("a request within the bound: %+v", o)
		}
	}
	for _, host := range []string{"idle.test", "new.test"} {
		if o := to("acme", host, "/"); o.Verdict != rouse.Done {
			t.Errorf("when the others have ended, to %s: %+v", host, o)
		}
	}
}
