// Package pool has the commands for pools of workers, their requests, and workers.
package pool

import (
	"cmp"
	"errors"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/node"
)

// Cmd groups the commands for pools of keyed workers.
type Cmd struct {
	Run     poolRunCmd     `cmd:"" default:"withargs" help:"Manage pools of workers, started by requests in RabbitMQ, until a signal."`
	Status  poolStatusCmd  `cmd:"" help:"Show the pools of a manager, or the groups of one."`
	Stop    poolStopCmd    `cmd:"" help:"Stop the group of a key; a request starts it again."`
	Restart poolRestartCmd `cmd:"" help:"Replace the workers of a key."`
	Pin     poolPinCmd     `cmd:"" help:"Keep the group of a key running, even without requests."`
	Poison  poolPoisonCmd  `cmd:"" help:"List, show, replay or purge poison requests."`
}

func (Cmd) Help() string {
	return `A pool is workers of one kind. A request for a key without workers starts the group of workers of that key; a group that
gets no requests is stopped. docs/pools.md describes the protocol of clients and workers, and the file.

Examples:

    rouse pool --config pools.yaml
    rouse pool status core
    rouse pool restart core 42
    rouse pool poison list core`
}

// poolRunCmd manages pools until a signal.
type poolRunCmd struct {
	Config      string `help:"YAML file that describes the pools." default:"pools.yaml" placeholder:"FILE"`
	LogLevel    string `help:"Minimum level of the log: debug, info, warn or error." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat   string `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
	AddressFile string `help:"Write the address of status and metrics to this file once it is listened on." placeholder:"FILE"`
}

func (poolRunCmd) Help() string {
	return `SIGTERM and SIGINT end it in good order: another manager of the same pools takes over at once, and workers that are processes
of this one may finish what they have. A second signal ends it at once, and them.

Examples:

    rouse pool --config pools.yaml
    rouse pool run --config /etc/rouse/pools.yaml --log-format json`
}

// Run manages the pools.
func (c *poolRunCmd) Run(a *cli.App) error {
	file, err := config.ReadPools(c.Config)
	if err != nil {
		return err
	}
	if err := file.WithoutTimers(); err != nil {
		return err
	}
	log := daemon.NewLogger(a, c.LogLevel, c.LogFormat)
	cfg := node.Defaults()
	cfg.Roles, cfg.Version = node.Names{node.RolePools}, cli.ProgramVersion()
	cfg.Admin, cfg.Hosts = file.Listen, file.Hosts
	cfg.TLSCert, cfg.TLSKey, cfg.TLSClientCA = file.TLSCert, file.TLSKey, file.ClientCA
	if file.Insecure {
		cfg.Insecure = listen.Insecure{"all"}
	}
	if err := inFile(cfg.Check()); err != nil {
		return rouse.Refuse(c.Config, "", err.Error(), "")
	}
	cfg.Pools, cfg.Grace = file.PoolSetups(), file.GracePeriod()
	// The managers end before the workers are given their time.
	defer daemon.AnnounceStop(a, cfg.Grace+5*time.Second, log)()
	systemd, err := daemon.NewSupervisor(a, log)
	if err != nil {
		return err
	}
	defer systemd.EndReports()
	var tellErr error
	err = node.Run(a.Ctx, cfg, log, func(_, address string) {
		systemd.ReportServing(nil)
		if tellErr = c.printPoolAddress(a, address, file); tellErr != nil {
			log.Error("the address cannot be told", "error", tellErr)
		}
	})
	if c.AddressFile != "" {
		_ = os.Remove(c.AddressFile) // nothing listens there any more
	}
	return cmp.Or(err, tellErr)
}

// tlsSetting is the name of a setting as a word, and not in the name of a file.
var tlsSetting = regexp.MustCompile(`(^| )tls-[a-z-]+( |,|;|:|$)`)

// inFile names the settings of an error as the file of pools does.
func inFile(err error) error {
	var bad *rouse.Invalid
	if !errors.As(err, &bad) {
		return err
	}
	named := func(text string) string {
		text = strings.ReplaceAll(text, "insecure=admin", "insecure: true")
		return tlsSetting.ReplaceAllStringFunc(text, func(name string) string { return strings.ReplaceAll(name, "-", "_") })
	}
	out := &rouse.Invalid{}
	for _, p := range bad.Problems {
		if p.Field == "admin" {
			p.Field = "listen"
		}
		p.Field, p.Wrong, p.Cure = named(p.Field), named(p.Wrong), named(p.Cure)
		out.Problems = append(out.Problems, p)
	}
	return out
}

// printPoolAddress prints where it listens.
func (c *poolRunCmd) printPoolAddress(a *cli.App, address string, file *config.PoolsFile) error {
	if c.AddressFile != "" {
		if err := daemon.WriteWhole(c.AddressFile, address+"\n"); err != nil {
			return err
		}
	}
	switch {
	case a.Flags.JSON:
		return a.PrintJSON(struct {
			Address string `json:"address"`
			Pools   int    `json:"pools"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{address, len(file.Pools), os.Getpid(), cli.ProgramVersion()})
	case !a.Flags.Quiet:
		base := daemon.BaseURL(address, file.TLSCert)
		a.PrintLine("rouse %s manages %d pools; status and metrics on %s/pools and %s/metrics", cli.ProgramVersion(),
			len(file.Pools), base, base)
	}
	return nil
}
