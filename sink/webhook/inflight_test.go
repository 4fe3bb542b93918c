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

// TestACrowdedAddressIsWaitedFor: also if the other address of the host cannot be reached, or must not be:
// the error of the first address does not decide for both.
func TestACrowdedAddressIsWaitedFor(t *testing.T) {
	busy, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			busy <- struct{}{}
			<-release
		}
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for what, first := range map[string]string{"forbidden": "169.254.169.254", "refused": "127.0.0.2"} {
		addresses := []netip.Addr{netip.MustParseAddr(first), netip.MustParseAddr("127.0.0.1")}
		sink := webhook.New(webhook.Options{AllowPrivate: true, AddressRequests: 1, Resolver: names(func() []netip.Addr { return addresses })})
		ended := make(chan rouse.Outcome, 1)
		go func() {
			ended <- send(context.WithoutCancel(t.Context()), sink, fireTo("http://127.0.0.1:"+port+"/hang"))[0]
		}()
		<-busy
		o := send(t.Context(), sink, fireTo("http://two.test:"+port+"/"))[0]
		if o.Verdict != rouse.Deferred || o.Cause != rouse.CauseBacklog {
			t.Errorf("one address %s, the other crowded: %+v", what, o)
		}
		release <- struct{}{}
		if o := <-ended; o.Verdict != rouse.Done {
			t.Errorf("the request that was there: %+v", o)
		}
		sink.Close()
	}
}
