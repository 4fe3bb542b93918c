package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/sink/broker"
)

// brokersFile is the file of the setting brokers. A test compares it with docs/brokers.md.
type brokersFile struct {
	Brokers map[string]brokerEntry `yaml:"brokers"`
}

type brokerEntry struct {
	URL         string        `yaml:"url"`
	CA          string        `yaml:"ca"`
	Cert        string        `yaml:"cert"`
	Key         string        `yaml:"key"`
	Allow       []string      `yaml:"allow"`
	InFlight    int           `yaml:"in_flight"`
	Patience    time.Duration `yaml:"patience"`
	Timeout     time.Duration `yaml:"timeout"`
	Credentials string        `yaml:"credentials"`
	MaxLength   int64         `yaml:"max_length"`
	Replicas    int           `yaml:"replicas"`
}

// LoadBrokers returns the connections in the file of the setting, ordered by name. Errors name the file.
func (c *Config) LoadBrokers() ([]broker.Connection, error) {
	if c.BrokersFile == "" {
		return nil, nil
	}
	body, err := os.ReadFile(c.BrokersFile)
	if err != nil {
		return nil, rouse.Refuse("brokers", c.BrokersFile, "cannot be read: "+cli.BareFileError(err),
			"name the YAML file that describes the connections to brokers")
	}
	var f brokersFile
	decoder := yaml.NewDecoder(bytes.NewReader(body), yaml.Strict())
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		line, what := 1, "cannot be read" // the parser's error could contain a password
		if told, ok := errors.AsType[yaml.Error](err); ok {
			what = told.GetMessage()
			if token := told.GetToken(); token != nil {
				line = token.Position.Line
			}
		}
		return nil, rouse.Refuse(fmt.Sprintf("brokers: %s:%d", c.BrokersFile, line), "", what,
			"see docs/brokers.md for what there is")
	}
	if len(f.Brokers) == 0 {
		return nil, rouse.Refuse("brokers: "+c.BrokersFile, "", "describes no connection",
			"write brokers: with at least one name below it")
	}
	var list []broker.Connection
	for _, name := range slices.Sorted(maps.Keys(f.Brokers)) {
		e := f.Brokers[name]
		url, missing := withVariables(e.URL)
		if missing != "" {
			return nil, rouse.Refuse("brokers."+name+".url", "", "names the variable "+missing+", which is not set", "set it")
		}
		list = append(list, broker.Connection{Name: name, URL: url, CA: e.CA, Cert: e.Cert, Key: e.Key, Allow: e.Allow,
			InFlight: e.InFlight,
			Patience: e.Patience, Timeout: e.Timeout, Credentials: e.Credentials, MaxLength: e.MaxLength, Replicas: e.Replicas})
	}
	return list, nil
}

// withVariables replaces ${NAME} by the variable of that name and returns the name of a missing one. Other
// dollar signs, as in passwords, are kept.
func withVariables(text string) (out, missing string) {
	for {
		before, rest, found := strings.Cut(text, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return out + text, missing
		}
		value, ok := os.LookupEnv(name)
		if !ok {
			missing = name
		}
		out, text = out+before+value, after
	}
}
