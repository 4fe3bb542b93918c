package serve

import (
	"fmt"
	"os"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/node"
)

// DevCmd runs a server to try things out with: nothing to set up, and a clock that can be moved.
type DevCmd struct {
	Listen      string `help:"Address of the API, gRPC and HTTP on one port." default:"127.0.0.1:7411" placeholder:"HOST:PORT"`
	Admin       string `help:"Address of metrics, health and profiles; empty for none." default:"127.0.0.1:7412" placeholder:"HOST:PORT"`
	Data        string `help:"Keep timers in this directory; default in memory, lost when the server ends." placeholder:"DIR"`
	AddressFile string `help:"Write the addresses to this file once the server listens." placeholder:"FILE"`
}

func (DevCmd) Help() string {
	return `The clock goes with the real one until rouse clock moves it, and goes on from there. Callbacks to this machine and to
private addresses are allowed. They are signed with the secret in ./rouse-data/webhook.secret if that exists, which rouse listen
verifies; otherwise with a new one that is not kept. Records and dead letters are not thrown away, however far the clock goes.
Changes are in the audit log: rouse audit.

With --data, what a moved clock wrote keeps its times: a server that is started there afterwards is behind them.

Examples:

    rouse dev
    rouse dev --data /tmp/timers --listen 127.0.0.1:9000`
}

// Run serves.
func (c *DevCmd) Run(a *cli.App) error {
	cfg := node.Defaults()
	cfg.Listen, cfg.Admin, cfg.Data, cfg.Version = c.Listen, c.Admin, c.Data, cli.ProgramVersion()
	cfg.AllowPrivate, cfg.Clock = true, node.NewClock()
	cfg.HistoryAge, cfg.HistoryPerTimer, cfg.DeadAge = 10*365*24*time.Hour, 0, 0
	cfg.AuditLog = node.Names{"store"}
	if c.Data == "" {
		dir, err := os.MkdirTemp("", "rouse-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		cfg.Store, cfg.Data = "mem:", dir
		if _, err := os.Stat(cli.DefaultSecretFile); err == nil {
			cfg.SecretFile = cli.DefaultSecretFile
		}
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	var tellErr error
	log := daemon.NewLogger(a, "warn", "text")
	defer daemon.AnnounceStop(a, cfg.Grace, log)()
	err := node.Run(a.Ctx, cfg, log, func(api, admin string) {
		if tellErr = c.printDevAddresses(a, api, admin); tellErr != nil {
			log.Error("the addresses cannot be told", "error", tellErr)
		}
	})
	if c.AddressFile != "" {
		_ = os.Remove(c.AddressFile) // the server no longer listens
	}
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	return tellErr
}

// tryKeys are commands that a test runs.
var tryKeys = []string{
	"(umask 077; rouse key create first --offline --data rouse-keys > first.key)",
	"rouse serve --data rouse-keys --access keys --listen 127.0.0.1:7421 --admin 127.0.0.1:7422 &",
	"rouse whoami --server 127.0.0.1:7421 --key-file first.key",
}

// printDevAddresses prints where the server listens and how to move its clock.
func (c *DevCmd) printDevAddresses(a *cli.App, api, admin string) error {
	if c.AddressFile != "" {
		if err := daemon.WriteWhole(c.AddressFile, "api "+api+"\nadmin "+admin+"\n"); err != nil {
			return err
		}
	}
	switch {
	case a.Flags.JSON:
		return a.PrintJSON(struct {
			API     string `json:"api"`
			Admin   string `json:"admin,omitzero"`
			Data    string `json:"data,omitzero"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{api, admin, c.Data, os.Getpid(), cli.ProgramVersion()})
	case !a.Flags.Quiet:
		a.PrintLine("rouse %s serves on %s (gRPC and HTTP), to try things out", cli.ProgramVersion(), api)
		if admin != "" {
			a.PrintLine("metrics and health on http://%s/metrics and http://%s/livez", admin, admin)
		}
		if c.Data == "" {
			a.PrintLine("timers are in memory, and gone when this ends")
		} else {
			a.PrintLine("data in %s", c.Data)
		}
		a.PrintLine("the clock can be moved: rouse clock advance 30d")
		a.PrintLine("this server needs no keys; to try one that does:")
		for _, line := range tryKeys {
			a.PrintLine("    %s", line)
		}
	}
	return nil
}
