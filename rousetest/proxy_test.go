package rousetest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest"
)

// TestASubscriptionThroughAProxyEnds: a proxy of Go's library passes on the end of a stream only when the
// client has closed its side, which must not take the time that handlers have.
func TestASubscriptionThroughAProxyEnds(t *testing.T) {
	s := rousetest.NewServer(t)
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	to := &url.URL{Scheme: "http", Host: s.Address}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{Protocols: two}, FlushInterval: -1})
	proxy.Config.Protocols = two
	proxy.Start()
	defer proxy.Close()
	c, err := client.Dial(proxy.Listener.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fired, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- c.Subscribe(ctx, client.SubscribeOptions{Channel: "x", Drain: time.Hour}, func(context.Context, client.Fire) error {
			fired <- struct{}{}
			return nil
		})
	}()
	s.Create("a", rouse.Spec{Schedule: "@after 1s", Target: "stream:x"})
	for waiting := true; waiting; { // a fire that comes before its subscriber waits by the clock of the server
		s.Advance(time.Second)
		select {
		case <-fired:
			waiting = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the subscription has not ended")
	}
}
