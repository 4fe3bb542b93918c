package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// defaultFile is read if it exists and no other file is given.
const defaultFile = "rouse.yaml"

// configFlags are the flags of serve and config: the settings, and the configuration file.
type configFlags struct {
	File   string `name:"config" group:"settings" help:"YAML file of settings; ./rouse.yaml if that exists." placeholder:"FILE" env:"ROUSE_CONFIG"`
	Config `embed:"" group:"settings"`
}

// loadedConfig is a configuration with the source of each setting: "flag", the variable's name, "FILE:LINE",
// "preset NAME" or "default".
type loadedConfig struct {
	Config
	file   string // that was read; may be empty
	source map[string]string
}

// loadConfig combines the layers: flags override the environment, which overrides the file, which overrides
// the preset, which overrides the defaults. It returns an *rouse.Invalid with all errors of all layers.
func (f *configFlags) loadConfig(given map[string]bool) (*loadedConfig, error) {
	return f.loadAs(given, func(*loadedConfig) {})
}

// loadAs is loadConfig for a command with defaults of its own, which adapt sets.
func (f *configFlags) loadAs(given map[string]bool, adapt func(*loadedConfig)) (*loadedConfig, error) {
	c := &loadedConfig{Config: f.Config, source: map[string]string{}}
	file, problems := c.readConfigFile(f.File)
	for _, s := range c.configSettings() {
		env, inEnv := os.LookupEnv(envName(s.Name))
		entry, inFile := file[s.Name]
		switch {
		case given[s.Name]:
			c.source[s.Name] = "flag"
		case inEnv:
			c.source[s.Name] = envName(s.Name)
			if s.Parse(env) != nil {
				problems = append(problems, rouse.Problem{Field: envName(s.Name) + ": " + s.Name, Value: rouse.Shorten(env, 128),
					Wrong: "is not " + s.Kind(), Cure: "give " + s.Kind()})
			}
		case inFile:
			c.source[s.Name] = fmt.Sprintf("%s:%d", c.file, entry.line)
			_ = s.Parse(entry.text) // readFile has reported its problems
		default:
			c.source[s.Name] = "default"
		}
	}
	problems = append(problems, c.usePreset()...)
	adapt(c)
	for _, p := range c.validateSettings() {
		if c.Store != "" { // it may contain a password
			p.Wrong = strings.NewReplacer(c.Store, redactPasswords(c.Store), strconv.Quote(c.Store),
				strconv.Quote(redactPasswords(c.Store))).Replace(p.Wrong)
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
func (c *loadedConfig) readConfigFile(name string) (map[string]fileEntry, []rouse.Problem) {
	c.file = name
	if name == "" {
		c.file = defaultFile
	}
	body, err := os.ReadFile(c.file)
	if err != nil {
		if name == "" && errors.Is(err, fs.ErrNotExist) {
			c.file = ""
			return nil, nil
		}
		return nil, []rouse.Problem{{Field: "config", Value: c.file, Wrong: "cannot be read: " + bareFileError(err),
			Cure: "name a YAML file that can"}}
	}
	return readFile(c.file, body)
}
