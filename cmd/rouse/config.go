package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/node"
)

// Config is everything that can be set of a server: its flags, the keys of its file, and, as ROUSE_ and the
// name in capitals, its variables. The tags here and in node.Config have the name, default and meaning of
// each setting, from which the tables of docs/configuration.md are generated.
type Config struct {
	node.Config `embed:""`

	Preset      string `name:"preset" default:"" placeholder:"NAME" help:"Values for settings that nothing else gives: demo-lease; empty is none."`
	PoolsFile   string `name:"pools" default:"" placeholder:"FILE" help:"YAML file that describes the pools of workers of this node; empty is none."`
	BrokersFile string `name:"brokers" default:"" placeholder:"FILE" help:"YAML file that describes the connections to RabbitMQ, NATS and Redis that targets name; empty is none."`
	LogLevel    string `name:"log-level" default:"info" placeholder:"LEVEL" help:"What is logged: debug, info, warn or error."`
	LogFormat   string `name:"log-format" default:"text" placeholder:"FORMAT" help:"Format of the log on stderr: text or json."`
}

// envName returns the variable of a setting.
func envName(setting string) string {
	return "ROUSE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// configSettings returns the settings of c, which can be set through them.
func (c *Config) configSettings() []setting.Setting { return setting.Of(c) }

// secretFile returns the file of the webhook secrets.
func (c *Config) secretFile() string {
	if c.SecretFile != "" {
		return c.SecretFile
	}
	return filepath.Join(c.Data, "webhook.secret")
}

// nodeConfig converts the configuration to that of a node.
func (c *Config) nodeConfig() node.Config {
	n := c.Config
	n.Version = programVersion()
	return n
}

// validateSettings returns all invalid values, each problem under the name of its setting.
func (c *Config) validateSettings() []rouse.Problem {
	var problems []rouse.Problem
	one := func(name, value string, offered ...string) {
		if slices.Contains(offered, value) {
			return
		}
		problems = append(problems, rouse.Problem{Field: name, Value: value, Wrong: "is not offered",
			Cure: "give one of " + strings.Join(offered, ", ")})
	}
	one("log-level", c.LogLevel, "debug", "info", "warn", "error")
	one("log-format", c.LogFormat, "text", "json")
	n := c.nodeConfig()
	var err error
	if n.Pools, err = c.loadPools(); err != nil {
		problems = append(problems, rouse.Problem{Field: "pools", Value: c.PoolsFile, Wrong: err.Error()})
	}
	if n.Brokers, err = c.loadBrokers(); err != nil {
		problems = append(problems, problemsOf(err)...)
	}
	return append(problems, problemsOf(n.Check())...)
}

// problemsOf returns the problems of a configuration.
func problemsOf(err error) []rouse.Problem {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return inv.Problems
	}
	return []rouse.Problem{{Wrong: err.Error()}}
}
