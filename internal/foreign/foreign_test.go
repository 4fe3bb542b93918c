package foreign_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
				entries, notes, err := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}", File: path, Now: now})
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

// TestReadAgain: a file that is read again later gives the same timers, so that the import of it creates none
// again and changes none.
func TestReadAgain(t *testing.T) {
	for _, kind := range foreign.Formats() {
		for _, path := range samples(t, kind) {
			in, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var specs [2][]string
			for i, at := range []rouse.Instant{now, now.Add(time.Hour)} {
				entries, _, err := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}", Now: at})
				for _, e := range entries {
					specs[i] = append(specs[i], fmt.Sprintf("%s %+v %v", e.Name, e.Spec, e.Err))
				}
				if err != nil {
					specs[i] = append(specs[i], err.Error())
				}
			}
			for i, first := range specs[0] {
				if i >= len(specs[1]) || specs[1][i] != first {
					t.Errorf("%s: %s became\n%v", path, first, specs[1])
				}
			}
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

// TestSidekiqFiles: files of sidekiq-scheduler, and those with jobs below an environment, are told as what
// they are; of two jobs of a name, the last counts.
func TestSidekiqFiles(t *testing.T) {
	const scheduler = "is of sidekiq-scheduler"
	for in, want := range map[string]string{
		":concurrency: 5\n:scheduler:\n  :schedule:\n    a:\n      cron: '0 5 * * *'\n      class: A\n": scheduler,
		":schedule:\n  a:\n    every: 5m\n    class: A\n":                                               scheduler,
		"schedule: {a: {cron: 0 5 * * *, class: A}}\n":                                                  scheduler,
		"scheduler: {schedule: {a: {every: [5m], class: A}}}\n":                                         scheduler,
		"production:\n  a: {cron: 0 5 * * *, class: A}\n":                                               `entry "production": is no job, but has some, such as a; give the hash under production`,
		"schedule: {cron: 0 5 * * *, class: A}\n":                                                       "",
		"a: {cron: 0 5 * * *, class: A, args: {b: {class: B}}}\n":                                       "",
		"a: {cron: 0 5 * * *, class: A, class: B}\n":                                                    "",
	} {
		entries, _, err := foreign.Read("sidekiq-cron", []byte(in), foreign.Options{Target: "https://run.example.com/{name}"})
		if err == nil {
			err = entries[0].Err
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", in, err)
		}
	}
	in := []byte("a: {cron: 0 5 * * *, class: A}\nb: {cron: 0 5 * * *, class: B}\na: {cron: 0 6 * * *, class: A}\n")
	entries, _, err := foreign.Read("sidekiq-cron", in, foreign.Options{Target: "https://run.example.com/{name}"})
	if err != nil || len(entries) != 3 || entries[0].Err == nil || entries[1].Err != nil || entries[2].Err != nil || entries[2].Spec.Schedule != "0 6 * * *" {
		t.Errorf("%+v %v", entries, err)
	}
}

// TestAliases: an alias of YAML is read, and what aliases add to a file is bounded before anything is
// decoded: aliases of aliases multiply it.
func TestAliases(t *testing.T) {
	jobs := "a: &a {cron: 0 5 * * *, class: A, args: [1]}\nb: *a\nc: {<<: *a, class: C}\n"
	entries, _, err := foreign.Read("sidekiq-cron", []byte(jobs), foreign.Options{Target: "stream:x"})
	if err != nil || len(entries) != 3 || entries[1].Spec.Labels["class"] != "A" || entries[2].Spec.Labels["class"] != "C" || entries[2].Err != nil {
		t.Errorf("%+v %v", entries, err)
	}
	grown := func(levels int) string { // 64 KiB, and eight times as much with each level
		text := "x0: &x0 !!str " + strings.Repeat("a", 64<<10) + "\n"
		for i := range levels {
			text += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i), 8), ", "))
		}
		return text
	}
	for kind, before := range map[string]string{"sidekiq-cron": "", "k8s-cronjob": "kind: CronJob\nmetadata: {name: a}\n"} {
		for levels := 1; levels <= 3; levels++ { // 512 KiB, 4.5 MiB, 36.5 MiB
			_, _, err := foreign.Read(kind, []byte(before+grown(levels)), foreign.Options{})
			if refused := err != nil && strings.Contains(err.Error(), "has aliases, which add more than 4194304 bytes to it"); refused != (levels > 1) {
				t.Errorf("%s with %d levels: %v", kind, levels, err)
			}
		}
	}
	many := strings.Repeat("kind: CronJob\nmetadata: {name: a}\n"+grown(1)+"---\n", 9)
	entries, _, err = foreign.Read("k8s-cronjob", []byte(many), foreign.Options{})
	if last := entries[len(entries)-1].Err; err != nil || last == nil || !strings.Contains(last.Error(), "has aliases") {
		t.Error("in documents together:", err, last)
	}
}

