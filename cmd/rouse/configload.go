package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
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

// inForce is a configuration, with where each setting comes from: "flag", the variable's name, "FILE:LINE" or "default".
type inForce struct {
	Config
	file   string // that was read; may be empty
	source map[string]string
}

// load puts the layers together: a flag counts before the environment, that before the file, that before the default. It
// refuses, with an *rouse.Invalid, all that is wrong in any of them at once.
func (f *configFlags) load(given map[string]bool) (*inForce, error) {
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
			problems = append(problems, s.read(env, "")...)
		case inFile:
			c.source[s.name] = fmt.Sprintf("%s:%d", c.file, entry.line)
			problems = append(problems, s.read(entry.text, entry.wrong)...)
		default:
			c.source[s.name] = "default"
		}
	}
	if len(problems) == 0 {
		problems = c.validate()
	} else { // what was read can still be judged, but for what could not be
		problems = append(problems, without(c.validate(), problems)...)
	}
	if len(problems) == 0 {
		return c, nil
	}
	for i, p := range problems {
		if s := c.source[p.Field]; s != "" && s != "default" && s != "flag" {
			problems[i].Field = s + ": " + p.Field
		}
	}
	return nil, &rouse.Invalid{Problems: problems}
}

// without returns the problems whose fields are not among those of others.
func without(problems, others []rouse.Problem) []rouse.Problem {
	seen := map[string]bool{}
	for _, p := range others {
		seen[p.Field] = true
	}
	var rest []rouse.Problem
	for _, p := range problems {
		if !seen[p.Field] {
			rest = append(rest, p)
		}
	}
	return rest
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
	return readFile(c.file, body, c.settings())
}

// reason is what is wrong with a file, without the operation and the path that the caller names.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// read sets a value from the text of a lower layer.
func (s setting) read(text, wrong string) []rouse.Problem {
	if wrong == "" {
		before := reflect.ValueOf(s.value.Interface())
		err := s.parse(text)
		if err == nil {
			return nil
		}
		s.value.Set(before)
		wrong = "is not " + s.kind()
	}
	return []rouse.Problem{{Field: s.name, Value: rouse.Shorten(text, 128), Wrong: wrong, Cure: "give " + s.kind()}}
}

// parseScalar sets a value that is no text.
func (s setting) parseScalar(text string) error {
	switch p := s.value.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(text)
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
	case *bool:
		b, err := strconv.ParseBool(text)
		*p = b
		return err
	case **bool:
		b, err := strconv.ParseBool(text)
		*p = &b
		return err
	}
	return fmt.Errorf("setting %s has the type %s, which cannot be read", s.name, s.value.Type())
}
