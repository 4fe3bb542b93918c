package node

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
)

// Part is one piece of a node. A node calls the functions of its parts in the order in which they are listed here; nil has nothing to do.
// Until Serve it goes through the parts in the order in which they were opened, from Drain on in the reverse order.
type Part struct {
	Name  string // for errors
	Value any    // what Find returns

	Sinks   map[string]rouse.Sink           // by the schemes of their targets
	Publish func(p *Published)              // what the other nodes of the store read
	Engine  func(o *engine.Options)         // before the engine is made
	Start   func() error                    // the engine is made, and takes no calls yet
	Begin   func(ctx context.Context) error // before anything fires
	Serve   func(ctx context.Context) error // runs until the engine has ended and Leave was called; an error ends the node
	Work    func(ctx context.Context) error // runs until the node is told to end; an error ends the node

	Drain func()       // takes no more fires, and puts off those that wait: the engine ends after it
	Leave func() error // disconnects what is still served
	Close func() error // nothing runs any more
}

// Kind is a kind of part that programs link by importing its package.
type Kind struct {
	Check func(c *Config) []rouse.Problem                 // what is wrong with its settings
	Open  func(ctx context.Context, c Core) (Part, error) // of every node of a program that links it
	Await func(c Core, why func() error) (stop func())    // answers on the listeners while the store is away; may be nil
}

// optional are the parts that a program may leave out, in the order in which they are opened.
var optional = []struct {
	name   string
	scheme string                      // of the targets that need it
	asked  func(c *Config) (by string) // the setting that needs it, "" for none
}{
	{"dapr", "dapr", func(c *Config) string { return settingIf("dapr-listen", c.DaprListen != "") }},
	{"reminder", "reminder", func(c *Config) string { return settingIf("reminders", c.Reminders) }},
	{"pool", "pool", func(c *Config) string { return settingIf("pools", len(c.Pools) > 0) }},
	{"api", "stream", func(c *Config) string {
		if c.Listen != "" && c.Has("api") {
			return "listen"
		}
		return settingIf("admin", c.Admin != "")
	}},
}

func settingIf(name string, asked bool) string {
	if !asked {
		return ""
	}
	return name
}

var linked = map[string]Kind{}

// Register makes a kind of part known. The package of a part calls it when it is initialized, as drivers of database/sql do.
func Register(name string, k Kind) { linked[name] = k }

// importOf is the line that links a part.
func importOf(name string) string {
	return fmt.Sprintf("import _ %q", "github.com/rousehq/rouse/node/"+name)
}

// checkParts checks the settings of the optional parts. One that is needed has to be linked.
func (c *Config) checkParts() (problems []rouse.Problem) {
	for _, o := range optional {
		if k, ok := linked[o.name]; ok {
			problems = append(problems, k.Check(c)...)
		} else if by := o.asked(c); by != "" {
			problems = append(problems, rouse.Problem{Field: by, Wrong: "needs a part of rouse that this program does not link", Cure: importOf(o.name)})
		}
	}
	return problems
}

// openParts opens the optional parts.
func (n *Node) openParts(ctx context.Context) error {
	for _, o := range optional {
		k, ok := linked[o.name]
		if !ok {
			n.add(Part{Sinks: map[string]rouse.Sink{o.scheme: absent{importOf(o.name)}}})
			continue
		}
		p, err := k.Open(ctx, Core{n})
		if err != nil {
			return err
		}
		p.Name = o.name
		n.add(p)
	}
	return nil
}

// Find returns the value of a node's part that has a type, or the zero value.
func Find[T any](n *Node) (found T) {
	for i := range n.parts {
		if v, ok := n.parts[i].Value.(T); ok {
			return v
		}
	}
	return found
}

// absent is the sink of targets whose part the program does not link. Their timers, which other programs may have made, wait; new ones are refused.
type absent struct{ cure string }

// absentPause is how long such fires are put off.
const absentPause = 30 * time.Second

func (a absent) Check(spec *rouse.Spec) error {
	return rouse.Refuse("target", spec.Target, "is of a part of rouse that this program does not link", a.cure)
}

func (absent) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: "absent", Limit: 1024, Batch: 1024, Paced: true}
}

func (absent) Deliver(_ context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: absentPause, Detail: "this program does not deliver to such targets"})
	}
}

func (absent) Obstacle(string, *rouse.Spec) string {
	return "this program does not deliver to such targets"
}

// Core is a node as its parts see it.
type Core struct{ *Node }

// Config returns the settings.
func (c Core) Config() *Config { return &c.cfg }

// Store returns the store; nil if the node manages pools only.
func (c Core) Store() rouse.Store { return c.store }

// Registry is where metrics are registered.
func (c Core) Registry() prometheus.Registerer { return c.registry }

// Listeners returns those of the API and of the admin port; nil if there is none.
func (c Core) Listeners() (api, admin net.Listener) { return c.api, c.admin }

// Nodes returns what lists the nodes of the store; nil if the node has its store to itself.
func (c Core) Nodes() func(context.Context) ([]claim.Node, error) {
	if c.cluster == nil {
		return nil
	}
	return c.cluster.nodes
}

// Buckets returns how many buckets the timers of the store are in.
func (c Core) Buckets() uint32 { return c.cluster.buckets }

// Leads returns what reports whether this node does the bookkeeping for all nodes of its store; nil if it has the store to itself.
func (c Core) Leads() func() bool { return c.cluster.leader }

// Running returns why the node does not fire, or nil.
func (c Core) Running() error { return c.running() }

// Advertised returns where clients that know another node reach the API; "" if that cannot be known.
func (c Core) Advertised() string { return c.cfg.advertised(c.Addr()) }

// Await opens something again and again while what it needs is away.
func (c Core) Await(ctx context.Context, what string, open func() error) error {
	return c.await.until(ctx, what, open)
}

// Each calls do with the value of each part.
func (c Core) Each(do func(value any)) {
	for i := range c.parts {
		do(c.parts[i].Value)
	}
}
