package schedule

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// Limits on iCalendar files.
const (
	maxICalendar  = 4 << 20 // bytes
	maxComponents = 16      // components within each other
)

// component is a part of an iCalendar file between BEGIN and END. Of components within components only those
// that matter are kept.
type component struct {
	name  string // in upper case
	props []property
	line  int
}

// allProperties returns the properties of a name.
func (c *component) allProperties(name string) (all []property) {
	for _, p := range c.props {
		if p.name == name {
			all = append(all, p)
		}
	}
	return all
}

// firstProperty returns the first property of a name, or a property without a name.
func (c *component) firstProperty(name string) property {
	for _, p := range c.props {
		if p.name == name {
			return p
		}
	}
	return property{}
}

// refuseLine returns the error for a line of an iCalendar file.
func refuseLine(line int, text, wrong, cure string) error {
	return rouse.Refuse("icalendar", text, fmt.Sprintf("line %d %s", line, wrong), cure)
}

// readICalendar reads the VEVENTs of a file, and the zone that its calendar names (X-WR-TIMEZONE). others
// counts the other components by their names.
func readICalendar(data []byte) (events []component, zoneName string, others map[string]int, err error) {
	const cure = "give an iCalendar file (RFC 5545), which begins with BEGIN:VCALENDAR"
	if len(data) > maxICalendar {
		return nil, "", nil, rouse.Refuse("icalendar", "", fmt.Sprintf("has %d bytes", len(data)),
			fmt.Sprintf("use at most %d", maxICalendar))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		line := 1
		for rest := data; ; line++ {
			text, after, more := bytes.Cut(rest, []byte("\n"))
			if !utf8.Valid(text) || !more {
				break
			}
			rest = after
		}
		return nil, "", nil, refuseLine(line, "", "is not UTF-8", "save the file as UTF-8")
	}
	others = make(map[string]int)
	var open []string // the names of the components that we are in
	for text, line := range unfoldLines(string(data)) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		p, wrong := parseProperty(text)
		switch {
		case wrong != "" && len(open) == 0:
			return nil, "", nil, refuseLine(line, text, "is not in a calendar", cure)
		case wrong != "":
			return nil, "", nil, refuseLine(line, text, wrong, "fix the line, or take it out")
		}
		p.line = line
		name := strings.ToUpper(strings.TrimSpace(p.value))
		switch {
		case p.name == "BEGIN":
			if (len(open) == 0) != (name == "VCALENDAR") {
				return nil, "", nil, refuseLine(line, text, "is out of place", cure)
			}
			if len(open) == maxComponents {
				return nil, "", nil, refuseLine(line, text,
					fmt.Sprintf("is within more than %d components", maxComponents), "give a file that is less nested")
			}
			open = append(open, name)
			switch {
			case len(open) == 2 && name == "VEVENT":
				events = append(events, component{name: name, line: line})
			case len(open) == 2:
				others[name]++
			}
		case len(open) == 0:
			return nil, "", nil, refuseLine(line, text, "is not in a calendar", cure)
		case p.name == "END":
			if name != open[len(open)-1] {
				return nil, "", nil, refuseLine(line, text,
					"ends a "+quotePart(name)+" where "+open[len(open)-1]+" is open", "end each component in which it begins")
			}
			open = open[:len(open)-1]
		case len(open) == 1 && p.name == "X-WR-TIMEZONE":
			zoneName = p.value
		case len(open) == 2 && open[1] == "VEVENT":
			switch p.name { // the only ones that matter; texts are long
			case "UID", "DTSTART", "DTEND", "DTSTAMP", "DURATION", "RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID",
				"STATUS", "SUMMARY":
				e := &events[len(events)-1]
				e.props = append(e.props, p)
			}
		}
	}
	if len(open) > 0 {
		return nil, "", nil, rouse.Refuse("icalendar", "", "ends within "+open[len(open)-1],
			"give the whole file, with END:"+open[len(open)-1])
	}
	if len(events) == 0 && len(others) == 0 && len(bytes.TrimSpace(data)) == 0 {
		return nil, "", nil, rouse.Refuse("icalendar", "", "is empty", cure)
	}
	return events, zoneName, others, nil
}

// unfoldLines goes through the lines of a text, each with the number of its first line in the file. A line
// that begins with a space or a tab continues the line before it.
func unfoldLines(data string) func(yield func(text string, line int) bool) {
	return func(yield func(string, int) bool) {
		var text strings.Builder
		begin, line := 0, 0
		for raw := range strings.Lines(data) {
			line++
			raw = strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
			if begin > 0 && raw != "" && (raw[0] == ' ' || raw[0] == '\t') {
				text.WriteString(raw[1:])
				continue
			}
			if begin > 0 && !yield(text.String(), begin) {
				return
			}
			text.Reset()
			text.WriteString(raw)
			begin = line
		}
		if begin > 0 {
			yield(text.String(), begin)
		}
	}
}

// FilterICalendar returns an iCalendar file without the events that keep does not want, by their SUMMARY,
// DESCRIPTION and CATEGORIES, each on a line and as plain text, and how many it left out. Files of public
// holidays mark there which days are only observances. Other data is returned as it is.
func FilterICalendar(data []byte, keep func(text string) bool) (kept []byte, left int) {
	var event []byte
	for line := range bytes.Lines(data) {
		word := strings.ToUpper(strings.TrimSpace(string(line[:min(len(line), 32)])))
		if event == nil && word != "BEGIN:VEVENT" {
			kept = append(kept, line...)
			continue
		}
		if event = append(event, line...); word != "END:VEVENT" {
			continue
		}
		if keep(eventText(event)) {
			kept = append(kept, event...)
		} else {
			left++
		}
		event = nil
	}
	return append(kept, event...), left
}

// eventText returns the texts of an event, without those of its alarms.
func eventText(event []byte) string {
	var text strings.Builder
	depth := 0
	for line := range unfoldLines(string(event)) {
		switch p, _ := parseProperty(line); p.name {
		case "BEGIN":
			depth++
		case "END":
			depth--
		case "SUMMARY", "DESCRIPTION", "CATEGORIES":
			if depth == 1 {
				text.WriteString(plainText(p.value) + "\n")
			}
		}
	}
	return text.String()
}
