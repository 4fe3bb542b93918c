package rouse_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns bounds the width of comments, with tabs of 4. Indented text, which is code or a table, may be
// wider.
const columns = 110

// TestCommentsAreNarrow finds comments that are wider than a reader's eye likes. Tool reflow wraps them.
func TestCommentsAreNarrow(t *testing.T) {
	var wide []string
	text := regexp.MustCompile(`^\s*//( | +[-*] | +\d+\. )[^ \t]`)
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go")) {
		source, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, and not committed yet
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			continue
		}
		lines := strings.Split(string(source), "\n")
		for _, group := range f.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "// Output:") || strings.HasPrefix(c.Text, "// Unordered output:") {
					break // what an example prints is compared line by line
				}
				at := fset.Position(c.Pos())
				alone := strings.TrimLeft(lines[at.Line-1], "\t") == c.Text // not behind code
				width := utf8.RuneCountInString(c.Text) + 4*(at.Column-1)
				if alone && width > columns && text.MatchString(c.Text) {
					wide = append(wide, fmt.Sprintf("%s has %d columns", at, width))
				}
			}
		}
	}
	if len(wide) > 0 {
		t.Errorf("%d lines of comments have more than %d columns: run go -C tools run ./reflow -root ..\n%s", len(wide), columns, strings.Join(wide, "\n"))
	}
}
