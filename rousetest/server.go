// Package rousetest tests programs that use rouse: it runs a complete server in the test's process, on a
// clock that stands still until the test moves it.
//
//	s := rousetest.NewServer(t)
//	s.Handle("greet", func(ctx context.Context, f rouse.Fire) error { … })
//	s.Create("daily", rouse.Spec{Schedule: "0 9 * * *", Target: "func:greet"})
//	s.Advance(30 * 24 * time.Hour) // takes milliseconds
//	s.WantFired("daily", rousetest.Times("2027-01-01T09:00:00Z", …)...)
//
// Advance moves the clock from due time to due time, so each timer fires at its own time. It waits for each
// fire: for functions, for callbacks and their responses, and for retries. No test needs to sleep.
//
// Package receiver is an HTTP receiver with configured responses; package history records the observations of
// clients and receivers, and checks them.
package rousetest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api" // the client of a server uses it
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/function"
	"github.com/rousehq/rouse/sink/webhook"
	_ "github.com/rousehq/rouse/store/sqlite" // of OnSQLite
)

// Begin is when the clock of a Server begins, unless At is used: a Friday.
var Begin = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// Namespace is the one that the methods of a Server mean.
const Namespace = "default"

// Option changes the server that NewServer makes.
type Option func(*options)

type options struct {
	begin     time.Time
	store     func(dir string) string
	patience  time.Duration
	receiver  receiver.Options
	configure []node.Option
}

// At makes the clock begin at a time.
func At(begin time.Time) Option { return func(o *options) { o.begin = begin } }

// OnPebble keeps the timers in a Pebble store in a directory of the test.
func OnPebble() Option {
	return func(o *options) {
		o.store = func(dir string) string { return "pebble:" + filepath.Join(dir, "pebble") }
	}
}

// OnSQLite keeps the timers in a SQLite store in a directory of the test.
func OnSQLite() Option {
	return func(o *options) {
		o.store = func(dir string) string { return "sqlite:" + filepath.Join(dir, "timers.db") }
	}
}

// Patience bounds, in real time, how long Advance and Jump wait for the fires; default 1 min.
func Patience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithReceiver sets the options of the Receiver. Its secrets are set.
func WithReceiver(r receiver.Options) Option { return func(o *options) { o.receiver = r } }

// Configure changes the node's configuration.
func Configure(change func(c *node.Config)) Option {
	return func(o *options) { o.configure = append(o.configure, change) }
}

// Server is a rouse in the test's process. Its methods fail the test when something goes wrong; those that do
// not change anything may be called from any goroutine, the others from the test's.
type Server struct {
	// Node is the server's node, for calls that the methods of Server do not offer.
	Node *node.Node
	// Client speaks to its API, at Address, over loopback.
	Client  *client.Client
	Address string
	// Receiver takes callbacks to its URL, verifies their signatures, and answers 200 unless configured
	// otherwise.
	Receiver *receiver.Receiver

	t     testing.TB
	opts  options
	clock *node.Clock
}

// NewServer returns a server that runs until the test ends, with its timers in memory. A function, or a
// callback to the Receiver, that hangs delays the end of the test by a second.
func NewServer(t testing.TB, opts ...Option) *Server {
	t.Helper()
	o := options{begin: Begin, patience: time.Minute, store: func(string) string { return "mem:" }}
	for _, set := range opts {
		set(&o)
	}
	s := &Server{t: t, opts: o, clock: node.NewStillClock(o.begin)}
	dir, secret := t.TempDir(), webhook.NewSecret()
	secretFile := filepath.Join(dir, "webhook.secret")
	s.failOnError("write a secret", os.WriteFile(secretFile, []byte(secret+"\n"), 0o600))
	o.receiver.Secrets = []string{secret}
	s.Receiver = receiver.New(o.receiver)
	t.Cleanup(s.Receiver.Close)

	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := append([]node.Option{node.WithAPI("127.0.0.1:0"), node.WithSecrets(secretFile), node.WithLog(log),
		node.WithClock(s.clock), configureForTest}, o.configure...)
	n, err := node.Open(t.Context(), o.store(dir), config...)
	s.failOnError("open a node", err)
	s.Node, s.Address = n, n.Addr()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		_ = n.Close() // ends Run, which returns its error
		if err := <-ended; err != nil {
			t.Errorf("rousetest: the server ended: %v", err)
		}
	})
	s.Client, err = client.Dial(s.Address, client.Options{Patience: time.Second})
	s.failOnError("make a client", err)
	t.Cleanup(func() { _ = s.Client.Close() })
	s.waitUntilReady()
	return s
}

// configureForTest makes a node keep its history for as long as a test may look back, and catch up as fast as
// it can.
func configureForTest(c *node.Config) {
	c.AllowPrivate = true // the receiver is on loopback
	c.Grace = time.Second
	c.HistoryAge, c.HistoryPerTimer, c.DeadAge = 10*365*24*time.Hour, 0, 0
	c.CatchUpRate = 0
}

// waitUntilReady waits until the server runs: its API answers once it does.
func (s *Server) waitUntilReady() {
	s.t.Helper()
	_, err := s.Client.Count(s.t.Context(), rouse.Query{Namespace: Namespace})
	s.failOnError("reach the server", err)
}

func (s *Server) failOnError(what string, err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("rousetest: %s: %v", what, err)
	}
}

// Handle registers a function for the target "func:NAME".
func (s *Server) Handle(name string, fn function.Handler, opts ...function.Option) {
	s.t.Helper()
	s.failOnError("handle "+name, s.Node.Handle(name, fn, opts...))
}

// Create makes a timer.
func (s *Server) Create(name string, spec rouse.Spec) rouse.Timer {
	s.t.Helper()
	t, err := s.Node.Create(s.t.Context(), name, spec)
	s.failOnError("create "+name, err)
	return t
}

// Now returns the time of the server's clock.
func (s *Server) Now() time.Time { return s.clock.Now() }

// Advance moves the clock on, from due time to due time, and returns when everything that came due has ended.
// It returns how many fires were taken by their targets. What waits for a limit that is paused goes on to.
func (s *Server) Advance(d time.Duration) (fired uint64) {
	s.t.Helper()
	return s.moveTestClock(rouse.At(s.Now()).Add(d), false)
}

// AdvanceTo is Advance to a time.
func (s *Server) AdvanceTo(to time.Time) (fired uint64) {
	s.t.Helper()
	return s.moveTestClock(rouse.At(to), false)
}

// Jump moves the clock on at once, as if the server had been down for so long: occurrences that came due
// during that time are noticed late, and the misfire policies of timers decide. It returns when all of that
// has ended.
func (s *Server) Jump(d time.Duration) (fired uint64) {
	s.t.Helper()
	return s.moveTestClock(rouse.At(s.Now()).Add(d), true)
}

func (s *Server) moveTestClock(to rouse.Instant, jump bool) uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.opts.patience)
	defer cancel()
	fired, err := s.Node.Advance(ctx, to, jump)
	s.failOnError("move the clock", err)
	return fired
}
