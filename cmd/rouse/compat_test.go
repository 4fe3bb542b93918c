package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/store/postgres"
)

const (
	compatDir = "../../packaging/compat"
	changelog = "../../CHANGELOG.md"
)

// TestReleasesStayCompatible compares what users rely on with the last release: its lines, in
// packaging/compat, must still be true; new ones may be there. A line that CHANGELOG.md has under "Breaking"
// of the unreleased version, as code, is broken on purpose. docs/compatibility.md has the rule.
// ROUSE_COMPAT=1 writes the files, at a release.
func TestReleasesStayCompatible(t *testing.T) {
	intended := breaking(t)
	for file, lines := range map[string][]string{
		"proto.txt": protoLines(), "http.txt": httpLines(t), "cli.txt": cliLines(t), "settings.txt": settingLines(),
		"metrics.txt": metricLines(t), "formats.txt": formatLines(t),
	} {
		name := filepath.Join(compatDir, file)
		slices.Sort(lines)
		lines = slices.Compact(lines)
		if os.Getenv("ROUSE_COMPAT") != "" {
			if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		released := readLines(t, name)
		if len(released) < 5 {
			t.Errorf("%s has only %d lines: run make compat", name, len(released))
		}
		for _, line := range broken(released, lines) {
			if !intended[line] {
				t.Errorf("this breaks users of the last release, which %s lists:\n\t%s\nKeep it, if need be as deprecated. If the break is intended, "+
					"add the line as `code` below \"### Breaking\" of the unreleased version in CHANGELOG.md, with what users do instead.", name, line)
			}
		}
	}
}

// broken returns the lines that are no longer there. A request may require less than it did.
func broken(released, now []string) (gone []string) {
	requires := map[string][]string{}
	for _, line := range now {
		if of, names, ok := strings.Cut(line, " requires "); ok {
			requires[of] = strings.Fields(names)
		}
	}
	for _, line := range released {
		of, names, ok := strings.Cut(line, " requires ")
		less := ok && requires[of] != nil && !slices.ContainsFunc(requires[of], func(name string) bool { return !slices.Contains(strings.Fields(names), name) })
		if _, same := slices.BinarySearch(now, line); !same && !less {
			gone = append(gone, line)
		}
	}
	return gone
}

// TestCompatibilityFindsBreaks: what is removed or changed is found, what is added is not.
func TestCompatibilityFindsBreaks(t *testing.T) {
	released := []string{"rouse list --prefix VALUE", "rouse list --state VALUE", "schemas A requires a b", "schemas B requires a b", "setting grace time.Duration"}
	now := []string{"rouse list --label VALUE", "rouse list --state VALUE", "schemas A requires b", "schemas B requires a c", "setting grace string"}
	if got := broken(released, now); !slices.Equal(got, []string{released[0], released[3], released[4]}) {
		t.Errorf("found %q", got)
	}
}

// breaking returns the lines that the changelog's unreleased version breaks on purpose.
func breaking(t *testing.T) map[string]bool {
	t.Helper()
	body, err := os.ReadFile(changelog)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(body), "\n## [Unreleased]\n")
	if !ok {
		t.Fatalf("%s has no section [Unreleased]", changelog)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, rest, _ = strings.Cut(rest, "\n### Breaking\n")
	rest, _, _ = strings.Cut(rest, "\n### ")
	lines := map[string]bool{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(rest, -1) {
		lines[m[1]] = true
	}
	return lines
}

func readLines(t *testing.T, name string) []string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n")
}

// cliLines are the commands, their arguments and flags, and the exit codes.
func cliLines(t *testing.T) (lines []string) {
	parser, err := newParser(cli.NewApp(context.Background(), os.Stdin, os.Stdout, os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cli.ExitCodes {
		lines = append(lines, fmt.Sprintf("exit code %d", e.Code))
	}
	for _, n := range append(parser.Model.Leaves(true), parser.Model.Node) {
		path := strings.TrimSpace("rouse " + strings.TrimPrefix(n.Path(), "rouse"))
		lines = append(lines, path)
		for _, alias := range n.Aliases {
			lines = append(lines, path+" also "+alias)
		}
		required := []string{}
		for i, p := range n.Positional {
			lines = append(lines, fmt.Sprintf("%s argument %d %s", path, i+1, p.Name))
			if p.Required {
				required = append(required, p.Name)
			}
		}
		for _, f := range n.Flags {
			lines = append(lines, flagLines(path, f)...)
			if f.Required {
				required = append(required, "--"+f.Name)
			}
		}
		lines = append(lines, path+" requires "+strings.Join(required, " "))
	}
	return lines
}

func flagLines(path string, f *kong.Flag) []string {
	line := path + " --" + f.Name
	if !f.IsBool() {
		line += " VALUE"
	}
	lines := []string{line}
	if f.Short != 0 {
		lines = append(lines, path+" -"+string(f.Short)+" for --"+f.Name)
	}
	for _, alias := range f.Aliases {
		lines = append(lines, path+" --"+alias+" for --"+f.Name)
	}
	return lines
}

func settingLines() (lines []string) {
	for _, s := range new(config.Config).ConfigSettings() {
		kind := reflect.TypeOf(s.Value()).Kind().String() // the names of types are not promised
		if _, ok := s.Value().(time.Duration); ok {
			kind = "duration"
		}
		lines = append(lines, "setting "+s.Name+" "+kind)
	}
	return lines
}

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `rouse_.*$")
	metricName  = regexp.MustCompile("`(rouse_[a-z_]+)`")
	metricMade  = regexp.MustCompile(`prometheus\.New([A-Z][a-z]+?)(?:Vec|Func)?\(prometheus\.\w+Opts\{\s*Name: "(rouse_\w+)"`)
	metricLabel = regexp.MustCompile(`(?s)prometheus\.New[A-Z][a-z]+?Vec\(prometheus\.\w+Opts\{\s*Name: "(rouse_\w+)".{0,300}?\},\s*\[\]string\{([^}]*)\}`)
)

// metricLines are the metrics of the tables of the pages, which tests compare with those of servers, and the
// types and labels of those that the code makes by their names.
func metricLines(t *testing.T) (lines []string) {
	for _, page := range files(t, "../../docs", ".md") {
		for _, row := range metricRow.FindAllString(page, -1) {
			names, _, _ := strings.Cut(row[2:], " | ")
			for _, m := range metricName.FindAllStringSubmatch(names, -1) {
				lines = append(lines, "metric "+m[1])
			}
		}
	}
	for _, source := range files(t, "../../node", ".go") {
		for _, m := range metricMade.FindAllStringSubmatch(source, -1) {
			lines = append(lines, "metric "+m[2]+" is a "+strings.ToLower(m[1]))
		}
		for _, m := range metricLabel.FindAllStringSubmatch(source, -1) {
			lines = append(lines, "metric "+m[1]+" has labels "+m[2])
		}
	}
	return lines
}

// files returns the contents of the files below a directory whose names end so, but not those of tests.
func files(t *testing.T, dir, end string) (contents []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, end) || strings.HasSuffix(name, "_test.go") {
			return err
		}
		body, err := os.ReadFile(name)
		contents = append(contents, string(body))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// formatLines are the formats of stores and archives that this version reads: all since the first.
func formatLines(t *testing.T) (lines []string) {
	newest := map[string]int{"postgres schema": postgres.Latest()}
	for what, in := range map[string][2]string{
		"pebble":  {"../../store/pebble/marker.go", `\bstoreFormat += (\d+)`},
		"sqlite":  {"../../store/sqlite/schema.go", `\bformatVersion += (\d+)`},
		"redis":   {"../../store/redis/layout.go", `\bformat += (\d+)`},
		"archive": {"../../internal/backup/manifest.go", `\bconst format = (\d+)`},
	} {
		body, err := os.ReadFile(in[0])
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(in[1]).FindStringSubmatch(string(body))
		if m == nil {
			t.Fatalf("%s does not have its format", in[0])
		}
		newest[what], _ = strconv.Atoi(m[1])
	}
	for _, what := range slices.Sorted(maps.Keys(newest)) {
		for n := range newest[what] {
			lines = append(lines, fmt.Sprintf("reads %s %d", what, n+1))
		}
	}
	return lines
}
