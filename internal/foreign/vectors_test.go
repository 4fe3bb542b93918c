package foreign_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/internal/oracletest"
	"github.com/rousehq/rouse/schedule"
)

var (
	nameStep = regexp.MustCompile(`[A-Z]{3}/`)
	openStep = regexp.MustCompile(`,\d+/|\d/\d+,`)
)

// TestAnswersOfLibraries compares the schedules that imports make with what the sources' own libraries have.
func TestAnswersOfLibraries(t *testing.T) {
	for _, c := range []struct {
		library, kind string
		file          func(*oracletest.Answer) string
		differs       func(*oracletest.Answer) string
	}{
		{"cron", "crontab", func(a *oracletest.Answer) string {
			return a.Expr + " /usr/local/bin/a\n"
		}, func(a *oracletest.Answer) string {
			if a.ChangesClocks() { // cron starts the jobs of a skipped hour one after the other
				return "jobs of a skipped hour"
			}
			return ""
		}},
		{"robfig", "k8s-cronjob", func(a *oracletest.Answer) string {
			return fmt.Sprintf(`{"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": %q, "timeZone": %q}}`, a.Expr, a.Zone)
		}, func(a *oracletest.Answer) string {
			if a.ChangesClocks() { // the library leaves out days on which clocks change at midnight, or by half an hour
				return "changes of the clocks"
			}
			return ""
		}},
		{"quartz", "quartz", func(a *oracletest.Answer) string {
			return fmt.Sprintf(`<job-scheduling-data><schedule><job><name>a</name></job><trigger><cron><name>a</name><job-name>a</job-name>`+
				`<cron-expression>%s</cron-expression><time-zone>%s</time-zone></cron></trigger></schedule></job-scheduling-data>`, a.Expr, a.Zone)
		}, func(a *oracletest.Answer) string {
			switch {
			case nameStep.MatchString(a.Expr):
				return "steps after names"
			case strings.Contains(a.Expr, "W "):
				return "times of a day with W"
			case a.ChangesClocks(): // with stars, Quartz is silent in the first pass of a repeat
				return "changes of the clocks"
			}
			return ""
		}},
		{"celery", "celery-beat", func(a *oracletest.Answer) string {
			f := strings.Fields(a.Expr)
			return fmt.Sprintf(`[{"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": {"minute": %q, "hour": %q, "day_of_month": %q, "month_of_year": %q, "day_of_week": %q, "timezone": %q}},`+
				`{"model": "django_celery_beat.periodictask", "pk": 1, "fields": {"name": "a", "task": "a", "crontab": 1}}]`, f[0], f[1], f[2], f[3], f[4], a.Zone)
		}, func(a *oracletest.Answer) string {
			if a.ChangesClocks() { // silent in the second pass of a repeat, and what a gap moves may be of another day
				return "changes of the clocks"
			}
			return ""
		}},
		{"fugit", "sidekiq-cron", func(a *oracletest.Answer) string {
			return fmt.Sprintf(`a: {cron: "%s %s", class: A}`, a.Expr, a.Zone)
		}, func(a *oracletest.Answer) string {
			week := strings.Fields(a.Expr)[4]
			switch {
			case strings.Contains(week, "/"), strings.Contains(week, ",") && strings.Contains(week, "*"): // a star in a list is left out
				return "steps and stars in days of the week"
			case a.ChangesClocks(): // counted days of the week, and days that begin with a gap
				return "changes of the clocks"
			}
			return ""
		}},
		{"systemd", "systemd", func(a *oracletest.Answer) string {
			return fmt.Sprintf("[Timer]\nOnCalendar=%s %s\nUnit=a.service\n", a.Expr, a.Zone)
		}, func(a *oracletest.Answer) string {
			switch {
			case openStep.MatchString(a.Expr): // past the end of the field it goes on in the next hour or month, and leaves out times there
				return "steps in lists"
			case a.Zone.String() == "Africa/Casablanca" && a.ChangesClocks(): // summer time is negative there
				return "changes of the clocks"
			}
			return ""
		}},
	} {
		t.Run(c.library, func(t *testing.T) {
			parse := func(a *oracletest.Answer) (rouse.Schedule, error) {
				entries, _, err := foreign.Read(c.kind, []byte(c.file(a)), foreign.Options{Target: "https://run.example.com/{name}", Timezone: a.Zone.String()})
				if err != nil || len(entries) != 1 || entries[0].Err != nil {
					return nil, fmt.Errorf("%v %+v", err, entries)
				}
				return schedule.Compile(&entries[0].Spec, rouse.ScheduleInput{})
			}
			oracletest.CompareAnswers(t, "../../schedule/testdata/oracles/"+c.library+".txt", parse, c.differs)
		})
	}
}
