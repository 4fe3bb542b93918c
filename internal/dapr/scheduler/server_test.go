package scheduler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/mem"
)

// Connections beyond the limit are closed at once, counted and logged, and the open ones continue.
func TestMoreConnectionsThanMayBe(t *testing.T) {
	var log bytes.Buffer
	h := open(t, mem.New(), func(o *Options) { o.MaxConns, o.Log = 3, slog.New(slog.NewTextHandler(&log, nil)) })
	h.put(app("a"), "x", due("1h")) // over one connection
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		return conn
	}
	dial()
	dial()
	for h.server.Counts().Conns < 3 {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		conn := dial()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection beyond the limit: %v", err)
		}
	}
	poll.Until(t, "both are counted, which is when they are closed", func() bool { return h.server.Counts().RefusedConns >= 2 })
	if c := h.server.Counts(); c.Conns != 3 || c.RefusedConns != 2 {
		t.Errorf("%d connections are open, %d were refused", c.Conns, c.RefusedConns)
	}
	h.put(app("a"), "y", due("1h"))
	for _, conn := range open {
		conn.Close()
	}
	for h.server.Counts().Conns > 1 {
		time.Sleep(time.Millisecond)
	}
	h.stop()
	if text := log.String(); strings.Count(text, "dapr-connections") != 1 || !strings.Contains(text, "most=3") {
		t.Errorf("logged: %s", text)
	}
}

// A server whose context has already ended stops without an error, whether or not it has started to serve.
func TestServerThatEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := New(Options{Timers: kept{}, Watch: watch.New(watch.Options{})}).Run(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
}
