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

// defaultFile is read if it exists and no other is named.
const defaultFile = "rouse.yaml"

// configFlags are what serve and config take: the settings, and the file to read others from.
type configFlags struct {
	File   string `name:"config" group:"settings" help:"YAML file of settings; ./rouse.yaml if that exists." placeholder:"FILE" env:"ROUSE_CONFIG"`
	Config `embed:"" group:"settings"`
}

// inForce is a configuration, with where each setting comes from: "flag", the variable's name, "FILE:LINE", "preset NAME" or "default".
type inForce struct {
	Config
	file   string // that was read; may be empty
	source map[string]string
}

// load puts the layers together: a flag counts before the environment, that before the file, that before the preset, that before
// the default. It refuses, with an *rouse.Invalid, all that is wrong in any of them at once.
func (f *configFlags) load(given map[string]bool) (*inForce, error) {
	return f.loadAs(given, func(*inForce) {})
}

// loadAs is load for a command with values of its own where nothing gives any: adapt sets them.
func (f *configFlags) loadAs(given map[string]bool, adapt func(*inForce)) (*inForce, error) {
	c := &inForce{Config: f.Config, source: map[string]string{}}
	file, problems := c.open(f.File)
	for _, s := range c.settings() {
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
			_ = s.Parse(entry.text) // readFile has told what is wrong with it
		default:
			c.source[s.Name] = "default"
		}
	}
	problems = append(problems, c.usePreset()...)
	adapt(c)
	for _, p := range c.validate() {
		if c.Store != "" { // which may have a password
			p.Wrong = strings.NewReplacer(c.Store, redact(c.Store), strconv.Quote(c.Store), strconv.Quote(redact(c.Store))).Replace(p.Wrong)
		}
		p.Field = c.named(p.Field)
		problems = append(problems, p)
	}
	if len(problems) == 0 {
		return c, nil
	}
	return nil, &rouse.Invalid{Problems: problems}
}

// open reads the file that is named, or the default one if there is one.
func (c *inForce) open(name string) (map[string]fileEntry, []rouse.Problem) {
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
		return nil, []rouse.Problem{{Field: "config", Value: c.file, Wrong: "cannot be read: " + reason(err), Cure: "name a YAML file that can"}}
	}
	return readFile(c.file, body)
}

// reason is what is wrong with a file, without the operation and the path that the caller names.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
