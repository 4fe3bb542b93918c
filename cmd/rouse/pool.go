package main

import (
	"cmp"
	"errors"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/node"
)

// poolCmd groups the commands for pools of keyed workers.
type poolCmd struct {
	Run     poolRunCmd     `cmd:"" default:"withargs" help:"Manage pools of workers, started by requests in RabbitMQ, until a signal."`
	Status  poolStatusCmd  `cmd:"" help:"Show the pools of a manager, or the groups of one."`
	Stop    poolStopCmd    `cmd:"" help:"Stop the group of a key; a request starts it again."`
	Restart poolRestartCmd `cmd:"" help:"Replace the workers of a key."`
	Pin     poolPinCmd     `cmd:"" help:"Keep the group of a key running, even without requests."`
	Poison  poolPoisonCmd  `cmd:"" help:"List, show, replay or purge poison requests."`
}

func (poolCmd) Help() string {
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
func (c *poolRunCmd) Run(a *app) error {
	file, err := readPools(c.Config)
	if err != nil {
		return err
	}
	if err := file.withoutTimers(); err != nil {
		return err
	}
	log := a.newLogger(c.LogLevel, c.LogFormat)
	cfg := node.Defaults()
	cfg.Roles, cfg.Admin, cfg.Hosts, cfg.Version = node.Names{node.RolePools}, file.Listen, file.Hosts, programVersion()
	cfg.TLSCert, cfg.TLSKey, cfg.TLSClientCA = file.TLSCert, file.TLSKey, file.ClientCA
	if file.Insecure {
		cfg.Insecure = listen.Insecure{"all"}
	}
	if err := inFile(cfg.Check()); err != nil {
		return rouse.Refuse(c.Config, "", err.Error(), "")
	}
	cfg.Pools, cfg.Grace = file.poolSetups(), file.gracePeriod()
	defer a.announceStop(cfg.Grace+5*time.Second, log)() // the managers end before the workers are given their time
	systemd, err := a.newSupervisor(log)
	if err != nil {
		return err
	}
	defer systemd.endReports()
	var tellErr error
	err = node.Run(a.ctx, cfg, log, func(_, address string) {
		systemd.reportServing(nil)
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
func (c *poolRunCmd) printPoolAddress(a *app, address string, file *poolsFile) error {
	if c.AddressFile != "" {
		if err := writeWhole(c.AddressFile, address+"\n"); err != nil {
			return err
		}
	}
	switch {
	case a.flags.JSON:
		return a.printJSON(struct {
			Address string `json:"address"`
			Pools   int    `json:"pools"`
			PID     int    `json:"pid"`
			Version string `json:"version"`
		}{address, len(file.Pools), os.Getpid(), programVersion()})
	case !a.flags.Quiet:
		base := baseURL(address, file.TLSCert)
		a.printLine("rouse %s manages %d pools; status and metrics on %s/pools and %s/metrics", programVersion(),
			len(file.Pools), base, base)
	}
	return nil
}
