package foreign_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
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

// written are the kinds that can be written, with how many of the expressions of TestLeavingTimes each can
// express at least.
var written = map[string]int{"crontab": 330, "k8s-cronjob": 330, "quartz": 400, "eventbridge": 300}

const leavingNow = rouse.Instant(1_800_000_000_000) // 2027

// leaving returns a timer that has been made at leavingNow.
func leaving(name string, s rouse.Spec) (rouse.Timer, rouse.Schedule, error) {
	key := rouse.Key{Namespace: "default", Name: name}
	times, err := schedule.Compile(&s, rouse.ScheduleInput{Key: key, Anchor: leavingNow})
	if err != nil {
		return rouse.Timer{}, nil, err
	}
	timer, err := rouse.NewTimer(key, s, leavingNow, leavingNow, times)
	return timer, times, errors.Join(err, s.Check())
}

// write writes timers, and returns the file and what is lost; those that are refused end with an exclamation
// mark.
func write(t *testing.T, kind string, timers []rouse.Timer) (file, lost string) {
	t.Helper()
	var out bytes.Buffer
	var losses strings.Builder
	w, all, err := foreign.NewWriter(kind, &out, foreign.WriteOptions{Image: "curl:1",
		ARN: "arn:aws:lambda:eu-north-1:1:function:run", Role: "arn:aws:iam::1:role/scheduler", Class: "com.example.Call"})
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for i := range timers {
		notes, err := w.Write(&timers[i], leavingNow)
		if inv, ok := err.(*rouse.Invalid); ok && inv.Problems[0].Cure != "" {
			fmt.Fprintf(&losses, "%s: %v!\n", timers[i].Key.Name, err)
		} else if err != nil {
			t.Fatal(err)
		}
		for _, n := range notes {
			fmt.Fprintf(&losses, "%s: %s\n", timers[i].Key.Name, n)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), losses.String()
}

func read(t *testing.T, kind, file string) []foreign.Entry {
	t.Helper()
	entries, _, err := foreign.Read(kind, []byte(file), foreign.Options{Target: "https://run.example.com/{name}"})
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	return entries
}

// TestWaysBack: what was imported from the files of testdata comes back as it was, unless a note has what is
// lost.
func TestWaysBack(t *testing.T) {
	for kind, enough := range map[string]int{"crontab": 4, "k8s-cronjob": 3, "quartz": 2, "eventbridge": 4} {
		same := 0
		err := filepath.WalkDir(filepath.Join("testdata", kind), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) == ".golden" {
				return err
			}
			in, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			entries, _, _ := foreign.Read(kind, in, foreign.Options{Target: "https://run.example.com/{name}"})
			for i := range entries {
				e := &entries[i]
				timer, _, err := leaving(e.Name, e.Spec)
				if e.Err != nil || err != nil || strings.HasPrefix(e.Spec.Schedule, "@after") { // which comes back as an instant
					continue
				}
				if e.Paused && kind != "crontab" {
					if err := timer.Pause("", 0, leavingNow); err != nil {
						return err
					}
				}
				file, lost := write(t, kind, []rouse.Timer{timer})
				if strings.Contains(lost, "lost: ") || strings.Contains(lost, "!\n") {
					t.Logf("%s: %s", path, lost)
					continue
				}
				if back := read(t, kind, file); len(back) != 1 || back[0].Err != nil || shownEntry(t, kind, &back[0]) != shownEntry(t, kind, e) {
					t.Errorf("%s: %s came back as\n%s\nfrom\n%s", path, shownEntry(t, kind, e), shownEntry(t, kind, &back[0]), file)
				}
				same++
			}
			return nil
		})
		if err != nil || same < enough {
			t.Errorf("%s: only %d came back as they were: %v", kind, same, err)
		}
	}
}

// shownEntry shows what a way out and back keeps.
func shownEntry(t *testing.T, kind string, e *foreign.Entry) string {
	t.Helper()
	s := e.Spec
	s.Target, s.Timezone = "", strings.TrimSuffix(s.Timezone, "UTC")
	var payload any
	if err := json.Unmarshal(s.Payload, &payload); err != nil {
		payload = string(s.Payload)
	}
	if text := fmt.Sprint(payload); text == "map[]" || strings.Contains(text, "curl:1") {
		payload = nil // the entry has no template
	}
	s.Payload = nil
	if kind == "quartz" && strings.HasPrefix(s.Schedule, "@every") {
		s.Misfire = 0 // what it is without an instruction depends on the trigger
	}
	if kind == "quartz" && s.End != 0 {
		s.Start = 0 // an end needs one
	}
	if s.Start <= leavingNow || strings.HasPrefix(s.Schedule, "@every") || strings.HasPrefix(s.Schedule, "aws:rate") {
		s.Start = 0 // an interval comes back with its next time
	}
	body, err := api.Encode(api.SpecOf(&s))
	if err != nil {
		t.Fatal(err)
	}
	name := e.Name
	if kind == "crontab" {
		name = "" // is made of the command, and of those next to it
	}
	return fmt.Sprint(name, string(body), payload, e.Paused && kind != "crontab")
}

