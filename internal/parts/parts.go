// Package parts has the interface between a node and its parts: the calls of a node, and the services for
// them. The parts that a program may leave out register here when their packages are imported, as drivers of
// database/sql do.
//
// Package node has the type of the settings, C, and package timers that of the operations, T: both import
// more than this package may.
package parts

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/quota"
)

// Part is one piece of a node. A node calls the functions of its parts in the order in which they are listed
// here; nil has nothing to do. Until Serve it goes through the parts in the order in which they were opened,
// from Drain on in the reverse order.
type Part struct {
	Name  string // for errors
	Value any    // the result of node.Find

	Sinks   map[string]rouse.Sink           // by the schemes of their targets
	Publish func(p *Published)              // the fields that the other nodes of the store read
	Engine  func(o *engine.Options)         // before the engine is made
	Deliver func(s rouse.Sink) rouse.Sink   // around all sinks of the node, before the engine is made
	Start   func() error                    // the engine is made, and takes no calls yet
	Begin   func(ctx context.Context) error // before anything fires
	Serve   func(ctx context.Context) error // runs until the engine has ended and Leave was called; an error ends the node
	Work    func(ctx context.Context) error // runs until the node is told to end; an error ends the node

	Drain func()       // takes no more fires, and puts off those that wait: the engine ends after it
	Leave func() error // disconnects clients that are still served
	Close func() error // nothing runs any more
}

// Kind is a kind of part that programs link by importing its package.
type Kind[C, T any] struct {
	Check func(c *C) error                                      // the faults of its settings
	Open  func(ctx context.Context, n Node[C, T]) (Part, error) // of every node of a program that links it
	// answers on the listeners while the store is away; may be nil
	Await func(n Node[C, T], why func() error) (stop func())
}

// Node is a node as its parts see it.
type Node[C, T any] interface {
	Config() *C
	Timers() T                        // the zero value if the node manages pools only, or has not made them yet
	Access() *access.Gate             // authenticates callers; nil: access control is off
	Audit() (*audit.Log, *audit.Rows) // the actions of callers, and their searchable rows; nil: it is off, or not kept
	Quotas() *quota.Book              // of namespaces; nil if the node manages pools only
	Limits() *limit.Book              // the named limits of namespaces; nil if the node manages pools only
	// NodeToken returns the credential by which this node reads the status of another; empty: none is needed.
	NodeToken(node string, now time.Time) string
	Status() Status                       // of the node's own work; nil if it has no timers
	Store() rouse.Store                   // nil if the node manages pools only
	Registry() prometheus.Registerer      // where metrics are registered
	Metrics() http.Handler                // serves the node's metrics to Prometheus
	Listeners() (api, admin net.Listener) // nil if there is none
	TLS() *tls.Config                     // of listeners; nil: they are in plain text
	Mutual() (server, client *tls.Config) // of connections between nodes; nil: they are in plain text
	SharesStore() bool                    // with other nodes

	Addr() string       // of the API, "" if there is none
	Advertised() string // where clients that know another node reach the API; "" if that cannot be known

	// lists the nodes of the store; nil if the node has its store to itself
	Nodes() func(context.Context) ([]claim.Node, error)
	Buckets() uint32 // how many buckets the timers of the store are in
	// whether this node does the bookkeeping for all nodes of its store; nil if it has the store to itself
	Leads() func() bool
	Running() error // why the node does not fire, or nil

	// Await retries open while something it needs is unavailable.
	Await(ctx context.Context, what string, open func() error) error
	// Each calls do with the value of each part.
	Each(do func(value any))
	// Advance moves the node's clock, if it is one that can be moved.
	Advance(ctx context.Context, to rouse.Instant, jump bool) (fired uint64, err error)
}

var kinds = map[string]any{}

// Register makes a kind of part known.
func Register[C, T any](name string, k Kind[C, T]) { kinds[name] = k }

// Linked returns a kind that the program links.
func Linked[C, T any](name string) (k Kind[C, T], ok bool) {
	k, ok = kinds[name].(Kind[C, T])
	return k, ok
}

// Published has the fields that a node publishes about itself for the others.
type Published struct {
	Address  string        `json:"address,omitempty"`
	Version  string        `json:"version,omitempty"`
	Started  rouse.Instant `json:"started"`
	Strategy string        `json:"strategy"`
	Roles    []string      `json:"roles,omitempty"`
	// namespaces that it claims; none is all, if it has the role scheduler
	Claims []string `json:"claims,omitempty"`
	Dapr   string   `json:"dapr,omitempty"`
	// Reminders is where the node serves reminders.
	Reminders string `json:"reminders,omitempty"`
	// Peer is where other nodes call it.
	Peer string `json:"peer,omitempty"`
	// Grain distinguishes its holds from those of others: see engine.Options.
	Grain int `json:"grain,omitempty"`
}

// PublishedBy decodes the fields that a node published. A node of another version may have written something
// else: then the fields are empty.
func PublishedBy(data []byte) (p Published) {
	_ = json.Unmarshal(data, &p)
	return p
}

// Status reports a node's own work.
type Status interface {
	Stats(window time.Duration) []rouse.StatsPoint   // on this node, oldest first
	Targets() (list []rouse.TargetStatus, more bool) // on this node; more: there are others
	// LimitUses is of this node: of the limits of a namespace without keys, or of one with its keys.
	LimitUses(namespace, name string) map[rouse.Key]rouse.LimitUse
	Buckets(ctx context.Context) ([]rouse.BucketStatus, error) // of the store
	Doctor(ctx context.Context, local bool) []rouse.Finding    // of this node, and unless local of the store and all nodes
}
