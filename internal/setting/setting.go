// Package setting reads and prints the fields of a structure of settings, by their tags: name, default, help.
package setting

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Setting is one field.
type Setting struct {
	Name    string
	Default string // as text
	Help    string
	value   reflect.Value
}

// Kinded is a type of values that has a description for errors, such as "a size such as 64MiB".
type Kinded interface{ Kind() string }

// Of returns the fields that have a name, those of embedded structures in their place. c is a pointer to a
// structure; the settings set its fields.
func Of(c any) []Setting { return listSettings(reflect.ValueOf(c).Elem()) }

func listSettings(v reflect.Value) (list []Setting) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch name := field.Tag.Get("name"); {
		case field.Anonymous:
			list = append(list, listSettings(v.Field(i))...)
		case name != "":
			list = append(list, Setting{name, field.Tag.Get("default"), field.Tag.Get("help"), v.Field(i)})
		}
	}
	return list
}

// Value returns the value of the field.
func (s Setting) Value() any { return s.value.Interface() }

// Kind describes the permitted values, for errors.
func (s Setting) Kind() string {
	switch v := s.Value().(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case time.Duration:
		return "a duration such as 10s or 72h"
	case float64:
		return "a number"
	case Kinded:
		return v.Kind()
	}
	return "a text"
}

// Parse sets the value from a text, and leaves it as it was if that fails.
func (s Setting) Parse(text string) error {
	before := reflect.ValueOf(s.Value())
	err := s.parseValue(text)
	if err != nil {
		s.value.Set(before)
	}
	return err
}

func (s Setting) parseValue(text string) (err error) {
	switch p := s.value.Addr().Interface().(type) {
	case *string:
		*p = text
	case encoding.TextUnmarshaler:
		err = p.UnmarshalText([]byte(text))
	case *time.Duration:
		*p, err = rouse.ParseDuration(text)
	case *int:
		*p, err = strconv.Atoi(text)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *bool:
		*p, err = strconv.ParseBool(text)
	default:
		err = fmt.Errorf("setting %s has the type %s, which cannot be read", s.Name, s.value.Type())
	}
	return err
}

// Text returns the value as Parse reads it.
func (s Setting) Text() string {
	if d, ok := s.Value().(time.Duration); ok {
		return Short(d)
	}
	return fmt.Sprint(s.Value())
}

// Short prints a duration without units of zero: 10m, not 10m0s.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}
