//go:build unix

// Package servers starts the real servers that tests use: PostgreSQL, Redis, RabbitMQ, NATS and related ones.
// It is for tests only.
//
// Every server is private to its test or to the test binary: it listens on a free port of 127.0.0.1, keeps
// its data in its own directory, and ignores the machine's configuration. It is a child of the test binary
// and ends with it for whatever reason; a small process that briefly outlives the test binary removes
// remaining directories.
//
// There are two kinds of functions. Postgres, Redis, RabbitMQ, NATS and PgBouncer return the URL of something
// fresh and empty, and are fast: where starting is slow, they share one server in the test binary.
// StartPostgres, StartRedis and the like return a Server that can be killed, stopped, paused and started
// again. A Proxy in front of either simulates a bad network.
//
// A server that is not installed fails the test with instructions. With ROUSE_SERVERS=optional in the
// environment, the test is skipped instead.
package servers

import (
	"context"
	"strings"
	"testing"
	"time"
)

// patience is the timeout for starting or stopping a server, on a busy machine.
const patience = 3 * time.Minute

// Server is one server that a test can stop or disturb. Its methods may be called from any goroutine, one at
// a time. They report errors as errors of the test.
type Server struct {
	t    testing.TB
	p    *process
	url  string
	addr string
	eval func(expression string) error // of a RabbitMQ
}

// newServer returns a running process as a Server of a test. It ends with the test.
func newServer(t testing.TB, p *process, url, addr string) *Server {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", p.name, p.serverLogTail())
		}
		if err := p.closeAndRemove(); err != nil {
			t.Error(err)
		}
	})
	return &Server{t: t, p: p, url: url, addr: addr}
}

// URL returns the address for clients. It stays the same when the server is started again.
func (s *Server) URL() string { return s.url }

// Addr is the host and port of URL.
func (s *Server) Addr() string { return s.addr }

// Eval makes a RabbitMQ evaluate an Erlang expression, which must return ok.
func (s *Server) Eval(expression string) {
	s.t.Helper()
	s.reportTestError(s.eval(expression))
}

// SyncDefinitions makes a RabbitMQ write the queues, exchanges and bindings that it has acknowledged into
// Mnesia's tables. They are in its log before that, and a queue of a broker that was killed under load was
// gone after it.
func (s *Server) SyncDefinitions() {
	s.t.Helper()
	s.Eval(`case mnesia:system_info(is_running) of yes -> dumped = mnesia:dump_log(), ok; no -> ok end`)
}

// Dir is the server's directory, its log in it. It is removed when the test ends.
func (s *Server) Dir() string { return s.p.dir }

// Pid returns the process id of the server's first process, 0 if it does not run.
func (s *Server) Pid() int { return s.p.processID() }

// Kill ends the server and all its processes by SIGKILL, and returns when they have ended.
func (s *Server) Kill() {
	s.t.Helper()
	s.reportTestError(s.p.killServer())
}

// Stop requests a regular shutdown, and returns when the server has ended. It does not wait for clients.
func (s *Server) Stop() {
	s.t.Helper()
	s.reportTestError(s.p.stopServer())
}

// Start starts the server again, on its port and with its data, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.reportTestError(s.p.startAndWait())
}

// Pause stops the server and all its processes by SIGSTOP, and returns when they are stopped. To clients it
// looks like a machine that hangs: the kernel accepts connections, and there are no answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.reportTestError(s.p.pauseServer())
}

// Resume continues a paused server.
func (s *Server) Resume() {
	s.t.Helper()
	s.reportTestError(s.p.resumeServer())
}

func (s *Server) reportTestError(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// pollUntilNil calls f until it returns nil, and returns its last error when ctx ends.
func pollUntilNil(ctx context.Context, f func(context.Context) error) error {
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

// parseSettings reads settings of the form name=value.
func parseSettings(t testing.TB, settings []string) [][2]string {
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
