package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

const (
	cliDoc    = "../../docs/cli.md"
	configDoc = "../../docs/configuration.md"
)

// TestCommandsAreDocumented compares the generated half of docs/cli.md with the command line. With ROUSE_UPDATE=1 it writes
// that half instead.
func TestCommandsAreDocumented(t *testing.T) {
	const begin, end = "<!-- generated from the command line: begin -->\n", "<!-- generated from the command line: end -->\n"
	body, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(body), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no generated part", cliDoc)
	}
	want := reference(t)
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile(cliDoc, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != want {
		t.Errorf("%s does not say what the command line does; run ROUSE_UPDATE=1 go test -run Documented ./cmd/rouse", cliDoc)
		for i, line := range strings.Split(want, "\n") {
			if lines := strings.Split(was, "\n"); i >= len(lines) || lines[i] != line {
				t.Fatalf("first difference in line %d, which should be\n%s", i+1, line)
			}
		}
	}
}

// reference is the generated half: exit codes, flags that every command takes, and each command with its own.
func reference(t *testing.T) string {
	a := newApp(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	parser, err := newParser(a)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.what)
	}
	b.WriteString("\n## Flags of every command\n\n")
	flagTable(&b, parser.Model.Node)
	for _, n := range parser.Model.Leaves(true) {
		fmt.Fprintf(&b, "\n## rouse %s\n\n%s\n", n.Path(), n.Help)
		aliases := n.Aliases
		for p := n.Parent; p != nil && p.Type == kong.CommandNode; p = p.Parent {
			if p.Detail != "" && p.DefaultCmd == n {
				fmt.Fprintf(&b, "\n`rouse %s` without a word after it does the same.\n", p.Name)
			}
		}
		if len(aliases) > 0 {
			fmt.Fprintf(&b, "\nAlso `rouse %s`.\n", strings.Join(aliases, "`, `rouse "))
		}
		fmt.Fprintf(&b, "\n```\nrouse %s\n```\n", strings.TrimSuffix(n.Summary(), " [flags]"))
		if n.Detail == "" || !strings.Contains(n.Detail, "Examples:") {
			t.Errorf("the help of %s has no examples", n.Path())
		}
		detail, examples, _ := strings.Cut(n.Detail, "Examples:")
		if detail = strings.TrimSpace(detail); detail != "" {
			fmt.Fprintf(&b, "\n%s\n", detail)
		}
		if len(n.Positional) > 0 {
			b.WriteString("\n| argument | meaning |\n|---|---|\n")
			for _, p := range n.Positional {
				fmt.Fprintf(&b, "| `%s` | %s |\n", p.Summary(), cell(helpOf(p)))
			}
		}
		if len(n.Flags) > 0 {
			b.WriteString("\n")
			if n.Name == "serve" || n.Name == "config" {
				b.WriteString("Settings, each of them a flag, are described in [configuration.md](configuration.md). In addition to them:\n\n")
			}
			flagTable(&b, n)
		}
		b.WriteString("\n```sh\n" + regexp.MustCompile(`(?m)^    `).ReplaceAllString(strings.Trim(examples, "\n"), "") + "\n```\n")
	}
	return b.String()
}

func flagTable(b *bytes.Buffer, n *kong.Node) {
	settings := map[string]bool{}
	for _, s := range new(Config).settings() {
		settings[s.Name] = true
	}
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, f := range n.Flags {
		if settings[f.Name] && f.Group != nil && f.Group.Key == "settings" { // a command may have a flag of its own of that name
			continue
		}
		text := "--" + f.Name
		if f.Short != 0 {
			text = "-" + string(f.Short) + ", " + text
		}
		if !f.IsBool() {
			text += " " + f.FormatPlaceHolder()
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", text, cell(helpOf(f.Value)))
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// TestSettingsAreDocumented demands of docs/configuration.md a section for each setting, with its default, flag and variable,
// and none for anything else.
func TestSettingsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(configDoc)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(body), "\n### ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections[name] = text
	}
	for _, s := range new(Config).settings() {
		text, ok := sections[s.Name]
		if !ok {
			t.Errorf("setting %s has no section in %s", s.Name, configDoc)
			continue
		}
		delete(sections, s.Name)
		def := "`" + s.Default + "`"
		if s.Default == "" {
			def = "nothing"
		}
		if want := fmt.Sprintf("\nDefault %s · `--%s` · `%s`\n", def, s.Name, envName(s.Name)); !strings.HasPrefix(text, want) {
			t.Errorf("the section of %s begins with %q, not with %q", s.Name, strings.SplitN(text, "\n", 3)[1], strings.Trim(want, "\n"))
		}
		if len(strings.TrimSpace(text)) < 120 {
			t.Errorf("the section of %s is too short", s.Name)
		}
	}
	for name := range sections {
		t.Errorf("%s has a section for %q, which is no setting", configDoc, name)
	}
}

// TestDefaultsAreWhatTheirTextsSay keeps the defaults in the tags valid, and readable as their printed form.
func TestDefaultsAreWhatTheirTextsSay(t *testing.T) {
	var c Config
	for _, s := range c.settings() {
		if err := s.Parse(s.Default); err != nil {
			t.Errorf("default of %s: %v", s.Name, err)
		}
		if got := s.Text(); got != s.Default {
			t.Errorf("default of %s is %q and prints as %q", s.Name, s.Default, got)
		}
	}
	if problems := c.validate(); len(problems) > 0 {
		t.Errorf("the defaults are refused: %v", problems)
	}
}
