package foreign_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/schedule"
)

// now is the time at which files are read.
const now = rouse.Instant(1_800_000_000_000) // 2027

// samples returns the files of a kind: testdata/KIND, KIND.WHAT, and those of the folder.
func samples(t testing.TB, kind string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"", ".*", "/*"} {
		list, err := filepath.Glob("testdata/" + kind + pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, slices.DeleteFunc(list, func(path string) bool {
			info, err := os.Stat(path)
			return err != nil || info.IsDir() || filepath.Ext(path) == ".golden"
		})...)
	}
	if len(files) == 0 {
		t.Fatal(kind)
	}
	return files
}

// TestRead: each file of testdata gives the entries that the file next to it has. ROUSE_UPDATE=1 writes them.
func TestRead(t *testing.T) {
	for _, kind := range foreign.Formats() {
		for _, path := range samples(t, kind) {
			t.Run(kind+"/"+filepath.Base(path), func(t *testing.T) {
				in, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				entries, notes, err := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}", Now: now})
				if err != nil {
					golden(t, path, fmt.Sprintf("refused: %v\n", err))
					return
				}
				if len(notes) == 0 {
					t.Error("no notes")
				}
				got := shown(t, entries)
				for _, n := range notes {
					if strings.HasPrefix(n, "left out: ") || strings.HasPrefix(n, "not read: ") {
						got += n + "\n"
					}
				}
				golden(t, path, got)
			})
		}
	}
}

// golden compares with FILE.golden.
func golden(t *testing.T, path, got string) {
	t.Helper()
	path += ".golden"
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("got, not what %s has: %v\n%s", path, err, got)
	}
}

// shown returns entries as a text, and checks that a good one is a timer.
func shown(t *testing.T, entries []foreign.Entry) string {
	t.Helper()
	var out strings.Builder
	for i := range entries {
		e := &entries[i]
		fmt.Fprintf(&out, "%d %s", e.Line, e.Name)
		if e.Paused {
			out.WriteString(" paused")
		}
		if e.Passed {
			out.WriteString(" passed")
		}
		out.WriteString("\n")
		err := e.Err
		if err == nil && !e.Passed {
			key := rouse.Key{Namespace: "default", Name: e.Name}
			var s rouse.Schedule
			if s, err = schedule.Compile(&e.Spec, rouse.ScheduleInput{Key: key, Anchor: now}); err == nil {
				_, err = rouse.NewTimer(key, e.Spec, now, now, s)
			}
		}
		if err != nil {
			fmt.Fprintf(&out, "  refused: %v\n", err)
		} else {
			body, err := json.MarshalIndent(api.SpecOf(&e.Spec), "  ", " ")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "  %s\n", body)
		}
		for _, n := range e.Notes {
			fmt.Fprintf(&out, "  note: %s\n", n)
		}
	}
	return out.String()
}

// TestTargets: an entry without a target that rouse can reach needs one; another keeps its own, unless one is
// given.
func TestTargets(t *testing.T) {
	in := []byte(`[{"name": "a/jobs/own", "schedule": "0 6 * * *", "httpTarget": {"uri": "https://a.example.com/", "httpMethod": "POST"}},
		{"name": "a/jobs/none", "schedule": "0 6 * * *", "pubsubTarget": {"topicName": "t"}}]`)
	entries, _, err := foreign.Read("cloud-scheduler", in, foreign.Options{})
	if err != nil || entries[0].Spec.Target != "https://a.example.com/" || entries[0].Err != nil {
		t.Errorf("%+v %v", entries, err)
	}
	if err := entries[1].Err; err == nil || !strings.Contains(err.Error(), "target") {
		t.Error("an entry without a target:", err)
	}
	entries, _, err = foreign.Read("cloud-scheduler", in, foreign.Options{Target: "pool:jobs/{name}"})
	if err != nil || entries[0].Spec.Target != "pool:jobs/own" || entries[1].Spec.Target != "pool:jobs/none" {
		t.Errorf("%+v %v", entries, err)
	}
}

