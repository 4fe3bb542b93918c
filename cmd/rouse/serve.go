package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
)

// serveCmd runs a server until a signal ends it.
type serveCmd struct {
	configFlags
	AcceptLoss  bool   `help:"Start on a pebble: or sqlite: store whose log or witness has lost acknowledged data; the log describes the loss. Other files must be intact. Applies to this start only."`
	Force       bool   `help:"Start on a store whose timers migrate-store --final has moved to another one, or whose sealing keys are lost. Timers fire here again, so do not serve the other one; signing keys are replaced, and secrets have to be set again."`
	AddressFile string `help:"Write the addresses to this file once the server listens, for scripts that let it choose its ports." placeholder:"FILE"`
}

func (serveCmd) Help() string {
	return `Without any setting it listens on loopback only, and keeps its data in ./rouse-data. SIGTERM and SIGINT drain it:
deliveries in progress have the grace time to end. A second signal ends it at once; nothing that was accepted is lost.

Examples:

    rouse serve
    rouse serve --data /var/lib/rouse --store sqlite:/var/lib/rouse/timers.db
    ROUSE_LISTEN=10.0.0.5:7411 rouse serve --insecure
    rouse serve --config /etc/rouse.yaml`
}

// Run serves.
func (c *serveCmd) Run(a *app) error {
	in, err := c.loadConfig(a.given)
	if err != nil {
		return err
	}
	log := a.newLogger(in.LogLevel, in.LogFormat)
	if in.file != "" {
		log.Info("configuration read", "file", in.file)
	}
	a.warnOfVariables(log)
	defer a.announceStop(in.Grace, log)()
	systemd, err := a.newSupervisor(log)
	if err != nil {
		return err
	}
	defer systemd.endReports()
	cfg := in.nodeConfig()
	cfg.AcceptLoss, cfg.Force = c.AcceptLoss, c.Force
	if cfg.Pools, err = in.loadPools(); err != nil {
		return err
	}
	if cfg.Brokers, err = in.loadBrokers(); err != nil {
		return err
	}
	boundHeap(uint64(in.WindowBytes))
	var tellErr error
	err = node.Serve(a.ctx, cfg, log, func(n *node.Node) {
		systemd.reportServing(n)
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
func (c *serveCmd) printServeAddresses(a *app, in *loadedConfig, n *node.Node) error {
	api, admin, sidecars := n.Addr(), n.AdminAddr(), dapr.Of(n).Addr()
	if c.AddressFile != "" {
		text := "admin " + admin + "\n"
		if api != "" {
			text = "api " + api + "\n" + text
		}
		if sidecars != "" {
			text += "dapr " + sidecars + "\n"
		}
		if err := writeWhole(c.AddressFile, text); err != nil {
			return err
		}
	}
	store := in.Store
	store = cmp.Or(store, "pebble")
	switch {
	case a.flags.JSON:
		return a.printJSON(struct {
			API     string `json:"api,omitzero"`
			Admin   string `json:"admin,omitzero"`
			Dapr    string `json:"dapr,omitzero"`
			Data    string `json:"data"`
			Store   string `json:"store"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{api, admin, sidecars, in.Data, redactPasswords(store), os.Getpid(), programVersion()})
	case !a.flags.Quiet:
		if api != "" {
			a.printLine("rouse %s serves on %s (gRPC and HTTP)", programVersion(), api)
		} else {
			a.printLine("rouse %s runs without an API, as %s", programVersion(), in.Roles)
		}
		if admin != "" {
			base := baseURL(admin, in.TLSCert)
			a.printLine("metrics and health on %s/metrics and %s/livez", base, base)
		}
		if sidecars != "" {
			a.printLine("Dapr's sidecars are served on %s", sidecars)
		}
		a.printLine("data in %s (%s)", in.Data, redactPasswords(store))
	}
	return nil
}

// warnOfVariables warns of variables that look like misspelt settings. It ignores others: a host may have
// its own variables that begin with ROUSE_.
func (a *app) warnOfVariables(log *slog.Logger) {
	known := map[string]bool{"ROUSE_CONFIG": true, "ROUSE_SERVER": true, "ROUSE_NAMESPACE": true, "ROUSE_CA": true,
		"ROUSE_CLIENT_CERT": true, "ROUSE_CLIENT_KEY": true}
	var envs []string
	for _, s := range new(Config).configSettings() {
		known[envName(s.Name)] = true
		envs = append(envs, envName(s.Name))
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "ROUSE_") || known[name] {
			continue
		}
		for _, env := range envs {
			if editDistance(name, env) <= 2 {
				log.Warn("a variable is no setting", "variable", name, "meant", env)
				break
			}
		}
	}
}
