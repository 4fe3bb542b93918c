package rouse_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// doubled is how many equal lines in a row are code that was written twice.
const doubled = 12

// TestNothingIsWrittenTwice looks for runs of equal lines in two packages, tests included: what two packages
// need has a place that both may import (see deps_test.go). Indentation, empty lines, comments and imports do
// not count.
func TestNothingIsWrittenTwice(t *testing.T) {
	type place struct {
		dir, file string
		line      int
	}
	windows := map[string][]place{} // where each run of lines begins
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go")) {
		lines, numbers := codeLines(file)
		for i := range len(lines) - doubled + 1 {
			run := strings.Join(lines[i:i+doubled], "\n")
			windows[run] = append(windows[run], place{path.Dir(file), file, numbers[i]})
		}
	}
	found, where := map[string]int{}, map[string]string{}
	for _, places := range windows {
		for _, a := range places {
			for _, b := range places {
				if a.dir < b.dir {
					key := a.dir + " " + b.dir
					found[key]++
					at := fmt.Sprintf("%s:%d and %s:%d", a.file, a.line, b.file, b.line)
					if where[key] == "" || at < where[key] {
						where[key] = at
					}
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %d runs of %d equal lines; the first: %s", key, found[key], doubled, where[key])
	}
}

// codeLines returns the lines of a file that are code, with their numbers; none of a generated file, and none
// of examples, which are read alone.
func codeLines(file string) (lines []string, numbers []int) {
	text, err := os.ReadFile(file)
	if err != nil || path.Base(file) == "example_test.go" || strings.Contains(string(text[:min(len(text), 1000)]), "// Code generated") {
		return nil, nil // a file that was deleted is not committed yet
	}
	imports := false
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "import (":
			imports = true
		case imports:
			imports = line != ")"
		case line == "" || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "package ") || strings.HasPrefix(line, "import "):
		default:
			lines, numbers = append(lines, line), append(numbers, i+1)
		}
	}
	return lines, numbers
}