// TestTimezone: the zone that is given is that of entries without one, but where the source has them in UTC:
// that it is not used is noted.
func TestTimezone(t *testing.T) {
	for _, c := range []struct{ kind, in, zone string }{
		{"crontab", "0 6 * * * /bin/a", "Asia/Tokyo"},
		{"eventbridge", `{"Rules": [{"Name": "a", "Arn": "arn:aws:events:eu-west-1:000000000000:rule/a", "ScheduleExpression": "cron(0 6 * * ? *)"}]}`, ""},
		{"eventbridge", `{"Name": "a", "ScheduleExpression": "cron(0 6 * * ? *)"}`, ""},
		{"eventbridge", `{"Name": "a", "ScheduleExpression": "cron(0 6 * * ? *)", "ScheduleExpressionTimezone": "Europe/Rome"}`, "Europe/Rome"},
		{"cloud-scheduler", `{"name": "a", "schedule": "0 6 * * *"}`, ""},
		{"cloud-scheduler", `{"name": "a", "schedule": "0 6 * * *", "timeZone": "Europe/Rome"}`, "Europe/Rome"},
	} {
		entries, notes, err := foreign.Read(c.kind, []byte(c.in), foreign.Options{Target: "pool:jobs/{name}", Timezone: "Asia/Tokyo", Now: now})
		if err != nil || len(entries) != 1 || entries[0].Err != nil || entries[0].Spec.Timezone != c.zone {
			t.Errorf("%s: %+v %v", c.in, entries, err)
		}
		noted := strings.Contains(strings.Join(notes, "\n"), "the time zone Asia/Tokyo is not used")
		if used := c.zone == "Asia/Tokyo"; used == noted {
			t.Errorf("%s: %q", c.in, notes)
		}
	}
}

// TestSidekiqCronList: jobs may be a list, in which each has its name, instead of a map of names.
func TestSidekiqCronList(t *testing.T) {
	in := []byte("- {name: a, cron: every 5 minutes, class: A}\n- {name: b, cron: 0 5 * * * Asia/Tokyo, class: B}\n- 7\n- {cron: 0 5 * * *, class: C}\n")
	entries, _, err := foreign.Read("sidekiq-cron", in, foreign.Options{Target: "https://run.example.com/{name}"})
	if err != nil || len(entries) != 4 || entries[0].Name != "a" || entries[0].Spec.Schedule != "*/5 * * * *" || entries[1].Spec.Timezone != "Asia/Tokyo" {
		t.Fatalf("%+v %v", entries, err)
	}
	for _, e := range entries {
		if bad := e.Line > 2; bad != (e.Err != nil) {
			t.Errorf("%+v", e)
		}
	}
}

// TestRefused: what cannot be read at all is refused, with the cure.
func TestRefused(t *testing.T) {
	for kind, bad := range map[string][]string{
		"k8s-cronjob":     {"", "kind: [", "kind: Service"},
		"eventbridge":     {"", "{", "[]"},
		"cloud-scheduler": {"", "[{]"},
		"quartz":          {"", "<a/>", "<job-scheduling-data/>"},
		"systemd":         {"", "OnCalendar=daily", "# /etc/systemd/system/a.service\n[Service]\nExecStart=/bin/true\n"},
		"pg_cron":         {"", "jobid | schedule"},
		"celery-beat":     {"", "beat_schedule = {}", `[{"model": "auth.user", "pk": "a", "fields": {}}]`},
		"sidekiq-cron":    {"", "a: [", "7", "<% 3.times do %>"},
		"sundial":         {"0 0 * * *"},
		"crontab":         {strings.Repeat("#", foreign.MaxBytes+1)},
	} {
		for _, in := range bad {
			_, _, err := foreign.Read(kind, []byte(in), foreign.Options{})
			if inv, ok := err.(*rouse.Invalid); !ok || inv.Problems[0].Cure == "" {
				t.Errorf("%s %.40q: %v", kind, in, err)
			}
		}
	}
}

// FuzzRead: no file makes it panic, and no entry without an error has a spec that is refused.
func FuzzRead(f *testing.F) {
	for _, kind := range foreign.Formats() {
		for _, path := range samples(f, kind) {
			in, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(kind, in)
		}
	}
	f.Fuzz(func(t *testing.T, kind string, in []byte) {
		entries, _, err := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}", Now: now})
		for i := range entries {
			if e := &entries[i]; err != nil || e.Err == nil && !e.Passed && e.Spec.Check() != nil {
				t.Errorf("%+v with %v", e, err)
			}
		}
	})
}
