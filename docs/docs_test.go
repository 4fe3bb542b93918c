//go:build unix

// Package docs_test keeps the pages true: it runs their commands, reads their JSON, YAML and Go, and follows
// their references.
//
// A block marked sh is run by bash, all of a page in one directory and one shell, and must succeed. If the
// next block is marked text or json, it shows what that prints: … stands for anything, JSON may leave members
// out. Pages begin with the server and the listener of the README, but for those that are complete; a
// PostgreSQL, Redis or RabbitMQ is there for those that name one (servers_test.go). A block marked go is a
// program, which is built, and run if a text follows that shows what it prints, or a file of tests, which are
// run.
package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// binary is the rouse that the pages use.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rouse-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("ROUSE_BINARY"); binary == "" {
		binary = filepath.Join(dir, "rouse")
		if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "../cmd/rouse").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build rouse: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// parsed are the pages whose commands are examples, from the help of each command, which cmd/rouse runs
// (TestExamplesOfHelpWork).
var parsed = map[string]bool{"cli.md": true}

// complete are the pages that take nothing for granted: neither the server and the listener of the README,
// nor a role and a database in the PostgreSQL.
var complete = map[string]bool{"production.md": true}

// TestCommands runs the commands of each page.
func TestCommands(t *testing.T) {
	for _, page := range pages(t) {
		list := blocks(t, page)
		if parsed[page] || !strings.Contains(read(t, page), "```sh\n") {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{"curl", "psql", "redis-cli"} {
				if _, err := exec.LookPath(tool); err != nil && slices.ContainsFunc(list, func(b block) bool { return b.lang == "sh" && strings.Contains(b.text, tool+" ") }) {
					t.Skipf("the page uses %s, which is not here", tool)
				}
			}
			s := newShell(t, taken(t, list)...)
			if page != readme && !complete[page] {
				begin(t, s)
			}
			for i, b := range list {
				if b.lang == "sh" {
					s.run(b, after(list, i, s.ports))
				}
			}
		})
	}
}

const readme = "../README.md"

// begin runs the README up to where its server and its listener are there.
func begin(t *testing.T, s *shell) {
	t.Helper()
	for _, b := range blocks(t, readme) {
		if b.lang == "sh" {
			s.run(b, result{})
		}
		if strings.Contains(b.text, "rouse listen") {
			return
		}
	}
	t.Fatal("the README starts no listener")
}