// TestLeavingTimes: whatever is written comes back with the same times, and the same command.
func TestLeavingTimes(t *testing.T) {
	specs := slices.Concat(randomSpecs(t, "robfig", "", 400), randomSpecs(t, "quartz", "quartz:", 200), randomSpecs(t, "spring", "spring:", 200))
	for kind, enough := range written {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var timers []rouse.Timer
			var times []rouse.Schedule
			for i, s := range specs {
				timer, compiled, err := leaving(fmt.Sprintf("t-%d", i), s)
				if err != nil {
					continue
				}
				one, _ := write(t, kind, []rouse.Timer{timer})
				if entries, _, err := foreign.Read(kind, []byte(one), foreign.Options{Target: "https://a.example.com/"}); err != nil || len(entries) == 0 {
					continue // it was refused, and the file has nothing
				}
				timers, times = append(timers, timer), append(times, compiled)
			}
			file, lost := write(t, kind, timers)
			if strings.Contains(lost, "!\n") {
				t.Fatal(lost)
			}
			var entries []foreign.Entry
			for part := range strings.SplitSeq(file, "\n---\n") { // the decoder of YAML takes long for many documents
				entries = append(entries, read(t, kind, part)...)
			}
			if len(entries) != len(timers) || len(timers) < enough {
				t.Fatalf("%d timers of %d came back as %d", len(timers), len(specs), len(entries))
			}
			for i := range entries {
				e, timer := &entries[i], &timers[i]
				back, err := schedule.Compile(&e.Spec, rouse.ScheduleInput{Key: timer.Key, Anchor: leavingNow})
				if e.Err != nil || err != nil {
					t.Fatalf("%s: %v %v", timer.Key.Name, e.Err, err)
				}
				most := uint64(20)
				if timer.Spec.MaxOccurrences > 0 {
					most = min(most, timer.Spec.MaxOccurrences)
				}
				for at := timer.Due - 1; most > 0; most-- {
					next, ok := times[i].Next(at)
					got, also := back.Next(at)
					if ok != also || next != got {
						t.Fatalf("%+v became %+v: after %v comes %v, not %v", timer.Spec, e.Spec, at, got, next)
					}
					if at = next; !ok {
						break
					}
				}
			}
			t.Logf("%d of %d", len(timers), len(specs))
		})
	}
}

