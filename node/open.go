package node

import (
	"context"
	"log/slog"
	"maps"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/function"
)

// Option changes the configuration of a node that Open makes, which begins as Defaults. Any function on a
// Config is one.
type Option func(c *Config)

// WithAPI serves the API, gRPC and HTTP, on an address such as "127.0.0.1:7411" while the node runs. The
// program imports package node/api for it. An address that is not on loopback can be reached by other
// machines, and clients are not authenticated: it needs Config.Insecure.
func WithAPI(address string) Option { return func(c *Config) { c.Listen = address } }

// WithSink delivers timers whose targets begin with a scheme, as in "sms:+4670…", to a sink of the program's
// own: see package sink, and sink/sinktest for the contract. All programs that share a store have to have it.
func WithSink(scheme string, s rouse.Sink) Option {
	return func(c *Config) {
		c.Sinks = maps.Clone(c.Sinks)
		if c.Sinks == nil {
			c.Sinks = map[string]rouse.Sink{}
		}
		c.Sinks[scheme] = s
	}
}

// WithStore keeps timers in a store that the program has opened, or made, itself: see store/storetest for the
// contract. Open is then given no URL. The node closes it.
func WithStore(s rouse.Store) Option { return func(c *Config) { c.Given = s } }

// WithLog logs to l.
func WithLog(l *slog.Logger) Option { return func(c *Config) { c.Log = l } }

// WithNamespace makes another namespace than "default" that of the node's methods.
func WithNamespace(name string) Option { return func(c *Config) { c.Namespace = name } }

// WithSecrets signs callbacks with the secrets of a file, one a line, the newest first. A file that does not
// exist is made, with a new secret.
func WithSecrets(file string) Option { return func(c *Config) { c.SecretFile = file } }

// WithSecretKeys seals secrets and signing keys with keys from "file:PATH", "env:NAME" or "exec:COMMAND", as
// the setting secret-keys does. A store that other programs have sealed needs theirs; NewSecretKey makes one.
// Without it a program with a data directory has its own key there.
func WithSecretKeys(source string) Option { return func(c *Config) { c.SecretKeys = source } }

// WithClock makes the node use a clock that Advance moves.
func WithClock(clock *Clock) Option { return func(c *Config) { c.Clock = clock } }

// WithAcceptLoss opens a store of files that has lost something that it had acknowledged, without the lost
// part. Without it such a store is refused with rouse.ErrCorrupt.
func WithAcceptLoss() Option { return func(c *Config) { c.AcceptLoss = true } }

// WithForce opens a store whose timers migrate-store has moved to another one: they fire here again. It also
// opens a store whose sealing keys are lost: its signing keys are replaced.
func WithForce() Option { return func(c *Config) { c.Force = true } }

// Open opens a node with its timers in a store: "pebble:DIR", or "mem:", which keeps nothing after the end of
// the process. One process at a time has such a store. Other kinds of stores are imported: see package store.
// The node takes calls at once and fires from Run on. It must be run or closed. ctx is for opening only.
func Open(ctx context.Context, store string, opts ...Option) (*Node, error) {
	c := Defaults()
	c.Store, c.Version = store, "embedded"
	for _, o := range opts {
		o(&c)
	}
	c.embedded = true
	return assembleNode(ctx, c)
}

// Handle registers the function that timers with the target "func:NAME" call, in any namespace, before the
// node runs or while it does. Its result is the outcome: see package function. A fire whose function is
// not registered waits for it.
func (n *Node) Handle(name string, fn function.Handler, opts ...function.Option) error {
	return n.functions.Handle(name, fn, opts...)
}
