//go:build unix

package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// talk is a connection to Redis for requests and answers of one line.
type talk struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, addr string) *talk {
	t.Helper()
	conn, err := net.DialTimeout("tcp4", addr, plenty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // may be closed
	return &talk{conn: conn, r: bufio.NewReader(conn)}
}

// ask sends a request and returns its answer, or an error after a timeout.
func (k *talk) ask(request string, within time.Duration) (string, error) {
	if err := k.conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(k.conn, "%s\r\n", request); err != nil {
		return "", err
	}
	line, err := k.r.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (k *talk) must(t *testing.T, request, want string) {
	t.Helper()
	if got, err := k.ask(request, plenty); err != nil || got != want {
		t.Fatalf("%s is answered by %q: %v; want %q", request, got, err, want)
	}
}

// silent checks that a request gets no answer and its connection stays open.
func (k *talk) silent(t *testing.T, request string) {
	t.Helper()
	if got, err := k.ask(request, brief); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s is answered by %q: %v; want no answer and an open connection", request, got, err)
	}
}

// behind starts a Redis, a proxy in front of it, and a connection that bypasses the proxy.
func behind(t *testing.T) (*Proxy, *talk) {
	t.Helper()
	s := StartRedis(t)
	p := NewProxy(t, s.Addr())
	if want := "redis://" + p.Addr() + "/0"; p.URL(s.URL()) != want {
		t.Errorf("the URL through the proxy is %s, want %s", p.URL(s.URL()), want)
	}
	return p, dial(t, s.Addr())
}

func (k *talk) await(t *testing.T, request, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plenty)
	defer cancel()
	err := pollUntilNil(ctx, func(context.Context) error {
		if got, err := k.ask(request, plenty); err != nil || got != want {
			return fmt.Errorf("%s is answered by %q: %v; want %q", request, got, err, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hasClient reports whether the server has a connection with a name.
func (k *talk) hasClient(t *testing.T, name string) bool {
	t.Helper()
	list, err := redisCall(t.Context(), k.conn.RemoteAddr().String(), "CLIENT", "LIST").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(list, "name="+name+" ")
}

func (k *talk) awaitGone(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plenty)
	defer cancel()
	err := pollUntilNil(ctx, func(context.Context) error {
		if k.hasClient(t, name) {
			return fmt.Errorf("the server still has its client %q", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProxyAnswersLost(t *testing.T) {
	t.Parallel()
	p, direct := behind(t)
	k := dial(t, p.Addr())
	k.must(t, "INCR n", ":1")
	p.CutToClient()
	k.silent(t, "INCR n")
	direct.await(t, "INCRBY n 0", ":2") // it was done

	p.Heal()
	if got, err := k.ask("PING", plenty); err == nil {
		t.Errorf("%q comes after an answer that has vanished", got)
	}
	dial(t, p.Addr()).must(t, "INCR n", ":3")
}

func TestProxyRequestsLost(t *testing.T) {
	t.Parallel()
	p, direct := behind(t)
	k := dial(t, p.Addr())
	k.must(t, "CLIENT SETNAME through", "+OK")
	p.CutToServer()
	k.silent(t, "INCR n")
	direct.must(t, "EXISTS n", ":0") // it was not done
	if err := k.conn.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(brief) // for nothing to happen
	if !direct.hasClient(t, "through") {
		t.Error("the server has heard that its client is gone")
	}
	p.Heal()
	direct.awaitGone(t, "through")
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	p, direct := behind(t)
	lost, quiet := dial(t, p.Addr()), dial(t, p.Addr())
	lost.must(t, "PING", "+PONG")
	quiet.must(t, "PING", "+PONG")
	p.CutToServer()
	p.CutToClient()
	lost.silent(t, "INCR n")
	dial(t, p.Addr()).silent(t, "INCR n") // new connections hang as well
	direct.must(t, "EXISTS n", ":0")
	p.Heal()
	quiet.must(t, "INCR n", ":1") // had nothing to lose
	if _, err := lost.ask("INCR n", plenty); err == nil {
		t.Error("a connection goes on that has lost a request")
	}
}

func TestProxyDelay(t *testing.T) {
	t.Parallel()
	p, _ := behind(t)
	k := dial(t, p.Addr())
	const d = 100 * time.Millisecond
	p.Delay(d)
	begin := time.Now()
	k.must(t, "PING", "+PONG")
	if took := time.Since(begin); took < 2*d {
		t.Errorf("an answer takes %v, want %v each way", took, d)
	}
	begin = time.Now()
	const n = 50
	for range n { // all are under way at once
		if _, err := io.WriteString(k.conn, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		if line, err := k.r.ReadString('\n'); err != nil || line != "+PONG\r\n" {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if took := time.Since(begin); took > n*d {
		t.Errorf("%d requests take %v: they wait for each other", n, took)
	}
	p.Delay(time.Hour)
	k.silent(t, "INCR n")
	p.Heal()
	if line, err := k.readLine(); err != nil || line != ":1" { // late, not lost
		t.Errorf("after the delay comes %q: %v", line, err)
	}
}

func (k *talk) readLine() (string, error) {
	if err := k.conn.SetDeadline(time.Now().Add(plenty)); err != nil {
		return "", err
	}
	line, err := k.r.ReadString('\n')
	return strings.TrimSpace(line), err
}

func TestProxyResetAndRefuse(t *testing.T) {
	t.Parallel()
	p, direct := behind(t)
	k := dial(t, p.Addr())
	k.must(t, "PING", "+PONG")
	held, err := p.l.(*net.TCPListener).File() // as a process that is being started has it
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	p.Refuse(true)
	if conn, err := net.DialTimeout("tcp4", p.Addr(), plenty); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = conn.Close()
		}
		t.Errorf("a connection that is refused: %v", err)
	}
	k.must(t, "PING", "+PONG")
	p.Reset()
	if _, err := k.readLine(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that is reset: %v", err)
	}
	p.Refuse(false)
	k = dial(t, p.Addr())
	k.must(t, "CLIENT SETNAME through", "+OK")
	if err := k.conn.Close(); err != nil { // regularly: the server notices
		t.Fatal(err)
	}
	direct.awaitGone(t, "through")
}

// TestProxyOfNothing: through the proxy, a server that is down looks down.
func TestProxyOfNothing(t *testing.T) {
	t.Parallel()
	s := StartRedis(t)
	p := NewProxy(t, s.Addr())
	k := dial(t, p.Addr())
	k.must(t, "PING", "+PONG")
	s.Kill()
	if _, err := k.readLine(); err == nil {
		t.Error("a connection outlives its server")
	}
	conn, err := net.DialTimeout("tcp4", p.Addr(), plenty)
	if err == nil { // the reset may come while it is being made, or later
		_, err = (&talk{conn: conn, r: bufio.NewReader(conn)}).readLine()
		_ = conn.Close() // reset already
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a server that is down: %v", err)
	}
	p.CutToClient()
	k = dial(t, p.Addr())
	k.silent(t, "PING") // in a black hole, its end does not show either
	s.Start()
	p.Heal()
	if got, err := k.ask("PING", plenty); err == nil {
		t.Errorf("%q comes from a server that was never reached", got)
	}
	dial(t, p.Addr()).must(t, "PING", "+PONG")
}
