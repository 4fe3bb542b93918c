// Command oracles asks the libraries that dialects of schedules are named after for due times, and writes
// their answers as vectors, which the tests of the package schedule compare with its own. The libraries are
// installed at pinned versions in a temporary folder, from where the machine gets its packages.
//
//	oracles [-out DIR] [NAME…]
//
// Without names it asks all. The questions are the same each time, so that changes in the files are those of
// the libraries.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"embed"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed ask
var programs embed.FS

// oracle is a library, and the questions to it. Its program in ask/NAME is started by a file "run" in a
// folder of its own; it reads lines "expression|zone|start", and prints for each one the times, or why it
// refuses the expression after "refused". A last word such as ">2027-01-01T00:00:00Z" is up to when there is
// no other.
type oracle struct {
	name    string
	version string
	ask     func(n int, seed uint64) []question
}

var oracles = []oracle{
	{"cron", "Debian's cron 3.0pl1-162, ten days of the daemon; > is up to when there is no other", crontabQuestions},
	{"robfig", "github.com/robfig/cron v3.0.1, ParseStandard, as Kubernetes' CronJobs have it",
		grammar{fields: []part{minutes, hours, monthday, months, weekday}, blank: "?"}.randomQuestions},
	{"croner", "croner 11.0.1, with six fields",
		grammar{fields: []part{seconds, minutes, hours, monthday, months, sunday07}, closed: true}.randomQuestions},
	{"node-cron", "node-cron 4.6.0, with six fields",
		grammar{fields: []part{seconds, minutes, hours, monthday, months, sunday07}, closed: true,
			odd: true}.randomQuestions},
	{"apscheduler", "APScheduler 3.11.3, CronTrigger; fields from second to day_of_week, _ is a blank",
		trigger.randomQuestions},
	{"dateutil", "python-dateutil 4.0.0, rrulestr", ruleQuestions},
	{"lib-recur", "lib-recur 0.17.1, RecurrenceRule", ruleQuestions},
	{"quartz", "Quartz 2.5.2, CronExpression", grammar{fields: []part{seconds, minutes, hours, monthday, months, sunday1},
		odd: true, unless: true, wraps: true}.randomQuestions},
	{"spring", "Spring Framework 7.0.1, CronExpression",
		grammar{fields: []part{seconds, minutes, hours, monthday, months, weekday}, odd: true, blank: "?"}.randomQuestions},
	{"celery", "Celery 5.7.0, crontab, as django-celery-beat 2.9 has it",
		grammar{fields: []part{minutes, hours, monthday, months, weekday}, wraps: true, closed: true}.randomQuestions},
	{"fugit", "Fugit 1.5.2 of Debian 12, as sidekiq-cron has it",
		grammar{fields: []part{minutes, hours, monthday, months, weekday}, wraps: true, odd: true}.randomQuestions},
	{"systemd", "systemd 252, systemd-analyze calendar", calendarEvents},
}

const asked = 2600

func main() {
	out := flag.String("out", "../schedule/testdata/oracles", "where the vectors are written")
	flag.Parse()
	for _, o := range oracles {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), o.name) {
			continue
		}
		if err := o.writeVectors(filepath.Join(*out, o.name+".txt")); err != nil {
			fmt.Fprintf(os.Stderr, "oracles: %s: %v\n", o.name, err)
			os.Exit(1)
		}
	}
}

// writeVectors asks the library, and writes its answers to a file.
func (o *oracle) writeVectors(file string) error {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := programs.ReadDir("ask/" + o.name)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := programs.ReadFile("ask/" + o.name + "/" + f.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), text, 0o700); err != nil {
			return err
		}
	}
	list := o.ask(asked, uint64(crc32.ChecksumIEEE([]byte(o.name))))
	var in, answers bytes.Buffer
	for _, q := range list {
		fmt.Fprintf(&in, "%s|%s|%s\n", q.expr, q.zone, q.start.Format(time.RFC3339))
	}
	cmd := exec.Command("./run")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, &in, &answers, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	lines := []string{"# " + o.version +
		": expression, zone, start, the first time after it and by how many seconds the next ones are later, or why it is refused."}
	scan := bufio.NewScanner(&answers)
	for _, q := range list {
		if !scan.Scan() {
			return cmp.Or(scan.Err(), fmt.Errorf("%d of %d questions were answered", len(lines)-1, len(list)))
		}
		answer, err := shortenAnswer(scan.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", q.expr, err)
		}
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s", q.expr, q.zone, q.start.Format(time.RFC3339), answer))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// shortenAnswer returns an answer with the distances of its times after the first.
func shortenAnswer(answer string) (string, error) {
	if strings.HasPrefix(answer, "refused") {
		return answer, nil
	}
	words := strings.Fields(answer)
	var before time.Time
	for i, word := range words {
		word, last := strings.CutPrefix(word, ">")
		at, err := time.Parse(time.RFC3339, word)
		if err != nil {
			return "", err
		}
		if words[i] = at.UTC().Format(time.RFC3339); i > 0 {
			words[i] = fmt.Sprintf("%+d", at.Unix()-before.Unix())
		}
		if last {
			words[i] = ">" + words[i]
		}
		before = at
	}
	return strings.Join(words, " "), nil
}
