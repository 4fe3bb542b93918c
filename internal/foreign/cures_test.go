package foreign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// create is a timer that an error tells to create in addition to the file.
var create = regexp.MustCompile(`rouse create -s '([^']*)'`)

// TestCures: what an error tells to write in a file instead is read from it, and what it tells to create is a
// schedule.
func TestCures(t *testing.T) {
	const (
		sidekiq     = `a: {cron: "%s", class: A}`
		eventBridge = `{"Name": "a", "ScheduleExpression": "%s", "Target": {"Arn": "a", "Input": "{}"}}`
		crontab     = "%s /bin/true\n"
		systemd     = "[Timer]\nOnCalendar=%s\nUnit=a.service\n"
		quartz      = "<job-scheduling-data><schedule><job><name>a</name></job><trigger>%s</trigger></schedule></job-scheduling-data>"
		celery      = `[{"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": {"minute": "%s", "hour": "*", "day_of_month": "*",` +
			`"month_of_year": "*", "day_of_week": "*", "timezone": "UTC"}},` +
			`{"model": "django_celery_beat.periodictask", "pk": 1, "fields": {"name": "a", "task": "a", "crontab": 1}}]`
		cronJob = `{"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": "%s"}}`
		every2  = "rrule:FREQ=WEEKLY;INTERVAL=2;BYDAY="
	)
	quartzCron := fmt.Sprintf(quartz, "<cron><name>a</name><job-name>a</job-name><cron-expression>%s</cron-expression></cron>")
	for _, c := range []struct{ kind, file, bad, cure, good string }{
		{"eventbridge", eventBridge, "cron(0 9 * * ?)", `write "cron(0 9 * * ? *)" for every year`, "cron(0 9 * * ? *)"},
		{"eventbridge", eventBridge, "cron(0 9 * *)", `"cron(30 2 ? * MON-FRI *)"`, "cron(30 2 ? * MON-FRI *)"},
		{"eventbridge", eventBridge, "rate(1 week)", `"rate(5 minutes)"`, "rate(5 minutes)"},
		{"quartz", quartzCron, "30 2 ? * MON-FRI", `write one such as "0 30 2 ? * MON-FRI"`, "0 30 2 ? * MON-FRI"},
		{"quartz", quartz, "<calendar-interval><name>a</name><job-name>a</job-name></calendar-interval>", "rouse create -s 'R/2027-01-01T00:00:00Z/P1M'", ""},
		{"sidekiq-cron", sidekiq, "0 9 * * tue%2", every2 + "TU;BYHOUR=9;BYMINUTE=0;BYSECOND=0'", ""},
		{"sidekiq-cron", sidekiq, "*/20 9,17 * * 7%4+1", "rrule:FREQ=WEEKLY;INTERVAL=4;BYDAY=SU;BYHOUR=9,17;BYMINUTE=0,20,40;BYSECOND=0'", ""},
		{"sidekiq-cron", sidekiq, "0 9 * * mon,tue%2", "give this day a job of its own", ""},
		{"sidekiq-cron", sidekiq, "0 9 1 * tue%2", "take out its days of the month", ""},
		{"sidekiq-cron", sidekiq, "0 9 * * tue%0", "write it as in mon%2", ""},
		{"sidekiq-cron", sidekiq, "*/0 * * * *", "use a step of 1 to 59", "*/59 * * * *"},
		{"sidekiq-cron", sidekiq, "0 9 * * mon/2", "write mon, or mon-7/2", "0 9 * * mon-7/2"},
		{"sidekiq-cron", sidekiq, "0 24-6/2 * * *", "begin at 0", "0 0-6/2 * * *"},
		{"sidekiq-cron", sidekiq, "every day at 5 am", "Fugit.parse(…).to_cron_s", "0 5 * * *"},
		{"celery-beat", celery, "5/2", "write 5, or 5-59/2", "5-59/2"},
		{"celery-beat", celery, "*/0", "use a step of 1 to 59", "*/1"},
		{"systemd", systemd, "Fri..Mon 12:00", "write Fri,Sat,Sun,Mon", "Fri,Sat,Sun,Mon 12:00"},
		{"systemd", systemd, "22..2:00", "write 22,23,0,1,2", "22,23,0,1,2:00"},
		{"systemd", systemd, "22..2/2:00", "write 22,0,2", "22,0,2:00"},
		{"systemd", systemd, "*:0/0", "use a step of 1 to 59", "*:0/1"},
		{"crontab", crontab, "0~59 3 * * *", ": H(0-59) 3 * * *", "H(0-59) 3 * * *"},
		{"crontab", crontab, "~ 8~ ~15 * *", ": H H(8-23) H(1-15) * *", "H H(8-23) H(1-15) * *"},
		{"crontab", crontab, "5-50/99999999999999999999 * * * *", "only 5 would match: write 5", "5 * * * *"},
	} {
		read := func(text string) error {
			entries, _, err := foreign.Read(c.kind, []byte(strings.Replace(c.file, "%s", text, 1)), foreign.Options{Target: "https://run.example.com/{name}", Now: now})
			if err == nil && len(entries) > 0 {
				err = entries[0].Err
			}
			return err
		}
		err := read(c.bad)
		if err == nil || !strings.Contains(err.Error(), c.cure) {
			t.Errorf("%s %q: %v, without %q", c.kind, c.bad, err, c.cure)
			continue
		}
		if c.good != "" {
			if err := read(c.good); err != nil {
				t.Errorf("%s %q, the cure of %q: %v", c.kind, c.good, c.bad, err)
			}
		}
		checkCreated(t, err.Error())
	}
}

// TestCuresOfFiles: no error of the files of testdata tells to write a form that only rouse has, where the
// file has its own, and what they tell to create is a schedule.
func TestCuresOfFiles(t *testing.T) {
	prefixes := map[string]string{"eventbridge": `"aws:`, "quartz": `"quartz:`}
	for _, kind := range foreign.Formats() {
		for _, path := range samples(t, kind) {
			text, err := os.ReadFile(path + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				_, refused, ok := strings.Cut(line, "refused: ")
				if prefix := prefixes[kind]; ok && prefix != "" && strings.Contains(refused, prefix) {
					t.Errorf("%s: %s", filepath.Base(path), refused)
				}
				if ok {
					checkCreated(t, refused)
				}
			}
		}
	}
}

func checkCreated(t *testing.T, text string) {
	t.Helper()
	if m := create.FindStringSubmatch(text); m != nil {
		if _, err := schedule.Parse(m[1], schedule.Options{Anchor: now}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