// TestPayloadsTogether: what entries share, and each gets a copy of, is bounded for a whole file.
func TestPayloadsTogether(t *testing.T) {
	const entries = 300
	shared := strings.Repeat("a", rouse.MaxPayload-1000)
	crontab, units, triggers := "A="+shared+"\n", "# /u/a.service\n[Service]\nExecStart="+shared+"\n", ""
	for i := range entries {
		crontab += fmt.Sprintf("0 5 * * * /bin/a%d\n", i)
		units += fmt.Sprintf("# /u/t%d.timer\n[Timer]\nUnit=a.service\nOnCalendar=daily\n", i)
		triggers += fmt.Sprintf("<trigger><cron><name>t%d</name><job-name>a</job-name><cron-expression>0 0 5 * * ?</cron-expression></cron></trigger>", i)
	}
	job := "<job><name>a</name><job-class>A</job-class><job-data-map><entry><key>a</key><value>" + shared + "</value></entry></job-data-map></job>"
	for kind, file := range map[string]string{
		"crontab": crontab, "systemd": units,
		"quartz": "<job-scheduling-data><schedule>" + job + triggers + "</schedule></job-scheduling-data>",
	} {
		list, _, err := foreign.Read(kind, []byte(file), foreign.Options{Target: "stream:x", Timezone: "UTC"})
		if err != nil || len(list) != entries || list[0].Err != nil || len(list[0].Spec.Payload) < len(shared) {
			t.Fatalf("%s: %d entries, %v, %v", kind, len(list), err, list[0].Err)
		}
		last := &list[entries-1]
		if last.Err == nil || !strings.Contains(last.Err.Error(), "with those before it, exceeds 67108864 bytes") || len(last.Spec.Payload) > 0 {
			t.Errorf("%s: %v, with %d bytes", kind, last.Err, len(last.Spec.Payload))
		}
	}
}

// TestRefused: what cannot be read at all is refused, with the cure.
func TestRefused(t *testing.T) {
	for kind, bad := range map[string][]string{
		"k8s-cronjob":     {"", "kind: [", "kind: Service", "---\nname: {{ .Values.name }}\n---\n{{- if .Values.more }}\n"},
		"eventbridge":     {"", "{", "[]", "{\"Name\": \"a\"}\n]\n{\"Name\": \"b\"}", "{\"Name\": \"a\"}}"},
		"cloud-scheduler": {"", "[{]"},
		"quartz":          {"", "<a/>", "<job-scheduling-data/>"},
		"systemd":         {"", "OnCalendar=daily", "# /etc/systemd/system/a.service\n[Service]\nExecStart=/bin/true\n"},
		"pg_cron":         {"", "jobid | schedule"},
		"celery-beat":     {"", "beat_schedule = {}", `[{"model": "auth.user", "pk": "a", "fields": {}}]`},
		"sidekiq-cron":    {"", "a: [", "7", "&a !!str\n", "<% 3.times do %>"},
		"sundial":         {"0 0 * * *"},
		"crontab":         {strings.Repeat("#", foreign.MaxBytes+1)},
	} {
		for _, in := range bad {
			_, _, err := foreign.Read(kind, []byte(in), foreign.Options{})
			if inv, ok := err.(*rouse.Invalid); !ok || inv.Problems[0].Cure == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %.40q: %v", kind, in, err)
			}
		}
	}
}

// TestByteOrderMark: the mark that editors write at the beginning of UTF-8 is no part of a file.
func TestByteOrderMark(t *testing.T) {
	for _, kind := range foreign.Formats() {
		for _, path := range samples(t, kind) {
			in, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			o := foreign.Options{Target: "https://run.example.com/{name}", File: path, Now: now}
			entries, _, err := foreign.Read(kind, in, o)
			marked, _, markedErr := foreign.Read(kind, append([]byte("\xef\xbb\xbf"), in...), o)
			if strings.HasPrefix(filepath.Base(path), "utf16.") { // it has a mark of its own
				continue
			}
			if got, want := shown(t, marked), shown(t, entries); got != want || (err == nil) != (markedErr == nil) {
				t.Errorf("%s: %v, not %v\n%s", path, markedErr, err, got)
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
