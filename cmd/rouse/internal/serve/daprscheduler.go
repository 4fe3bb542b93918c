package serve

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

// DaprSchedulerCmd runs a server in place of Dapr's scheduler.
type DaprSchedulerCmd struct {
	config.Flags
	daprFlags `embed:""`

	AddressFile string `help:"Write the addresses to this file once the server listens." placeholder:"FILE"`
}

func (DaprSchedulerCmd) Help() string {
	return `It takes the flags of Dapr's scheduler, and for what those do not say the settings of rouse serve, which are described in
configuration.md. Without --listen there is no API of rouse's, without --admin there are no profiles. Several members share a store.
SIGTERM and SIGINT drain it: GET /healthz fails at once, triggers that are with sidecars have two seconds (--grace) to be answered, and
what is not comes again from another member, or after the start.

Examples:

    rouse dapr-scheduler
    rouse dapr-scheduler --port 50006 --data /var/lib/rouse
    rouse dapr-scheduler --id dapr-scheduler-server-1 --store postgres://rouse@db.internal/rouse
    rouse dapr-scheduler --tls-enabled --sentry-address dapr-sentry.dapr-system.svc:443 --trust-domain cluster.local --trust-anchors-file ca.crt`
}

// Run serves.
func (c *DaprSchedulerCmd) Run(a *cli.App) error {
	if c.LogLevel == "fatal" { // a level that only Dapr has
		c.LogLevel = "error"
	}
	in, err := c.LoadSettings(a)
	if err != nil {
		return err
	}
	if err := c.checkSharedStore(in); err != nil {
		return err
	}
	log := daemon.NewLogger(a, in.LogLevel, in.LogFormat)
	warnOfVariables(a, log)
	if list := findIgnoredFlags(a.Given); len(list) > 0 {
		log.Info("flags are ignored: jobs are not in an etcd, but in a store of rouse's", "flags", strings.Join(list, " "))
	}
	defer daemon.AnnounceStop(a, in.Grace, log)()
	systemd, err := daemon.NewSupervisor(a, log)
	if err != nil {
		return err
	}
	defer systemd.EndReports()
	p, err := c.openProbes(a.Ctx)
	if err != nil {
		return fmt.Errorf("dapr-scheduler: %w", err)
	}
	var tellErr error
	daemon.BoundHeap(uint64(in.WindowBytes))
	err = node.Serve(a.Ctx, in.NodeConfig(), log, func(n *node.Node) {
		p.setNode(n)
		systemd.ReportServing(n)
		if tellErr = c.printDaprAddresses(a, in, n, p); tellErr != nil {
			log.Error("the addresses cannot be told", "error", tellErr)
		}
	})
	if closeErr := p.ClosePorts(); err == nil {
		err = closeErr
	}
	if c.AddressFile != "" {
		_ = os.Remove(c.AddressFile) // the server no longer listens
	}
	if err != nil {
		return fmt.Errorf("dapr-scheduler: %w", err)
	}
	return tellErr
}

// LoadSettings returns the settings of the flags.
func (c *DaprSchedulerCmd) LoadSettings(a *cli.App) (*config.Loaded, error) {
	return c.LoadAs(a.Given, func(in *config.Loaded) { c.adaptSettings(in, a.Given) })
}

// printDaprAddresses prints where the server listens.
func (c *DaprSchedulerCmd) printDaprAddresses(a *cli.App, in *config.Loaded, n *node.Node, p *probes) error {
	addresses := []struct{ name, addr string }{{"dapr", dapr.Of(n).Addr()}, {"healthz", p.healthz}, {"metrics", p.metrics},
		{"api", n.Addr()}, {"admin", n.AdminAddr()}}
	if c.AddressFile != "" {
		text := ""
		for _, at := range addresses {
			if at.addr != "" {
				text += at.name + " " + at.addr + "\n"
			}
		}
		if err := daemon.WriteWhole(c.AddressFile, text); err != nil {
			return err
		}
	}
	store := in.Store
	store = cmp.Or(store, "pebble")
	switch {
	case a.Flags.JSON:
		return a.PrintJSON(struct {
			Dapr    string `json:"dapr"`
			Healthz string `json:"healthz"`
			Metrics string `json:"metrics,omitzero"`
			API     string `json:"api,omitzero"`
			Admin   string `json:"admin,omitzero"`
			Data    string `json:"data"`
			Store   string `json:"store"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{dapr.Of(n).Addr(), p.healthz, p.metrics, n.Addr(), n.AdminAddr(), in.Data, cli.RedactPasswords(store), os.Getpid(),
			cli.ProgramVersion()})
	case !a.Flags.Quiet:
		a.PrintLine("rouse %s serves Dapr's sidecars on %s", cli.ProgramVersion(), dapr.Of(n).Addr())
		a.PrintLine("health on http://%s/healthz", p.healthz)
		if p.metrics != "" {
			a.PrintLine("metrics on http://%s/metrics", p.metrics)
		}
		a.PrintLine("data in %s (%s)", in.Data, cli.RedactPasswords(store))
	}
	return nil
}
