package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// defaultFile is read if it exists and no other file is given.
const defaultFile = "rouse.yaml"

// Flags are the flags of serve and config: the settings, and the configuration file.
type Flags struct {
	File   string `name:"config" group:"settings" help:"YAML file of settings; ./rouse.yaml if that exists." placeholder:"FILE" env:"ROUSE_CONFIG"`
	Config `embed:"" group:"settings"`
}

// Loaded is a configuration with the source of each setting: "flag", the variable's name, "FILE:LINE",
// "preset NAME" or "default".
type Loaded struct {
	Config
	File   string // that was read; may be empty
	Source map[string]string
}

// LoadConfig combines the layers: flags override the environment, which overrides the file, which overrides
// the preset, which overrides the defaults. It returns an *rouse.Invalid with all errors of all layers.
func (f *Flags) LoadConfig(given map[string]bool) (*Loaded, error) {
	return f.LoadAs(given, func(*Loaded) {})
}

// LoadAs is LoadConfig for a command with defaults of its own, which adapt sets.
func (f *Flags) LoadAs(given map[string]bool, adapt func(*Loaded)) (*Loaded, error) {
	c := &Loaded{Config: f.Config, Source: map[string]string{}}
	file, problems := c.readConfigFile(f.File)
	for _, s := range c.ConfigSettings() {
		env, inEnv := os.LookupEnv(EnvName(s.Name))
		entry, inFile := file[s.Name]
		switch {
		case given[s.Name]:
			c.Source[s.Name] = "flag"
		case inEnv:
			c.Source[s.Name] = EnvName(s.Name)
			if s.Parse(env) != nil {
				problems = append(problems, rouse.Problem{Field: EnvName(s.Name) + ": " + s.Name, Value: rouse.Shorten(env, 128),
					Wrong: "is not " + s.Kind(), Cure: "give " + s.Kind()})
			}
		case inFile:
			c.Source[s.Name] = fmt.Sprintf("%s:%d", c.File, entry.line)
			_ = s.Parse(entry.text) // readFile has reported its problems
		default:
			c.Source[s.Name] = "default"
		}
	}
	problems = append(problems, c.usePreset()...)
	adapt(c)
	for _, p := range c.validateSettings() {
		if c.Store != "" { // it may contain a password
			p.Wrong = strings.NewReplacer(c.Store, cli.RedactPasswords(c.Store), strconv.Quote(c.Store),
				strconv.Quote(cli.RedactPasswords(c.Store))).Replace(p.Wrong)
		}
		p.Field = c.settingWithSource(p.Field)
		problems = append(problems, p)
	}
	if len(problems) == 0 {
		return c, nil
	}
	return nil, &rouse.Invalid{Problems: problems}
}

// readConfigFile opens the given file, or the default one if it exists.
func (c *Loaded) readConfigFile(name string) (map[string]fileEntry, []rouse.Problem) {
	c.File = name
	if name == "" {
		c.File = defaultFile
	}
	body, err := os.ReadFile(c.File)
	if err != nil {
		if name == "" && errors.Is(err, fs.ErrNotExist) {
			c.File = ""
			return nil, nil
		}
		return nil, []rouse.Problem{{Field: "config", Value: c.File, Wrong: "cannot be read: " + cli.BareFileError(err),
			Cure: "name a YAML file that can"}}
	}
	return readFile(c.File, body)
}