// randomSpecs returns specs with expressions of a file of testdata/oracles, a few intervals and instants, and
// policies by chance.
func randomSpecs(t *testing.T, library, prefix string, n int) (specs []rouse.Spec) {
	t.Helper()
	f, err := os.Open("../../schedule/testdata/oracles/" + library + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for scan := bufio.NewScanner(f); scan.Scan() && len(specs) < n; {
		expr, rest, ok := strings.Cut(scan.Text(), "|")
		zone, _, _ := strings.Cut(rest, "|")
		if !ok {
			continue
		}
		if prefix != "" && r.IntN(3) > 0 {
			_, expr, _ = strings.Cut(expr, " ")
			expr = "0 " + expr
		}
		s := rouse.Spec{Schedule: prefix + expr, Timezone: zone, Target: "https://a.example.com/%7Bx%7D?q=1&r='"}
		switch r.IntN(20) {
		case 0:
			s.Schedule, s.Timezone = "@every "+(time.Duration(1+r.IntN(300))*30*time.Second).String(), ""
			if r.IntN(3) == 0 {
				s.MaxOccurrences = uint64(1 + r.IntN(4))
			}
		case 1:
			s.Schedule, s.Timezone = leavingNow.Add(time.Duration(1+r.IntN(9999999))*500*time.Millisecond).String(), ""
		case 2:
			s.Start = leavingNow.Add(time.Duration(r.IntN(9999999)-5000000) * time.Second)
		case 3:
			s.End = leavingNow.Add(10*365*24*time.Hour + time.Duration(r.IntN(9999999))*time.Second)
		case 4:
			s.DST = []string{"skip,both", "skip,second", "second", "shift"}[r.IntN(4)]
		}
		switch r.IntN(6) {
		case 0:
			s.Payload, s.ContentType = []byte(`{"a": "100 %, \\% it's", "b": [1,`+"\n"+`2]}`), "application/json"
		case 1:
			s.Payload, s.ContentType = []byte("50% of it's\\"), "text/plain"
		case 2:
			s.Webhook.Headers = map[string]string{"Authorization": "Bearer {{secret:pay}}"}
		case 3:
			s.Misfire = rouse.MisfireSkip
		}
		specs = append(specs, s)
	}
	return specs
}

// TestCurlCommands: a shell gives curl the arguments that are meant.
func TestCurlCommands(t *testing.T) {
	for _, payload := range []string{"", "plain", `it's 100 % "of" $HOME`, `{"a": "\\%"}`, "@file", `\%`, `\\`, "äö"} {
		timer, _, err := leaving("a", rouse.Spec{Schedule: "@daily", Target: "https://a.example.com/?q=%27'$(id)", Payload: []byte(payload), ContentType: "text/plain"})
		if err != nil {
			t.Fatal(err)
		}
		file, lost := write(t, "crontab", []rouse.Timer{timer})
		if lost != "" {
			t.Fatal(lost)
		}
		_, command, _ := strings.Cut(file, "@daily ")
		command = cronCommand(strings.TrimSuffix(command, "\n"))
		out, err := exec.Command("sh", "-c", `curl() { printf '%s\n' "$@"; }; `+command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		want := []string{"-fsSg", "-X", "POST"}
		if payload != "" {
			if json.Valid([]byte(payload)) {
				payload = strings.ReplaceAll(payload, ": ", ":")
			}
			want = append(want, "-H", "Content-Type: text/plain", "--data-raw", payload)
		}
		want = append(want, "--max-time", "30", timer.Spec.Target)
		if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s\n%q\n%q", command, got, want)
		}
	}
}

// cronCommand reads a command as crons do: a backslash takes the meaning from the character after it, and
// goes only before a percent sign.
func cronCommand(line string) string {
	var out []byte
	escaped := false
	for i := range len(line) {
		switch b := line[i]; {
		case escaped && b == '%':
			out[len(out)-1] = '%'
			escaped = false
			continue
		case !escaped && b == '%':
			return string(out)
		default:
			escaped = b == '\\' && !escaped
			out = append(out, b)
		}
	}
	return string(out)
}

// TestNamesComeBack: a timer comes back with its name, or is refused; a crontab has no names.
func TestNamesComeBack(t *testing.T) {
	for kind := range written {
		for _, name := range []string{"a", "shop/a", "DEFAULT/a", "default/a", "/a", "a/", "a b", "a/b/c", "A", "Å"} {
			timer, _, err := leaving(name, rouse.Spec{Schedule: "0 6 * * *", Target: "https://a.example.com/"})
			if err != nil {
				t.Fatal(err)
			}
			file, lost := write(t, kind, []rouse.Timer{timer})
			switch refused := strings.Contains(lost, "!\n"); {
			case refused && !strings.Contains(lost, "name"), refused && (kind == "crontab" || name == "a" || name == "shop/a"):
				t.Errorf("%s: %s: %s", kind, name, lost)
			case refused || kind == "crontab":
			default:
				if back := read(t, kind, file); len(back) != 1 || back[0].Err != nil || back[0].Name != name {
					t.Errorf("%s: %s came back as %+v", kind, name, back)
				}
			}
		}
	}
}

// TestLabelsOfApply: what apply and import have labelled a timer with stays here, and is not told as lost;
// the timer comes back as one of its own.
func TestLabelsOfApply(t *testing.T) {
	labels := map[string]string{"rouse.owner": "shop", "rouse.applied": "1f2e", "rouse.imported": "crontab"}
	for kind := range written {
		for _, own := range []string{"", "billing"} {
			s := rouse.Spec{Schedule: "0 6 * * *", Target: "https://a.example.com/", Labels: maps.Clone(labels)}
			if own != "" {
				s.Labels["team"] = own
			}
			timer, _, err := leaving("a", s)
			if err != nil {
				t.Fatal(err)
			}
			file, lost := write(t, kind, []rouse.Timer{timer})
			if strings.Contains(file+lost, "rouse.") || strings.Contains(lost, "!\n") || own == "" && strings.Contains(lost, "labels") {
				t.Errorf("%s: %s\n%s", kind, lost, file)
			}
			back := read(t, kind, file)
			if len(back) != 1 || back[0].Err != nil {
				t.Fatalf("%s: %+v", kind, back)
			}
			for key := range back[0].Spec.Labels {
				if key != "team" {
					t.Errorf("%s: it has come back with the label %s", kind, key)
				}
			}
			if len(timer.Spec.Labels) != len(s.Labels) || timer.Spec.Labels["rouse.owner"] != "shop" {
				t.Errorf("%s: the export has changed the timer: %v", kind, timer.Spec.Labels)
			}
		}
	}
}

// TestWritten: timers as each kind has them, and what is lost. ROUSE_UPDATE=1 writes the files.
func TestWritten(t *testing.T) {
	const url = "https://a.example.com/run"
	specs := []rouse.Spec{
		{Schedule: "30 2 * * MON-FRI", Timezone: "Europe/Stockholm", DST: "skip,both", Target: url},
		{Schedule: "0 6 1 * *", Timezone: "Europe/Stockholm", Target: url, Payload: []byte(`{"kind": "100%"}`), ContentType: "application/json",
			Webhook: rouse.Webhook{Method: "PUT", Headers: map[string]string{"Authorization": "Bearer {{secret:pay}}"}, Batch: 10},
			Retry:   rouse.Retry{Attempts: 3}, Misfire: rouse.MisfireWithin, Within: time.Hour, Overlap: rouse.OverlapAllow, Labels: map[string]string{"team": "billing", "note": "a b"}},
		{Schedule: "H * * * *", Target: url, Jitter: 5 * time.Minute, Priority: rouse.PriorityHigh, Criticality: 2, Deadline: time.Minute},
		{Schedule: "30 2 * * *", Timezone: "Europe/Stockholm", Target: url},
		{Schedule: "*/10 * * * *", Timezone: "Europe/Stockholm", Target: url, Misfire: rouse.MisfireSkip},
		{Schedule: "0 0 1-7 * MON", Target: url},
		{Schedule: "0 0 */2 * MON", Target: url},
		{Schedule: "cron6:5 0 6 * * *", Target: url},
		{Schedule: "quartz:0 0 6 LW * ?", Target: url},
		{Schedule: "@every 90m", Target: url, MaxOccurrences: 3},
		{Schedule: "@every 90m", Target: url, TTL: 48 * time.Hour},
		{Schedule: "@every 1500ms", Target: url},
		{Schedule: "R/2027-01-31T00:00:00Z/P1M", Target: url},
		{Schedule: "rrule:FREQ=DAILY", Start: leavingNow, Target: url},
		{Schedule: "2027-06-01T08:00:00Z", Target: url},
		{Schedule: "@after 1500ms", Target: url},
		{Schedule: "0 6 * * *", Start: leavingNow.Add(30 * 24 * time.Hour), Target: url},
		{Schedule: "0 6 * * *", Also: []string{"0 7 * * *"}, Target: url},
		{Schedule: "0 6 * * *", Except: []string{"2027-12-24"}, Target: url},
		{Schedule: "0 6 * * *", Target: "pool:work/a"},
		{Schedule: "0 6 * * *", Target: url, Payload: []byte{0xff, 0}},
		{Schedule: "0 6 * * *", Target: url, Payload: []byte(`{"command": "a \\% b"}`)},
		{Schedule: "0 6 * * *", Target: url, Payload: []byte(`{"command": "printenv", "user": "www", "environment": {"A": "1", "B": "it's"}}`)},
		{Schedule: "0 6 * * *", Target: url, Payload: []byte(strings.Repeat("x", 1000))},
		{Schedule: "5-50/15 */6 */2 JAN-JUN/2 *", Target: url},
		{Schedule: "5/20,7 1,3/7 * * */2", Target: url},
		{Schedule: "quartz:0 0 22-2 ? FEB,4 MON-FRI/2 2030/10", Target: url},
	}
	var timers []rouse.Timer
	for i, s := range specs {
		timer, _, err := leaving(fmt.Sprintf("t-%02d", i), s)
		if err != nil {
			t.Fatal(s, err)
		}
		timers = append(timers, timer)
	}
	if err := timers[0].Pause("", leavingNow.Add(time.Hour), leavingNow); err != nil {
		t.Fatal(err)
	}
	for kind := range written {
		file, lost := write(t, kind, timers)
		path, got := filepath.Join("testdata", "written-"+kind+".golden"), file+"\n"+lost
		if os.Getenv("ROUSE_UPDATE") != "" {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("got, not what %s has: %v\n%s", path, err, got)
		}
	}
}
