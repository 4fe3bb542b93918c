package move

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// The format of export and import is JSON Lines: a first line, calendars, limits, timers, and a last line
// that counts them, so that a file that was cut is noticed. A timer is as get and list print it; the other
// lines have a member that no timer has.
//
//	{"export":"rouse","version":1}
//	{"export":"calendar","namespace":"default","name":"holidays","days":[{"date":"2027-12-24"}],…}
//	{"export":"limit","namespace":"default","name":"payments","concurrency":10,…}
//	{"namespace":"default","name":"coffee","schedule":"30 8 * * *",…,"state":"scheduled",…}
//	{"export":"end","calendars":1,"timers":1}

// exportHead is the first line.
type exportHead struct {
	Export  string `json:"export"` // rouse
	Version int    `json:"version"`
}

const (
	exportFormat  = "rouse"
	exportVersion = 1
)

// exportCalendar is the line of a calendar.
type exportCalendar struct {
	Export string `json:"export"` // calendar
	api.Calendar
}

// exportLimit is the line of a limit.
type exportLimit struct {
	Export string `json:"export"` // limit
	api.Limit
}

// exportEnd is the last line.
type exportEnd struct {
	Export    string `json:"export"` // end
	Calendars int64  `json:"calendars"`
	Limits    int64  `json:"limits,omitzero"`
	Timers    int64  `json:"timers"` // dead letters among them
}

// countLines returns how many lines of each kind there are, as text.
func (e *exportEnd) countLines() string {
	return fmt.Sprintf("%d calendars, %d limits and %d timers", e.Calendars, e.Limits, e.Timers)
}

// maxExportLine bounds a line: the largest calendar has some megabytes.
const maxExportLine = 4 << 20

// exportLine is one line between the first and the last.
type exportLine struct {
	number int
	kind   string // calendar, limit, or that of a timer
	body   []byte // valid until the next line is read
	done   int64  // bytes of the file read so far
}

// readExport calls do for each line of the output of export or list --json. It refuses an incomplete file:
// one that begins with a first line, but has no last line with the correct counts. name is the file's name.
func readExport(in io.Reader, name string, do func(exportLine) error) error {
	r := bufio.NewReaderSize(in, maxExportLine)
	f := exportFrame{name: name}
	done := int64(0)
	for number := 1; ; number++ {
		line, read, err := cli.ReadLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		done += read
		if len(line) > 0 {
			inner, kind, frameErr := f.handleLine(number, line)
			if frameErr != nil {
				return frameErr
			}
			if inner {
				if err := do(exportLine{number, kind, line, done}); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return f.checkComplete()
		}
	}
}

// exportFrame checks the order of the lines of a file.
type exportFrame struct {
	name              string
	any, begun, ended bool
	counts            exportEnd
}

// handleLine handles a line; inner is true for a calendar, a limit or a timer.
func (f *exportFrame) handleLine(number int, line []byte) (inner bool, kind string, err error) {
	kind = exportKind(line)
	first := !f.any
	f.any = true
	at := "line " + strconv.Itoa(number)
	switch {
	case f.ended:
		return false, kind, f.refuseFile(at+" comes after the last one", "give one export at a time")
	case kind == exportFormat && first:
		var head exportHead
		if err := api.Decode(line, &head); err != nil {
			return false, kind, rouse.Under(at, err)
		}
		if head.Version != exportVersion {
			return false, kind,
				f.refuseFile("has version "+strconv.Itoa(head.Version)+" of the format, and this program reads 1",
					"use a newer one")
		}
		f.begun = true
		return false, kind, nil
	case kind == exportFormat:
		return false, kind, f.refuseFile(at+" is a first line again", "give one export at a time")
	case kind == "end":
		var end exportEnd
		if err := api.Decode(line, &end); err != nil {
			return false, kind, rouse.Under(at, err)
		}
		f.ended, f.counts.Export = true, end.Export
		if end != f.counts {
			return false, kind, f.refuseFile("has "+f.counts.countLines()+", and its last line counts "+end.countLines(),
				"lines are lost: export again")
		}
		return false, kind, nil
	case kind == "calendar":
		f.counts.Calendars++
	case kind == "limit":
		f.counts.Limits++
	default:
		f.counts.Timers++
	}
	return true, kind, nil
}

// checkComplete refuses an incomplete file.
func (f *exportFrame) checkComplete() error {
	if f.begun && !f.ended {
		return f.refuseFile("is cut: its last line is missing", "export again")
	}
	return nil
}

func (f *exportFrame) refuseFile(wrong, cure string) error {
	return rouse.Refuse("file", f.name, wrong, cure)
}

// exportKind returns the member that marks lines other than timers.
func exportKind(line []byte) string {
	if !bytes.Contains(line, []byte(`"export"`)) {
		return ""
	}
	var o struct {
		Export string `json:"export"`
	}
	_ = json.Unmarshal(line, &o) // invalid JSON is refused when it is parsed as a timer
	return o.Export
}

// parseTimer parses the line of a timer.
func (l *exportLine) parseTimer() (rouse.Timer, error) {
	if len(l.body) >= maxExportLine {
		return rouse.Timer{}, cli.TooLong(maxExportLine)
	}
	var o api.Timer
	if err := api.Decode(bytes.Clone(l.body), &o); err != nil { // the payload refers to the bytes that it was parsed from
		return rouse.Timer{}, err
	}
	if o.State == "" {
		return rouse.Timer{}, rouse.Refuse("state", "", "is missing", "new timers are made with rouse create --file")
	}
	t, err := o.Parse()
	if err != nil {
		return t, err
	}
	return t, cmp.Or(t.Key.Check(), t.Spec.Check())
}

// readCalendar parses the line of a calendar.
func (l *exportLine) readCalendar() (rouse.Calendar, error) {
	if len(l.body) >= maxExportLine {
		return rouse.Calendar{}, cli.TooLong(maxExportLine)
	}
	var o exportCalendar
	if err := api.Decode(l.body, &o); err != nil {
		return rouse.Calendar{}, err
	}
	calendar, err := o.Parse()
	if err != nil {
		return calendar, err
	}
	return calendar, calendar.Check()
}

// readLimit parses the line of a limit.
func (l *exportLine) readLimit() (rouse.Limit, error) {
	var o exportLimit
	if err := api.Decode(l.body, &o); err != nil {
		return rouse.Limit{}, err
	}
	limit := o.Parse()
	return limit, limit.Check()
}
