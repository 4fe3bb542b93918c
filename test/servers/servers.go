//go:build unix

// Package servers starts the real servers that tests use: PostgreSQL, Redis, RabbitMQ, NATS and what stands around them. It is
// for tests only.
//
// Every server is private to its test or to the test binary: it listens on a port of 127.0.0.1 that was free, keeps its data
// in a directory of its own, and reads no configuration of the machine. It is a child of the test binary and dies with it,
// whatever ends the test binary; directories that are left then are removed by a small process that outlives it by an instant.
//
// There are two kinds of functions. Postgres, Redis, RabbitMQ, NATS and PgBouncer give the URL of something fresh and empty, and
// are quick to call: where starting is slow they share one server in the test binary. StartPostgres, StartRedis and their like
// give a Server to be killed, stopped, paused and started again. A Proxy stands in front of either and makes a bad network.
//
// A server that is not installed fails the test and says what to do. With ROUSE_SERVERS=optional in the environment, the test
// is skipped instead.
package servers

import (
	"context"
	"strings"
	"testing"
	"time"
)

// patience is how long a server may take to start or to stop, on a machine that has much else to do.
const patience = 60 * time.Second

// Server is one server that a test may treat badly. Its methods may be called from any goroutine, one at a time. What they
// cannot do they report as an error of the test.
type Server struct {
	t    testing.TB
	p    *process
	url  string
	addr string
}

// newServer gives a process that runs to a test. It ends with the test.
func newServer(t testing.TB, p *process, url, addr string) *Server {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last that %s said:\n%s", p.name, p.tail())
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return &Server{t: t, p: p, url: url, addr: addr}
}

// URL is what clients connect to. It stays the same when the server is started again.
func (s *Server) URL() string { return s.url }

// Addr is the host and port of URL.
func (s *Server) Addr() string { return s.addr }

// Dir is the server's directory, its log in it. It is removed when the test ends.
func (s *Server) Dir() string { return s.p.dir }

// Pid is the process id of the server's first process, 0 if it does not run.
func (s *Server) Pid() int { return s.p.id() }

// Kill ends the server and every process that it has started by SIGKILL, and returns when they are gone.
func (s *Server) Kill() {
	s.t.Helper()
	s.must(s.p.kill())
}

// Stop asks the server to end in good order, and returns when it is gone. Clients are not waited for.
func (s *Server) Stop() {
	s.t.Helper()
	s.must(s.p.stop())
}

// Start starts the server again, on its port and with its data, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.must(s.p.start())
}

// Pause stops the server and every process that it has started by SIGSTOP, and returns when they stand still. To its clients
// it looks like a machine that hangs: connections are accepted by the kernel, and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.must(s.p.pause())
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.must(s.p.resume())
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// poll calls f until it returns nil, and gives its last error if that takes longer than ctx lasts.
func poll(ctx context.Context, f func(context.Context) error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// pairs reads settings of the form name=value.
func pairs(t testing.TB, settings []string) [][2]string {
	t.Helper()
	var list [][2]string
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			t.Fatalf("setting %q: want name=value", s)
		}
		list = append(list, [2]string{name, value})
	}
	return list
}
