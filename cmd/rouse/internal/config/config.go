// Package config is what can be set of a server: its flags, variables and files, those of pools and brokers
// too.
package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
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

// EnvName returns the variable of a setting.
func EnvName(setting string) string {
	return "ROUSE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// ConfigSettings returns the settings of c, which can be set through them.
func (c *Config) ConfigSettings() []setting.Setting { return setting.Of(c) }

// SecretPath returns the file of the webhook secrets.
func (c *Config) SecretPath() string {
	if c.SecretFile != "" {
		return c.SecretFile
	}
	return filepath.Join(c.Data, "webhook.secret")
}

// NodeConfig converts the configuration to that of a node.
func (c *Config) NodeConfig() node.Config {
	n := c.Config
	n.Version = cli.ProgramVersion()
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
	n := c.NodeConfig()
	var err error
	if n.Pools, err = c.LoadPools(); err != nil {
		problems = append(problems, rouse.Problem{Field: "pools", Value: c.PoolsFile, Wrong: err.Error()})
	}
	if n.Brokers, err = c.LoadBrokers(); err != nil {
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
