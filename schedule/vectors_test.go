package schedule_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/oracletest"
	"github.com/rousehq/rouse/schedule"
)

var nameStep = regexp.MustCompile(`[A-Z]{3}/`)

// Days of the week of an RRULE.
var (
	numberedDay = regexp.MustCompile(`\d[A-Z]`)
	plainDay    = regexp.MustCompile(`(^|,)[A-Z]`)
)

var sundays = regexp.MustCompile(`(SUN|0|7)-(SUN|0|7)`)

// TestAnswersOfLibraries compares the dialects with the libraries that they are named after.
func TestAnswersOfLibraries(t *testing.T) {
	for name, d := range map[string]struct {
		prefix  string
		differs func(*oracletest.Answer) string
	}{
		"apscheduler": {"spring:", func(a *oracletest.Answer) string {
			switch f := strings.Fields(a.Expr); {
			case strings.Contains(f[3], "_") && f[5] != "*":
				return "an nth day of the week that must be another day of the week, too"
			case a.ChangesClocks():
				return "changes of the clocks"
			}
			return ""
		}},
		"node-cron": {"spring:", func(a *oracletest.Answer) string {
			if a.ChangesClocks() {
				return "changes of the clocks"
			}
			return ""
		}},
		"cron": {"", func(a *oracletest.Answer) string {
			if a.ChangesClocks() {
				return "jobs of a skipped hour"
			}
			return ""
		}},
		"croner": {"cron6:", func(a *oracletest.Answer) string {
			f := strings.Fields(a.Expr)
			switch {
			case f[3] != "*" && f[5] != "*" && (f[3][0] == '*' || f[5][0] == '*'):
				return "days that begin with a star"
			case a.ChangesClocks():
				return "changes of the clocks"
			}
			return ""
		}},
		"dateutil": {"rrule:", func(a *oracletest.Answer) string {
			_, days, _ := strings.Cut(a.Expr, "BYDAY=")
			days, _, _ = strings.Cut(days, ";")
			switch {
			case numberedDay.MatchString(days) && plainDay.MatchString(days):
				return "days of the week with and without a number"
			case strings.Contains(a.Expr, "BYWEEKNO") && days == "":
				return "weeks without a day"
			}
			return ""
		}},
		"lib-recur": {"rrule:", func(a *oracletest.Answer) string {
			switch {
			case strings.Contains(a.Expr, "FREQ=YEARLY") && strings.Contains(a.Expr, "BYMONTHDAY") && !strings.Contains(a.Expr, "BYMONTH="):
				return "days of the month in a year"
			case !strings.Contains(a.Expr, "YEARLY") && strings.Contains(a.Expr, "BYYEARDAY"):
				return "days from the end of the year"
			case strings.Contains(a.Expr, "BYWEEKNO") && (strings.Contains(a.Expr, "BYMONTH=") || strings.Contains(a.Expr, "INTERVAL")):
				return "weeks of two years"
			case a.ChangesClocks():
				return "local times that come twice"
			}
			return ""
		}},
		"quartz": {"quartz:", func(a *oracletest.Answer) string {
			switch {
			case nameStep.MatchString(a.Expr):
				return "steps after names"
			case strings.Contains(a.Expr, "W "):
				return "times of a day with W"
			case a.ChangesClocks():
				return "changes of the clocks"
			}
			return ""
		}},
		"spring": {"spring:", func(a *oracletest.Answer) string {
			switch f := strings.Fields(a.Expr); {
			case a.ChangesClocks():
				return "changes of the clocks"
			case strings.Contains(f[3], "31W"):
				return "31W in months that end with a Sunday"
			case sundays.MatchString(f[5]):
				return "ranges from Sunday to Sunday"
			}
			return ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(a *oracletest.Answer) (rouse.Schedule, error) {
				o := schedule.Options{Timezone: a.Zone.String()}
				if strings.Contains(a.Expr, "TZID") {
					o.Timezone = ""
				}
				expr := a.Expr
				switch name {
				case "apscheduler":
					expr = springOfTrigger(expr)
				case "node-cron": // Spring's */2 begins with Monday
					expr = expr[:strings.LastIndex(expr, " ")] + strings.ReplaceAll(expr[strings.LastIndex(expr, " "):], "*/", "0-6/")
				}
				return schedule.Parse(d.prefix+expr, o)
			}
			oracletest.CompareAnswers(t, "testdata/oracles/"+name+".txt", parse, d.differs)
		})
	}
}

var stepOfNames = regexp.MustCompile(`([a-z]{3})/\d+`)

// springOfTrigger returns what docs/moving-in.md makes of the fields of an APScheduler's CronTrigger: days of
// the week count from Monday there, the nth or last of one stands in the field of days of the month, and a
// step after names is ignored.
func springOfTrigger(expr string) string {
	f := strings.Fields(stepOfNames.ReplaceAllString(expr, "$1"))
	items := strings.Split(f[5], ",")
	for i, item := range items {
		item, step, stepped := strings.Cut(item, "/")
		first, last, ranged := strings.Cut(item, "-")
		if item[0] == '*' || item[0] > '9' {
			continue
		}
		items[i] = string(first[0] + 1)
		if ranged {
			items[i] += "-" + string(last[0]+1)
		} else if stepped {
			items[i] += "-7"
		}
		if stepped {
			items[i] += "/" + step
		}
	}
	f[5] = strings.Join(items, ",")
	if nth, day, ok := strings.Cut(f[3], "_"); ok {
		f[3], f[5] = "*", day+"#"+nth[:1]
		if nth == "last" {
			f[5] = day + "L"
		}
	} else if f[3] == "last" {
		f[3] = "L"
	}
	return strings.Join(f, " ")
}
