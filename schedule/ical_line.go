package schedule

import (
	"strings"
	"time"
)

// property is a content line of RFC 5545: a name, parameters and a value, as in
// "DTSTART;TZID=Europe/Berlin:20270101T090000".
type property struct {
	name   string // in upper case
	params []param
	value  string // as written
	line   int    // where it begins in its file, from 1; 0 outside of one
}

// param is a parameter of a property, without its quotes.
type param struct{ name, value string }

// paramValue returns the value of a parameter, or nothing.
func (p *property) paramValue(name string) string {
	for _, q := range p.params {
		if q.name == name {
			return q.value
		}
	}
	return ""
}

// parseProperty reads an unfolded line. If it is not one, wrong is the reason.
func parseProperty(line string) (p property, wrong string) {
	end := strings.IndexAny(line, ":;")
	if end < 0 || !propertyName(line[:end]) {
		return p, "is no property, which has a name, a colon and a value"
	}
	p.name = strings.ToUpper(line[:end])
	rest := line[end:]
	for rest[0] == ';' {
		name, after, ok := strings.Cut(rest[1:], "=")
		if !ok || !propertyName(name) {
			return p, "has a parameter that is no name with '=' and a value"
		}
		var value string
		if strings.HasPrefix(after, `"`) {
			if value, rest, ok = strings.Cut(after[1:], `"`); !ok {
				return p, "has a quote that does not end"
			}
		} else {
			n := strings.IndexAny(after, `:;"`)
			if n < 0 {
				return p, "has no colon before its value"
			}
			value, rest = after[:n], after[n:]
		}
		for strings.HasPrefix(rest, ",") { // more values: none of the parameters that matter here has them
			n := strings.IndexAny(rest, `:;"`)
			if n >= 0 && rest[n] == '"' {
				close := strings.IndexByte(rest[n+1:], '"')
				if close < 0 {
					return p, "has a quote that does not end"
				}
				n += close + 2
			}
			if n < 0 {
				return p, "has no colon before its value"
			}
			rest = rest[n:]
		}
		if rest == "" || rest[0] != ':' && rest[0] != ';' {
			return p, "has no colon before its value"
		}
		p.params = append(p.params, param{strings.ToUpper(name), value})
	}
	p.value = rest[1:]
	return p, ""
}

// propertyName reports whether a text can be the name of a property or a parameter.
func propertyName(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; s[i] != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// stamp is a DATE or DATE-TIME of RFC 5545.
type stamp struct {
	wall int64 // seconds, as the clock on the wall shows them
	utc  bool  // the wall time is in UTC
	date bool  // a whole day, that of wall
}

// parseStamp reads YYYYMMDD, YYYYMMDDThhmmss or YYYYMMDDThhmmssZ.
func parseStamp(text string) (stamp, bool) {
	var s stamp
	layout := "20060102T150405"
	switch {
	case len(text) == len("20060102"):
		layout, s.date = "20060102", true
	case len(text) == len("20060102T150405Z"):
		if last := text[len(text)-1]; last != 'Z' && last != 'z' {
			return s, false
		}
		text, s.utc = text[:len(text)-1], true
	}
	t, err := time.Parse(layout, strings.ToUpper(text))
	if err != nil || len(text) != len(layout) || t.Year() < 1 || t.Year() > 9998 {
		return s, false
	}
	s.wall = t.Unix()
	return s, true
}

// showStamp writes a wall time as DATE-TIME.
func showStamp(wall int64) string { return time.Unix(wall, 0).UTC().Format("20060102T150405") }
