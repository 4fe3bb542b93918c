package node

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/parts"
)

// The values of the setting access.
const (
	accessOff  = "off"
	accessKeys = "keys"
)

// AccessOn reports whether access control is on: it was asked for, or credentials were configured.
func (c *Config) AccessOn() bool {
	if c.Access == "" {
		return c.AdminKeyFile != "" || c.Principals != ""
	}
	return c.Access != accessOff
}

// checkAccess checks the settings of access control.
func (c *Config) checkAccess() error {
	var bad rouse.Invalid
	switch {
	case c.Access != "" && c.Access != accessOff && c.Access != accessKeys:
		bad.Wrong("access", "%q is no kind of access control: give keys or off, or nothing", c.Access)
	case c.Access == accessOff && c.AdminKeyFile != "":
		bad.Wrong("access", "is off, and admin-key-file is set: leave one of them out")
	case c.Access == accessOff && c.Principals != "":
		bad.Wrong("access", "is off, and principals is set: leave one of them out")
	case c.AccessOn() && c.PoolsOnly():
		bad.Wrong("access", "needs a store for its keys, and a node with the role pools has none: leave it out")
	case c.AccessOn() && c.DaprListen != "" && !c.daprIdentified():
		bad.Wrong("access",
			"is on, and dapr-listen would serve any client as any app: set dapr-cert and dapr-key, dapr-sentry or dapr-workload-api")
	}
	return bad.Err()
}

// daprIdentified reports whether Dapr's sidecars show certificates.
func (c *Config) daprIdentified() bool {
	return c.DaprCert != "" || c.DaprSentry != "" || c.DaprWorkloadAPI != ""
}

// openAccess makes access control, if it is on. Keys and roles are not read yet.
func (n *Node) openAccess() error {
	cfg := &n.cfg
	var runs []func(context.Context)
	if cfg.AccessOn() {
		refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rouse_access_refused_total",
			Help: "Calls that access control refused, by reason."}, []string{"reason"})
		for _, r := range access.Reasons {
			refused.WithLabelValues(string(r))
		}
		n.registry.MustRegister(refused)
		g := &access.Gate{Control: access.NewControl(func(r access.Reason) { refused.WithLabelValues(string(r)).Inc() })}
		g.Keys = access.NewKeys(n.shared, g.Control, cfg.Log)
		g.Roles = access.NewRoles(n.shared, g.Control, g.Keys, cfg.Log)
		g.Sessions = access.NewSessions(n.shared, g.Control, cfg.Log)
		chain := access.Chain{g.Keys}
		if cfg.AdminKeyFile != "" {
			admin, err := access.OpenAdminKeys(cfg.AdminKeyFile, cfg.Log)
			if err != nil {
				return err
			}
			chain = append(access.Chain{admin}, chain...)
			runs = append(runs, admin.Run)
		}
		g.Authenticators = chain
		n.access = g
		if cfg.isSharedStore() {
			n.tokens = &access.NodeTokens{}
		}
		runs = append(runs, g.Keys.Run)
	}
	n.addPart(parts.Part{Name: "access", Work: func(ctx context.Context) error {
		var running sync.WaitGroup
		for _, run := range runs {
			running.Go(func() { run(ctx) })
		}
		running.Wait()
		return nil
	}})
	return nil
}

// Access returns access control as doors need it; nil if it is off.
func (c core) Access() *access.Gate { return c.access }
