package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

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
		env, inEnv := os.LookupEnv(envName(s.name))
		entry, inFile := file[s.name]
		switch {
		case given[s.name]:
			c.source[s.name] = "flag"
		case inEnv:
			c.source[s.name] = envName(s.name)
			if s.set(env) != nil {
				problems = append(problems, rouse.Problem{Field: envName(s.name) + ": " + s.name, Value: rouse.Shorten(env, 128),
					Wrong: "is not " + s.kind(), Cure: "give " + s.kind()})
			}
		case inFile:
			c.source[s.name] = fmt.Sprintf("%s:%d", c.file, entry.line)
			_ = s.set(entry.text) // readFile has told what is wrong with it
		default:
			c.source[s.name] = "default"
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

// set parses a text, and leaves the value as it was if that fails.
func (s setting) set(text string) error {
	before := reflect.ValueOf(s.value.Interface())
	err := s.parse(text)
	if err != nil {
		s.value.Set(before)
	}
	return err
}

// parseScalar sets a value that is no text.
func (s setting) parseScalar(text string) error {
	switch p := s.value.Addr().Interface().(type) {
	case *time.Duration:
		d, err := rouse.ParseDuration(text)
		*p = d
		return err
	case *int:
		n, err := strconv.Atoi(text)
		*p = n
		return err
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		*p = n
		return err
	case *float64:
		f, err := strconv.ParseFloat(text, 64)
		*p = f
		return err
	case *bool:
		b, err := strconv.ParseBool(text)
		*p = b
		return err
	}
	return fmt.Errorf("setting %s has the type %s, which cannot be read", s.name, s.value.Type())
}
