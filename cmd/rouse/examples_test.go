package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/node"
)

// parsedOnly are the examples that are parsed and not run, as they need more than a server, or never end.
// Scripts run their commands.
var parsedOnly = regexp.MustCompile(`^(dev|pool|cert|controller|dapr-|migrate-store|backup|restore|listen|mcp|bench|check)\b` +
	`|^(profile|scaler|schema|work|call|answer|completion|docs|reminders|import-reminders|clock advance)\b` +
	`|--server|--offline|--tls-cert|/etc/|/var/|(-f|--follow)$|from dapr-etcd`)

// madeUp is what examples name that no server has.
const madeUp = `3k9qv2m7c0ar|0f3k9q2m7d8x1c5v6b4n3z2a1s|bulk-0mwzracjx-oforg|calendar-holidays|login\.example\.com|dead redrive coffee`

// exampleEnds are the exit codes of examples other than 0; the first that matches counts.
var exampleEnds = []struct {
	of  *regexp.Regexp
	end int
}{
	{regexp.MustCompile(madeUp), cli.ExitNotFound},
	{regexp.MustCompile(`--if-revision 42`), cli.ExitConflict},
	{regexp.MustCompile(`^doctor`), cli.ExitWarning},
	{regexp.MustCompile(`^apply .*--dry-run`), cli.ExitWouldChange},
	{regexp.MustCompile(`^report .* -- `), 127},           // the command does not exist
	{regexp.MustCompile(`^export --to`), cli.ExitFailure}, // there are timers that no other scheduler can have
}

// exampleFiles are those that examples read.
var exampleFiles = map[string]string{
	"timers.jsonl":  `{"name": "a", "schedule": "@every 1h", "target": "stream:x"}` + "\n",
	"timers/b.yaml": "{name: b, schedule: '@every 1h', target: 'stream:x'}\n",
	"timers.yaml":   "{name: c, schedule: '@every 1h', target: 'stream:x'}\n",
	"holidays.json": `{"name": "holidays", "days": [{"date": "2027-12-24"}]}`,
	"closed.json":   `{"days": [{"date": "2027-12-24"}]}`,
	"stripe.txt":    "x",
	"crm.txt":       "x",
	"key.txt":       "x",
	"backup.log":    "no space left on device\n",
	"holidays.ics": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\n" +
		"DTSTART;VALUE=DATE:20271224\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
	"crontab.txt": "30 2 * * * /usr/local/bin/backup\n",
	"river.jsonl": `{"id":1,"state":"scheduled","attempt":0,"max_attempts":25,"scheduled_at":"2090-01-31T09:00:00+00:00",` +
		`"priority":1,"args":{},"kind":"remind","metadata":{},"queue":"default","tags":[]}` + "\n",
}

// example is a command of the help, and the file that a shell writes its output into.
type example struct{ text, into string }

var (
	besides = regexp.MustCompile(` \| | && |; |<\(`) // between commands of a line
	runs    = regexp.MustCompile(`^(?:[A-Z_]+=\S+(?: [a-z.]+\))? )*rouse (.*?)(?: < .*| > (.*)|\))?$`)
)

// examples are those in the help of all commands.
func examples(t *testing.T) (list []example) {
	t.Helper()
	parser, err := newParser(cli.NewApp(t.Context(), os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(true) {
		_, text, _ := strings.Cut(n.Detail, "Examples:")
		for line := range strings.Lines(text) {
			for _, part := range besides.Split(strings.TrimSpace(line), -1) {
				if m := runs.FindStringSubmatch(part); m != nil {
					list = append(list, example{text: m[1], into: m[2]})
				} else if strings.Contains(part, "rouse ") {
					t.Errorf("%s: what does this run?", line)
				}
			}
		}
	}
	if len(list) < 250 {
		t.Errorf("%d examples were found", len(list))
	}
	return list
}

// shellWords divides a command as a shell does.
func shellWords(command string) (list []string) {
	for _, w := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(command, -1) {
		list = append(list, strings.ReplaceAll(w, "'", ""))
	}
	return list
}

// TestExamplesOfHelpWork runs each example of the help, for a server that has what they name: schedules,
// times, filters and roles of examples are valid.
func TestExamplesOfHelpWork(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range exampleFiles {
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	admin := access.GenerateKey()
	if err := os.WriteFile("the-admin.key", []byte(admin), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) {
		c.AdminKeyFile, c.AuditLog, c.AllowPrivate, c.Data = "the-admin.key", node.Names{"store"}, true, "data"
	}, node.WithClock(node.NewStillClock(time.Date(2027, 1, 20, 6, 30, 0, 0, time.UTC))))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		_ = n.Close()
		<-ended
	})
	t.Setenv("ROUSE_SERVER", n.Addr())
	t.Setenv("ROUSE_KEY", admin)
	c, err := client.Dial(n.Addr(), client.Options{Token: admin, Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, ns := range []string{"default", "billing", "acme"} {
		if _, err := c.Namespaces().Put(t.Context(), ns, rouse.Quotas{}); err != nil {
			t.Fatal(err)
		}
	}
	check := rouse.Spec{Schedule: "@every 24h", Target: "check:", Expect: rouse.Expect{Grace: time.Hour}}
	if _, err := c.Create(t.Context(), "default", "backup", check); err != nil {
		t.Fatal(err)
	}
	for _, e := range examples(t) {
		for _, ns := range []string{"default", "billing"} {
			spec := rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x", Labels: map[string]string{"team": "billing"}}
			if _, err := c.CreateOrReplace(t.Context(), ns, "coffee", spec); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(e.text, "create ") {
			if _, err := c.Delete(t.Context(), "default", "coffee"); err != nil {
				t.Fatal(err)
			}
		}
		var out, errOut bytes.Buffer
		a := cli.NewApp(t.Context(), os.Stdin, os.Stdout, os.Stderr)
		a.In, a.Out, a.ErrOut = strings.NewReader(exampleFiles["closed.json"]), &out, &errOut
		// A server of its own would not end, and rouse config refuses the same settings.
		command, err := parseCommand(a, shellWords(regexp.MustCompile(`^serve\b`).ReplaceAllString(e.text, "config")))
		if err == nil && !parsedOnly.MatchString(e.text) {
			a.AskClock()
			err = command.Run(a)
		}
		want := cli.ExitOK
		for _, other := range slices.Backward(exampleEnds) {
			if other.of.MatchString(e.text) {
				want = other.end
			}
		}
		if got := a.ReportError(err); got != want {
			t.Errorf("rouse %s: exit code %d, want %d: %s", e.text, got, want, &errOut)
		}
		if e.into == "timers.jsonl" {
			if err := os.WriteFile(e.into, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
