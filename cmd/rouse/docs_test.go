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

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/internal/setting"
)

const (
	cliDoc    = "../../docs/cli.md"
	configDoc = "../../docs/configuration.md"
)

// TestCommandsAreDocumented compares the generated half of docs/cli.md with the command line; see generated.
func TestCommandsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	generated(t, cliDoc, string(body), fill(t, string(body), "generated from the command line", func(string) string { return reference(t) }))
}

// TestSettingsAreDocumented compares the tables of docs/configuration.md with the tags of the settings; see
// generated. Each table has the settings whose sections follow it, so a setting without a section and a
// section without a setting are errors.
func TestSettingsAreDocumented(t *testing.T) {
	body, err := os.ReadFile(configDoc)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]setting.Setting{}
	for _, s := range new(config.Config).ConfigSettings() {
		settings[s.Name] = s
	}
	want := fill(t, string(body), "settings", func(after string) string {
		after, _, _ = strings.Cut(after, "\n## ")
		table := "| setting | default | what it sets |\n|---|---|---|\n"
		for _, section := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(after, -1) {
			s, ok := settings[section[1]]
			if !ok {
				t.Errorf("%s has a section for %q, which is no setting, or has one already", configDoc, section[1])
			}
			delete(settings, s.Name)
			def := "nothing"
			if s.Default != "" {
				def = "`" + s.Default + "`"
			}
			table += fmt.Sprintf("| [`%s`](#%s) | %s | %s |\n", s.Name, s.Name, def, cell(s.Help))
		}
		return table
	})
	for name := range settings {
		t.Errorf("setting %s has no section below a table of %s", name, configDoc)
	}
	generated(t, configDoc, string(body), want)
}

// generated compares a page with what it should be. With ROUSE_UPDATE=1, as in make generate, it writes the
// page instead.
func generated(t *testing.T, page, have, want string) {
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	lines := strings.Split(have, "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(lines) || lines[i] != line {
			t.Fatalf("%s is not what its source gives: run make generate; the first difference is in line %d, which should be\n%s", page, i+1, line)
		}
	}
}

// fill replaces what is between the markers of a page. with returns the text of such a part, given the text
// from there to the next one.
func fill(t *testing.T, page, marker string, with func(after string) string) string {
	begin, end := "<!-- "+marker+": begin -->\n", "<!-- "+marker+": end -->\n"
	parts := strings.Split(page, begin)
	if len(parts) == 1 {
		t.Fatalf("there is no %q", begin)
	}
	filled := parts[0]
	for _, part := range parts[1:] {
		_, after, ok := strings.Cut(part, end)
		if !ok {
			t.Fatalf("there is no %q", end)
		}
		filled += begin + with(after) + end + after
	}
	return filled
}

// reference is the generated half: exit codes, flags that every command takes, and each command with its own.
func reference(t *testing.T) string {
	a := cli.NewApp(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	parser, err := newParser(a)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, e := range cli.ExitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.What)
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
	for _, s := range new(config.Config).ConfigSettings() {
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
