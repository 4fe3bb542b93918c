package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/sink/webhook"
)

// accept serves each connection to a listener by a function until the test ends, and returns the address as a
// target.
func accept(t *testing.T, serve func(c net.Conn)) (target string, connections func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			serving.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return "http://" + l.Addr().String() + "/", func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
}

// readRequest reads a request and its body.
func readRequest(in *bufio.Reader) bool {
	q, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, q.Body)
	return err == nil
}

const answered = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func done(t *testing.T, o rouse.Outcome) {
	t.Helper()
	if o.Verdict != rouse.Done {
		t.Errorf("%+v", o)
	}
}

// If a receiver breaks a connection between two requests, the second request does not fail: it gets another
// connection.
func TestConnectionsThatCannotBeReused(t *testing.T) {
	for name, answer := range map[string]string{
		"closed without a word": answered,
		"closed as announced":   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"of HTTP/1.0":           "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"a second answer":       answered + "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
		"a body behind none":    "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 410 Gone\r\n\r\n",
		"too long a body":       "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
		"switched protocols":    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 2)
			target, connections := accept(t, func(c net.Conn) {
				if readRequest(bufio.NewReader(c)) {
					_, _ = io.WriteString(c, answer)
				}
				if name == "closed without a word" {
					_ = c.Close()
				}
				ended <- struct{}{}
			})
			s := webhook.New(webhook.Options{AllowPrivate: true})
			defer s.Close()
			for range 2 {
				want := rouse.Done
				if strings.Contains(answer, "101") {
					want = rouse.Failed
				}
				if o := send(t.Context(), s, fireTo(target))[0]; o.Verdict != want {
					t.Errorf("%+v", o)
				}
				<-ended
			}
			if n := connections(); n != 2 {
				t.Errorf("%d connections were made, want 2", n)
			}
		})
	}
}

// A receiver may answer a long request before it has read it.
func TestAnswerToHalfARequest(t *testing.T) {
	target, _ := accept(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	f := fireTo(target)
	f.Spec.Payload = bytes.Repeat([]byte("x"), 32<<20) // more than the kernel takes
	if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Rejected || o.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", o)
	}
}

// A long request that the receiver does not read ends with its timeout, or with the server.
func TestRequestThatIsNotRead(t *testing.T) {
	target, _ := accept(t, func(net.Conn) {})
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	f := fireTo(target)
	f.Spec.Payload = bytes.Repeat([]byte("x"), 32<<20)
	f.Spec.Retry.Timeout = 200 * time.Millisecond
	if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Failed || o.Detail != "no answer within 200ms" {
		t.Errorf("%+v", o)
	}
	f.Spec.Retry.Timeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if o := send(ctx, s, f)[0]; o.Verdict != rouse.Deferred {
		t.Errorf("%+v", o)
	}
}

// Idle connections are bounded, of each host and of all, and end.
func TestIdleConnections(t *testing.T) {
	serve := func(c net.Conn) {
		for in := bufio.NewReader(c); readRequest(in); {
			_, _ = io.WriteString(c, answered)
		}
	}
	together := func(s *webhook.Sink, target string, n int) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() { done(t, send(t.Context(), s, fireTo(target))[0]) })
		}
		all.Wait()
	}
	one, _ := accept(t, serve)
	other, _ := accept(t, serve)
	s := webhook.New(webhook.Options{AllowPrivate: true, HostConcurrency: 2, MaxIdle: 3})
	defer s.Close()
	together(s, one, 8)
	if n := s.Idle(); n < 1 || n > 2 {
		t.Errorf("%d idle connections to one host, want at most 2", n)
	}
	together(s, other, 8)
	if n := s.Idle(); n < 2 || n > 3 {
		t.Errorf("%d idle connections, want at most 3", n)
	}

	short := webhook.New(webhook.Options{AllowPrivate: true, IdleTimeout: 20 * time.Millisecond})
	defer short.Close()
	done(t, send(t.Context(), short, fireTo(one))[0])
	poll.Until(t, "an idle connection ends", func() bool { return short.Idle() == 0 })
}

// A row that was stored without Check can neither add headers nor end a request.
func TestHeadersCannotBeInjected(t *testing.T) {
	target, connections := accept(t, func(net.Conn) {})
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	for _, change := range []func(f *rouse.Fire){
		func(f *rouse.Fire) { f.Spec.ContentType = "text/plain\r\nX: y" },
		func(f *rouse.Fire) { f.Spec.Webhook.Headers = map[string]string{"X-A": "a\r\n\r\nGET / HTTP/1.1"} },
		func(f *rouse.Fire) { f.Spec.Webhook.Headers = map[string]string{"X-A: b\r\nX-B": "a"} },
		func(f *rouse.Fire) { f.Spec.Target += "x HTTP/1.1\r\nX-A: b" },
		func(f *rouse.Fire) { f.Namespace = "a\r\nX: y" },
	} {
		f := fireTo(target)
		change(&f)
		if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Rejected || o.Code != 0 || !strings.HasPrefix(o.Detail, "not sent: ") {
			t.Errorf("%+v", o)
		}
	}
	if n := connections(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
