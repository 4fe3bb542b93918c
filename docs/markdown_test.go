//go:build unix

package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is what stands between two fences.
type block struct {
	page string
	line int // of the fence
	lang string
	text string
}

// pages returns the names of the documents, the README first.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	return append([]string{readme}, found...)
}

func read(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// blocks returns the fenced blocks of a page, in their order.
func blocks(t *testing.T, page string) (list []block) {
	t.Helper()
	var open *block
	for i, line := range strings.Split(read(t, page), "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && fence:
			open = &block{page: page, line: i + 1, lang: lang}
		case open != nil && fence:
			list, open = append(list, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", page, open.line)
	}
	return list
}

// result is the output of a block according to the page, if it shows one.
type result struct{ as, text string }

// after returns the result of the i-th block: the block after it, if that is a text or JSON.
func after(list []block, i int, ports *strings.Replacer) (r result) {
	if i+1 < len(list) && (list[i+1].lang == "text" || list[i+1].lang == "json") {
		return result{list[i+1].lang, ports.Replace(list[i+1].text)}
	}
	return r
}

// matches reports whether the whole output matches the page.
func (r result) matches(output string) bool {
	if r.as == "json" {
		var want, got any
		return json.Unmarshal([]byte(r.text), &want) == nil && json.Unmarshal([]byte(output), &got) == nil && within(want, got, "")
	}
	return regexp.MustCompile(`^` + pattern(r.text) + `$`).MatchString(tidy(output))
}

// appearsIn reports whether a background process printed the lines in order.
func (r result) appearsIn(output string) bool {
	return r.as == "text" && regexp.MustCompile(`(?m)^`+pattern(r.text)+`$`).MatchString(tidy(output))
}

// pattern is a regular expression for a text in which … stands for anything in a line, and a line of its own
// for any lines.
func pattern(text string) string {
	lines := strings.Split(tidy(text), "\n")
	for i, line := range lines {
		if line == "…" {
			lines[i] = `(?s:.*?)`
			continue
		}
		lines[i] = strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*?`)
	}
	return strings.Join(lines, "\n")
}

var (
	spaces = regexp.MustCompile(` {2,}`)
	notice = regexp.MustCompile(`(?m)^.*: line \d+: +\d+ (Killed|Terminated).*\n`) // message of bash about a killed job
)

// tidy makes the widths of tables not matter.
func tidy(s string) string {
	lines := strings.Split(notice.ReplaceAllString(s, ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(spaces.ReplaceAllString(line, " "), " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// counted are members whose numbers depend on what else was written to the store.
var counted = []string{"revision", "generation", "token"}

// within reports whether a value contains all that a page shows of it: members may be left out, and … in a
// text stands for anything.
func within(want, got any, name string) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for k, v := range w {
			ok = ok && within(v, g[k], k)
		}
		return ok
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, func(a, b any) bool { return within(a, b, name) })
	case string:
		g, ok := got.(string)
		return ok && regexp.MustCompile(`^`+strings.ReplaceAll(regexp.QuoteMeta(w), "…", `.*`)+`$`).MatchString(g)
	case float64:
		_, ok := got.(float64)
		return ok && (got == want || slices.Contains(counted, name))
	}
	return got == want
}
