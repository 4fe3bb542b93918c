package schedule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

func file(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ical returns the result of a file: a line for each day, and one for each warning.
func ical(t testing.TB, text string) string {
	t.Helper()
	days, warnings, err := schedule.ParseICalendar([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range days {
		fmt.Fprintf(&b, "%s %s\n", d.Date, d.Text)
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "! %s\n", w)
	}
	return b.String()
}

// TestICalendarFiles reads files such as other programs export.
func TestICalendarFiles(t *testing.T) {
	for name, want := range map[string]string{
		"officeholidays.ics": `2027-01-01 Germany: New Year's Day
2027-12-25 1. und 2. Weihnachtstag, Feiertage, Christmas Day
2027-12-26 1. und 2. Weihnachtstag, Feiertage
`,
		"outlook.ics": `2026-12-24 Office closes at noon
2027-01-01 Fireworks
2027-05-03 Works holidays
2027-05-04 Works holidays
2027-05-05 Works holidays
2027-05-06 Works holidays
2027-05-07 Works holidays
2027-05-08 Works holidays
2027-05-09 Works holidays
2027-12-24 Office closes at noon
2028-12-24 Office closes at noon
! the zone "W. Europe Standard Time" is not known, so its times are compared with others as if they were in UTC
`,
		"team.ics": `2024-02-29 Leap day
2027-01-04 Freeze
2027-01-19 Freeze (moved)
2027-01-20 Freeze
2027-01-21 Freeze
2028-02-29 Leap day
2032-02-29 Leap day
2036-02-29 Leap day
2040-02-29 Leap day
2044-02-29 Leap day
2048-02-29 Leap day
2052-02-29 Leap day
2056-02-29 Leap day
! 1 VTODO left out: only events have days
! 1 rules without end are followed until the end of 2057
`,
	} {
		text := file(t, name)
		if got := ical(t, text); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		unix := strings.ReplaceAll(text, "\r\n", "\n")
		if got := ical(t, unix); got != want {
			t.Errorf("%s with line feeds:\n got %s\nwant %s", name, got, want)
		}
	}
}

// TestICalendarEvents has an event's lines and its days.
func TestICalendarEvents(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"without end", "DTSTART:20270101T090000", "2027-01-01 \n"},
		{"until midnight", "DTSTART:20270101T090000\nDTEND:20270102T000000", "2027-01-01 \n"},
		{"over midnight", "DTSTART:20270101T090000\nDTEND:20270102T000001", "2027-01-01 \n2027-01-02 \n"},
		{"a date that ends on itself", "DTSTART:20270101\nDTEND:20270101", "2027-01-01 \n"},
		{"an end in another zone", "DTSTART;TZID=America/New_York:20270101T200000\nDTEND:20270102T040000Z", "2027-01-01 \n"},
		{"an end before the begin", "DTSTART:20270103\nDTEND:20270101", "2027-01-03 \n! line 5: DTEND lies before DTSTART, so only the first day is taken\n"},
		{"a duration that is none", "DTSTART:20270103\nDURATION:P1M", "2027-01-03 \n! line 5: DURATION \"P1M\" is not understood, so only the first day is taken\n"},
		{"no duration", "DTSTART:20270103\nDURATION:PT0S", "2027-01-03 \n"},
		{"a rule that is none", "DTSTART:20270103\nRRULE:FREQ=DAILY;BYDAY=1MO", "2027-01-03 \n! line 5: RRULE is not followed: a number in BYDAY does not go with FREQ=DAILY, whose periods have each day once at most or no days at all; use FREQ=MONTHLY, or leave the number out\n"},
		{"the begin in addition to its rule", "DTSTART:20270101\nRRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2", "2027-01-01 \n2027-01-04 \n2027-01-11 \n"},
		{"the begin taken out", "DTSTART:20270101\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20270101,20270103", "2027-01-02 \n"},
		{"before 1970", "DTSTART:19680229\nRRULE:FREQ=YEARLY;UNTIL=19720301", "1972-02-29 \n! days outside the years 1970 to 9998 are left out, of 1 times\n"},
		{"texts are made plain", "DTSTART:20270101\nSUMMARY:  a\\, b\\; c\\\\ d\\n\te\u202e  ", "2027-01-01 a, b; c\\ d e\n"},
		{"texts are cut", "DTSTART:20270101\nSUMMARY:" + strings.Repeat("ä", 100), "2027-01-01 " + strings.Repeat("ä", 62) + "…\n"},
		{"the same text once", "DTSTART:20270101\nSUMMARY:a\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20270101\nSUMMARY:b\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20270101\nSUMMARY:a", "2027-01-01 a, b\n"},
		{"another title for one time", "UID:1\nDTSTART:20270101T090000\nRRULE:FREQ=DAILY;COUNT=2\nSUMMARY:a\nEND:VEVENT\nBEGIN:VEVENT\nUID:1\nRECURRENCE-ID:20270102T090000\nDTSTART:20270102T090000\nSUMMARY:b",
			"2027-01-01 a\n2027-01-02 b\n"},
		{"folded within a character's neighbours", "DTSTART:2027\n 0101\nSUM\n\tMARY:a\n  b", "2027-01-01 a b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ical(t, "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\n"+c.lines+"\nEND:VEVENT\nEND:VCALENDAR\n"); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestICalendarBounds checks that the cost of a file is bounded, and that warnings list what was left out.
func TestICalendarBounds(t *testing.T) {
	event := func(lines string) string { return "BEGIN:VEVENT\n" + lines + "\nEND:VEVENT\n" }
	for _, c := range []struct{ name, events, want string }{
		{"days", event("DTSTART:20000101\nDTEND:99980101"), "what begins at line 3 and later is not followed to its end"},
		{"seconds", event("DTSTART:20270101T000000\nRRULE:FREQ=SECONDLY"), "what begins at line 4 and later"},
		{"many days", event("DTSTART:19900101\nRRULE:FREQ=DAILY") + event("DTSTART:20270101"), "days from 4 October 2044 on are left out: a calendar has at most 20000"},
		{"many rules", strings.Repeat(event("DTSTART:20270101T000000\nRRULE:FREQ=WEEKLY;BYMONTH=2;BYDAY=MO,TU;BYSETPOS=3"), 2000), "and later is not followed to its end"},
		{"many warnings", strings.Repeat(event("DTSTART:20270103\nDTEND:20270101"), 100), "50 further warnings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			days, warnings, err := schedule.ParseICalendar([]byte("BEGIN:VCALENDAR\n" + c.events + "END:VCALENDAR\n"))
			if err != nil {
				t.Fatal(err)
			}
			if len(days) > rouse.MaxDays || len(days) == 0 {
				t.Errorf("%d days", len(days))
			}
			all := "! " + strings.Join(warnings, "\n! ")
			if !strings.Contains(all, c.want) {
				t.Errorf("warnings are\n%.2000s\nwant %s", all, c.want)
			}
		})
	}
}

// TestICalendarRefused checks the errors for invalid files.
func TestICalendarRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":               "is empty",
		"hello\n":        "line 1 is not in a calendar; give an iCalendar file",
		"BEGIN:VEVENT\n": "line 1 is out of place",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\n":                                          `line 3 ends a "VCALENDAR" where VEVENT is open`,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\n":                                                         "ends within VEVENT",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\nEND:VCALENDAR":                     "line 2 begins an event without DTSTART",
		"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:2027\r\n 0230\r\nEND:VEVENT\r\nEND:VCALENDAR": `icalendar "20270230": line 3 is no date and time that exists`,
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART\nEND:VEVENT\nEND:VCALENDAR":                       "line 3 is no property",
		"BEGIN:VCALENDAR\nX;A=\"b:c\nEND:VCALENDAR":                                               "line 2 has a quote that does not end",
		"BEGIN:VCALENDAR\nX;A=b\nEND:VCALENDAR":                                                   "line 2 has no colon before its value",
		"BEGIN:VCALENDAR\nX-Y:\xff\nEND:VCALENDAR":                                                "line 2 is not UTF-8",
		"BEGIN:VCALENDAR\nEND:VCALENDAR\nDTSTART:1":                                               "line 3 is not in a calendar",
		strings.Repeat("BEGIN:VCALENDAR\n", 1) + strings.Repeat("BEGIN:X\n", 20):                  "line 17 is within more than 16 components",
		strings.Repeat(" ", 4<<20+1):                                                              "has 4194305 bytes; use at most 4194304",
	} {
		days, _, err := schedule.ParseICalendar([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v and %v, want %s", text, days, err, want)
		}
	}
}
