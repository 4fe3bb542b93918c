package node

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/timers"
)

// kind is a kind of part that a program may leave out.
type kind = parts.Kind[Config, *timers.Timers]

// optional are the parts that a program may leave out, in the order in which they are opened.
var optional = []struct {
	name   string
	scheme string                      // of the targets that need it, "" for none
	asked  func(c *Config) (by string) // the setting that needs it, "" for none
}{
	{"trace", "", func(*Config) string { return "" }},
	{"principals", "", func(c *Config) string { return settingIf("principals", c.Principals != "") }},
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

// linkedKind returns a kind of part that the program links.
func linkedKind(name string) (kind, bool) { return parts.Linked[Config, *timers.Timers](name) }

// importOf is the line that links a part.
func importOf(name string) string {
	return fmt.Sprintf("import _ %q", "github.com/rousehq/rouse/node/"+name)
}

// checkParts checks the settings of the optional parts. One that is needed has to be linked.
func (c *Config) checkParts() error {
	var bad rouse.Invalid
	for _, o := range optional {
		if k, ok := linkedKind(o.name); ok {
			bad.Add(k.Check(c))
		} else if by := o.asked(c); by != "" {
			bad.Add(rouse.Refuse(by, "", "needs a part of rouse that this program does not link", importOf(o.name)))
		}
	}
	return bad.Err()
}

// openParts opens the optional parts.
func (n *Node) openParts(ctx context.Context) error {
	for _, o := range optional {
		k, ok := linkedKind(o.name)
		if !ok && o.scheme == "" {
			continue
		}
		if !ok {
			n.addPart(parts.Part{Sinks: map[string]rouse.Sink{o.scheme: absent{importOf(o.name)}}})
			continue
		}
		p, err := k.Open(ctx, core{n})
		if err != nil {
			return err
		}
		p.Name = o.name
		n.addPart(p)
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

// absent is the sink of targets whose part the program does not link. Their timers, which other programs may
// have made, wait; new ones are refused.
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
		settle(i, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: absentPause,
			Detail: "this program does not deliver to such targets"})
	}
}

func (absent) Obstacle(string, *rouse.Spec) string {
	return "this program does not deliver to such targets"
}

// core is a node as its parts see it: a parts.Node.
type core struct{ *Node }

func (c core) Config() *Config { return &c.cfg }

func (c core) Store() rouse.Store { return c.store }

func (c core) Registry() prometheus.Registerer { return c.registry }

func (c core) Listeners() (api, admin net.Listener) { return c.api, c.admin }

func (c core) Nodes() func(context.Context) ([]claim.Node, error) {
	if c.cluster == nil {
		return nil
	}
	return c.cluster.nodes
}

func (c core) Buckets() uint32 { return c.cluster.buckets }

func (c core) Leads() func() bool { return c.cluster.leader }

func (c core) Running() error { return c.notFiringReason() }

func (c core) Advertised() string { return c.cfg.advertisedAddress(c.Addr()) }

func (c core) Await(ctx context.Context, what string, open func() error) error {
	return c.await.openWithRetry(ctx, what, open)
}

func (c core) Each(do func(value any)) {
	for i := range c.parts {
		do(c.parts[i].Value)
	}
}
