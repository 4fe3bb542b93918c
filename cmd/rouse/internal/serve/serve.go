// Package serve has the commands that are servers, and those for their settings and certificates.
package serve

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

// ServeCmd runs a server until a signal ends it.
type ServeCmd struct {
	config.Flags
	AcceptLoss  bool   `help:"Start on a pebble: or sqlite: store whose log or witness has lost acknowledged data; the log describes the loss. Other files must be intact. Applies to this start only."`
	Force       bool   `help:"Start on a store whose timers migrate-store --final has moved to another one, or whose sealing keys are lost. Timers fire here again, so do not serve the other one; signing keys are replaced, and secrets have to be set again."`
	AddressFile string `help:"Write the addresses to this file once the server listens, for scripts that let it choose its ports." placeholder:"FILE"`
}

func (ServeCmd) Help() string {
	return `Without any setting it listens on loopback only, and keeps its data in ./rouse-data. SIGTERM and SIGINT drain it:
deliveries in progress have the grace time to end. A second signal ends it at once; nothing that was accepted is lost.

Examples:

    rouse serve
    rouse serve --data /var/lib/rouse --store sqlite:/var/lib/rouse/timers.db
    ROUSE_LISTEN=10.0.0.5:7411 rouse serve --insecure
    rouse serve --config /etc/rouse.yaml`
}

// Run serves.
func (c *ServeCmd) Run(a *cli.App) error {
	in, err := c.LoadConfig(a.Given)
	if err != nil {
		return err
	}
	log := daemon.NewLogger(a, in.LogLevel, in.LogFormat)
	if in.File != "" {
		log.Info("configuration read", "file", in.File)
	}
	warnOfVariables(a, log)
	defer daemon.AnnounceStop(a, in.Grace, log)()
	systemd, err := daemon.NewSupervisor(a, log)
	if err != nil {
		return err
	}
	defer systemd.EndReports()
	cfg := in.NodeConfig()
	cfg.AcceptLoss, cfg.Force = c.AcceptLoss, c.Force
	if cfg.Pools, err = in.LoadPools(); err != nil {
		return err
	}
	if cfg.Brokers, err = in.LoadBrokers(); err != nil {
		return err
	}
	daemon.BoundHeap(uint64(in.WindowBytes))
	var tellErr error
	err = node.Serve(a.Ctx, cfg, log, func(n *node.Node) {
		systemd.ReportServing(n)
		if tellErr = c.printServeAddresses(a, in, n); tellErr != nil {
			log.Error("the addresses cannot be told", "error", tellErr)
		}
	})
	if c.AddressFile != "" {
		_ = os.Remove(c.AddressFile) // the server no longer listens
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return tellErr
}

// printServeAddresses prints where the server listens.
func (c *ServeCmd) printServeAddresses(a *cli.App, in *config.Loaded, n *node.Node) error {
	api, admin, sidecars := n.Addr(), n.AdminAddr(), dapr.Of(n).Addr()
	if c.AddressFile != "" {
		text := "admin " + admin + "\n"
		if api != "" {
			text = "api " + api + "\n" + text
		}
		if sidecars != "" {
			text += "dapr " + sidecars + "\n"
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
			API     string `json:"api,omitzero"`
			Admin   string `json:"admin,omitzero"`
			Dapr    string `json:"dapr,omitzero"`
			Data    string `json:"data"`
			Store   string `json:"store"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{api, admin, sidecars, in.Data, cli.RedactPasswords(store), os.Getpid(), cli.ProgramVersion()})
	case !a.Flags.Quiet:
		if api != "" {
			a.PrintLine("rouse %s serves on %s (gRPC and HTTP)", cli.ProgramVersion(), api)
		} else {
			a.PrintLine("rouse %s runs without an API, as %s", cli.ProgramVersion(), in.Roles)
		}
		if admin != "" {
			base := daemon.BaseURL(admin, in.TLSCert)
			a.PrintLine("metrics and health on %s/metrics and %s/livez", base, base)
		}
		if sidecars != "" {
			a.PrintLine("Dapr's sidecars are served on %s", sidecars)
		}
		a.PrintLine("data in %s (%s)", in.Data, cli.RedactPasswords(store))
	}
	return nil
}

// warnOfVariables warns of variables that look like misspelt settings. It ignores others: a host may have
// its own variables that begin with ROUSE_.
func warnOfVariables(a *cli.App, log *slog.Logger) {
	known := map[string]bool{"ROUSE_CONFIG": true, "ROUSE_SERVER": true, "ROUSE_NAMESPACE": true, "ROUSE_CA": true,
		"ROUSE_CLIENT_CERT": true, "ROUSE_CLIENT_KEY": true}
	var envs []string
	for _, s := range new(config.Config).ConfigSettings() {
		known[config.EnvName(s.Name)] = true
		envs = append(envs, config.EnvName(s.Name))
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "ROUSE_") || known[name] {
			continue
		}
		for _, env := range envs {
			if cli.EditDistance(name, env) <= 2 {
				log.Warn("a variable is no setting", "variable", name, "meant", env)
				break
			}
		}
	}
}
