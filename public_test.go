package rouse_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// private are the folders whose packages other programs do not import.
var private = []string{"internal", "cmd", "bench", "docs", "examples", "test", "tools"}

// notRun are the public packages whose examples are compiled but not run, with what they would need.
var notRun = map[string]string{
	"api/rouse/v1":           "a server",
	"client":                 "a server",
	"client/reminder":        "a server",
	"rousetest":              "a test",
	"sink/broker/brokertest": "a test",
	"sink/sinktest":          "a test",
	"store/front":            "a PostgreSQL and a Redis",
	"store/postgres":         "a PostgreSQL",
	"store/redis":            "a Redis",
	"store/storetest":        "a test",
	"transact":               "a PostgreSQL",
}

// TestPublicPackagesHaveAnExampleAndAPage: a program that imports a package finds out from its comment what
// it is for, from an example how to call it, and from a page of docs when to use it. Packages of generated
// code alone are described by their .proto file, and need the page only.
func TestPublicPackagesHaveAnExampleAndAPage(t *testing.T) {
	var pages bytes.Buffer
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	for line := range strings.Lines(output(t, "go", "list", "-f", `{{.ImportPath}}|{{.Doc}}|{{join .GoFiles " "}}|{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}`, "./...")) {
		part := strings.Split(strings.TrimSpace(line), "|")
		pkg, comment, code, tests := inModule(part[0]), part[1], strings.Fields(part[2]), strings.Fields(part[3])
		if folder, _, _ := strings.Cut(pkg, "/"); slices.Contains(private, folder) {
			continue
		}
		link := "](../" + pkg + "/)"
		if pkg == "." {
			link = "](../rouse.go)"
		}
		if !bytes.Contains(pages.Bytes(), []byte(link)) {
			t.Errorf("%s: no page of docs has a link to it, %s: add it to the table of packages in docs/library.md", pkg, link)
		}
		if generated(code) {
			continue
		}
		if !strings.HasPrefix(comment, "Package ") {
			t.Errorf("%s: it has no package comment, which tells what it is, when to use it, and how", pkg)
		}
		found, run := examples(t, pkg, tests)
		if !found {
			t.Errorf("%s: it has no Example: write one into example_test.go", pkg)
		} else if run == (notRun[pkg] != "") {
			t.Errorf("%s: its examples are run: %v; notRun must have it, with the reason, only if none of them can be run", pkg, run)
		}
	}
}

func generated(files []string) bool {
	for _, file := range files {
		if !strings.HasSuffix(file, ".pb.go") {
			return false
		}
	}
	return true
}

// examples reports whether the tests of a package have an example, and one that is run because it has an
// output.
func examples(t *testing.T, pkg string, tests []string) (found, run bool) {
	t.Helper()
	var files []*ast.File
	for _, name := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, e := range doc.Examples(files...) {
		found, run = true, run || e.Output != "" || e.EmptyOutput
	}
	return found, run
}
