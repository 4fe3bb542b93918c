package console_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

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
	const buttons = `[...document.querySelectorAll(".foot button, header.page .aside button, [aria-label='All that match'] button")]`
	full := []string{"/", "/timers", "/timers/default/sync-crm", "/fires?ns=default", "/targets", "/lab", "/cluster?timer=payroll", "/doctor", "/namespaces", "/access", "/audit", "/upcoming",
		"/timers?ns=hostile&prefix=it%27s", "/fires?text=-x&ending=dead&within=24h", "/dead?ns=default&error=-refused"}
	empty := []string{"/", "/?ns=acme", "/timers", "/upcoming", "/load", "/missed", "/dead", "/targets", "/calendars", "/pools", "/timers/acme/x"}
	for w, paths := range map[*sample][]string{newSample(t): full, newEmpty(t): empty} {
		p := b.tab(t, w.url, looks[0])
		for _, path := range paths {
			p.open(path)
			collect(p, path)
			for i := range eval[int](p, buttons+".length") {
				p.do(click(fmt.Sprint(buttons, "[", i, "]")))
				p.until(`!!document.querySelector("dialog[open]")`)
				collect(p, path)
				p.do(click(`document.querySelector("dialog[open] [aria-label=Close]")`))
				p.until(`!document.querySelector("dialog[open]")`)
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
