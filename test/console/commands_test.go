package console_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// paste runs a line that a view shows in a shell, as a user would, with the program under test, for a server.
func paste(t *testing.T, line, server string, env ...string) (string, error) {
	t.Helper()
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "curl -s ", "curl -sS --fail-with-body ", 1))
	cmd.Env = append(os.Environ(), append(env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "ROUSE_SERVER="+server)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// dialogs is how many are open, and closeLast the button that closes the last one.
const (
	dialogs   = `document.querySelectorAll("dialog[open]").length`
	closeLast = `[...document.querySelectorAll("dialog[open] [aria-label=Close]")].at(-1)`
)

// TestTablesAsCommands pastes what each table shows as its command, and as its request, into a shell: both
// work.
func TestTablesAsCommands(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	done := map[string]bool{}
	for _, path := range append(w.paths(), "/timers?ns=hostile&prefix=it%27s", "/fires?text=-x&ending=dead&within=24h", "/upcoming?prefix=invoice", "/dead?ns=default&name=sync-crm",
		"/lab?schedule=0+9+*+*+*&timezone=Europe%2FStockholm&except=2027-12-24&off=weekends", "/audit?verb=timers.*", "/load?days=7&at=2027-03-26T09:00:00Z") {
		p.open(path)
		open := eval[int](p, dialogs)
		for i := 0; i < eval[int](p, `document.querySelectorAll(".terminal").length`); i++ {
			p.do(click(fmt.Sprint(`document.querySelectorAll(".terminal")[`, i, `]`)))
			p.until(fmt.Sprint(dialogs, " === ", open+1))
			for _, line := range eval[[]string](p, `[...document.querySelectorAll("dialog .command code")].map((e) => e.textContent)`) {
				if done[line] {
					continue
				}
				done[line] = true
				if out, err := paste(t, line, w.Address); err != nil && !strings.HasPrefix(line, "rouse doctor") { // it fails when it finds something
					t.Errorf("%s of %s: %v: %s", line, path, err, out)
				}
			}
			p.do(click(closeLast))
			p.until(fmt.Sprint(dialogs, " === ", open))
		}
	}
	if len(done) < 60 {
		t.Errorf("%d lines were found", len(done))
	}
}

// TestCommandsAreThoseOfTheProgram: the program takes each command that a view shows, next to a table, in an
// empty view, and in the dialog of an action. They are run without a server.
func TestCommandsAreThoseOfTheProgram(t *testing.T) {
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	b, from := openBrowser(t), map[string]string{}
	collect := func(p *tab, path string) {
		t.Helper()
		for _, c := range eval[[]string](p, `[...document.querySelectorAll(".command code")].flatMap((e) => e.textContent.split("\n"))`) {
			if strings.HasPrefix(c, "rouse ") && !strings.HasPrefix(c, "rouse serve") && !strings.Contains(c, " > ") {
				from[c] = path
			}
		}
	}
	const buttons = `[...document.querySelectorAll(".terminal, header.page .aside button, [aria-label='All that match'] button")].filter((e) => !e.disabled)`
	full := []string{"/", "/timers", "/timers/default/sync-crm", "/fires?ns=default", "/targets", "/lab", "/cluster?timer=payroll", "/doctor", "/namespaces", "/access", "/audit", "/upcoming",
		"/timers?ns=hostile&prefix=it%27s", "/fires?text=-x&ending=dead&within=24h", "/dead?ns=default&error=-refused"}
	empty := []string{"/", "/?ns=acme", "/timers", "/upcoming", "/load", "/missed", "/dead", "/targets", "/calendars", "/limits", "/notices", "/pools", "/timers/acme/x"}
	for w, paths := range map[*sample][]string{newSample(t): full, newEmpty(t): empty} {
		p := b.tab(t, w.url, looks[0])
		for _, path := range paths {
			p.open(path)
			collect(p, path)
			for i := 0; i < eval[int](p, buttons+".length"); i++ {
				p.do(click(fmt.Sprint(buttons, "[", i, "]")))
				p.until(dialogs + " === 1")
				p.settled()
				collect(p, path)
				p.do(click(closeLast))
				p.until(dialogs + " === 0")
			}
		}
	}
	if len(from) < 25 {
		t.Errorf("%d commands were found", len(from))
	}
	for c, path := range from {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "PATH="+filepath.Dir(binary)+":$PATH; "+strings.Replace(c, "rouse ", "rouse --server=127.0.0.1:1 --timeout=1ms ", 1))
		out, err := cmd.CombinedOutput()
		if err == nil && strings.HasPrefix(c, "rouse create") || strings.Contains(string(out), "--help") {
			t.Errorf("%s of %s: %s", c, path, out)
		}
	}
}
