package console_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest"
	"github.com/rousehq/rouse/test/harness"
)

// hints are the examples that fields show while they are empty: what is typed to try them. A hint without
// examples is a description.
var hints = map[string][]string{
	"0 9 * * MON-FRI":                   {"0 9 * * MON-FRI"},
	"UTC":                               {"UTC"},
	"0 12 * * SAT":                      {"0 12 * * SAT"},
	"2027-12-24, 2027-12-27/2027-12-31": {"2027-12-24, 2027-12-27/2027-12-31"},
	"weekends, holidays":                {"weekends, holidays"},
	"https://example.com/hook, or stream:name": {"https://example.com/hook", "stream:name"},
	"empty: one is made up":                    nil,
	`{"invoice": 17}`:                          {`{"invoice": 17}`},
	"team=billing, tier=1":                     {"team=billing, tier=1"},
	"8":                                        {"8"},
	"20m; empty: never":                        {"20m"},
	"2h, 17:30 or 2027-02-01 06:00; empty: until resumed": {"2h", "17:30", "2027-04-01 06:00"},
	"0 9 * * MON-FRI, @every 5m, 2027-02-01T06:00:00Z":    {"@every 5m", "2027-02-01T06:00:00Z", "0 9 * * MON-FRI"},
	"Europe/Stockholm; empty: UTC":                        {"Europe/Stockholm"},
	"-24h, or 2027-02-01 06:00":                           {"-24h", "2027-03-25 06:00"},
	"empty: now":                                          {"-1m"},
	"the office is closed":                                {"the office is closed"},
	"for those who find it paused":                        nil,
	"why not on … 2027-01-25 09:00":                       {"2027-01-25 09:00", "2027-01-25"},
	"name begins with":                                    {"invoice"},
	"name, error or payload contains":                     {"invoice"},
	"label=value ⏎":                                       nil,
	"name or reason contains":                             {"refused"},
	"target, https://example.com/*":                       {"https://example.com/*"},
	"code, such as 503":                                   {"503"},
	"error contains":                                      {"refused"},
	"name of a timer":                                     {"payroll"},
	"timers.delete, timers.*":                             {"timers.delete", "timers.*"},
	"who: id or name":                                     nil,
	"for those who find them paused":                      nil,
	"at most; empty: as fast as possible":                 nil,
	"name of a namespace":                                 nil,
	"https://example.com/pager; empty: by the rules of the namespace": {"https://example.com/pager"},
	"https://example.com/pager":                                       {"https://example.com/pager"},
	"team=billing":                                                    {"team=billing"},
	"team=billing; empty: all timers":                                 {"team=billing"},
	"dead, overdue; empty: all":                                       {"dead, overdue"},
	"1":                                                               {"1"},
	"1h; empty: each event":                                           {"1h"},
	"5m; empty: never":                                                {"5m"},
	"name of the limit":                                               nil,
	"10; empty: unlimited":                                            {"10"},
	"100/1m; empty: unlimited":                                        {"100/1m"},
	"empty: those of a tenth of a second":                             nil,
	"rk_…":                                                            nil,
	"a view, a timer, or a verb and a timer: pause payroll": nil, // TestExamplesWork types it
	"which node has the timer … of default":                 {"payroll"},
}

// TestCommandsForOperators runs the commands that are texts of the console: those for a server in another
// state, which TestCommandsAreThoseOfTheProgram does not see. A server is not started: rouse config reads the
// same settings, and refuses the same.
func TestCommandsForOperators(t *testing.T) {
	if _, err := harness.Binary(); err != nil { // before the directory is another one
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	const pools = "pools:\n  - name: core\n    transport: store\n    driver: {subprocess: {command: [cat]}}\n"
	if err := os.WriteFile("pools.yaml", []byte(pools), 0o600); err != nil {
		t.Fatal(err)
	}
	n, c := serveKeys(t)
	_, key, err := c.Access().CreateKey(t.Context(), "operator", []client.Grant{{Role: "admin", Namespaces: []string{"*"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := append(sources(t, `(?:command|cli)=\{?"(rouse [^"]+)"`), sources(t, `<code>(rouse [^<]* --[^<]+)</code>`)...)
	done := 0
	for line := range strings.SplitSeq(strings.Join(lines, `\n`), `\n`) {
		if out, err := paste(t, strings.Replace(line, "rouse serve", "rouse config", 1), n.Addr(), "ROUSE_KEY="+key); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		done++
	}
	if done < 10 {
		t.Errorf("%d commands were found", done)
	}
}

// sources returns what an expression with one group finds in the sources of the console.
func sources(t *testing.T, expression string) (found []string) {
	t.Helper()
	src := os.DirFS(sourceDir)
	err := fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(src, name)
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sourceDir has the sources of the console.
var sourceDir, _ = filepath.Abs("../../internal/console/src")

// TestHintsAreTried: no field of the console has a hint that TestExamplesWork does not know.
func TestHintsAreTried(t *testing.T) {
	found := sources(t, `(?:hint|placeholder)(?:=|: )"([^"]+)"`)
	for _, hint := range found {
		if _, known := hints[hint]; !known {
			t.Errorf("a field has %q: say in hints what its examples are", hint)
		}
	}
	if len(found) < 25 {
		t.Errorf("%d hints were found", len(found))
	}
}

// try gives a field of the page a value, or chooses one, and waits until the page shows what it is.
func (p *tab) try(field, value string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(async () => {
		const e = %s, frame = () => new Promise(requestAnimationFrame);
		e.value = %q;
		e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
		await frame();
		await frame();
		return true;
	})()`, field, value))
	p.until(fmt.Sprintf(`%s.matches(".create *, dialog *, select") || [...new URLSearchParams(location.search).values()].includes(%q)`, field, value))
	p.settled()
}

// valid fails if the page shows that something is wrong.
func (p *tab) valid(what string) {
	p.t.Helper()
	if got := eval[string](p, `[...document.querySelectorAll("[role=alert], .presets .warn")].map((e) => e.innerText).join("\n")`); got != "" {
		p.t.Errorf("%s: %s", what, got)
	}
}

// TestExamplesWork tries each example that the console shows: the schedules of the lab, what fields show
// while they are empty, and each choice of a list.
func TestExamplesWork(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	if _, err := w.Client.PutCalendar(t.Context(), rousetest.Namespace, "holidays", []rouse.Day{{Date: rouse.DateOf(time.Date(2027, 12, 24, 0, 0, 0, 0, time.UTC))}}); err != nil {
		t.Fatal(err)
	}
	p := b.tab(t, w.url, looks[0])
	tried := map[string]bool{}
	fields := func(where, within string) {
		t.Helper()
		for i, hint := range eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll("%s [placeholder]")].map((e) => e.placeholder)`, within)) {
			values, known := hints[hint]
			if !known && hint != "" {
				t.Errorf("%s has a field with %q: say in hints what its examples are", where, hint)
			}
			if tried[hint] {
				continue
			}
			tried[hint] = true
			for _, value := range values {
				p.try(fmt.Sprintf(`document.querySelectorAll("%s [placeholder]")[%d]`, within, i), value)
				p.valid(fmt.Sprintf("%s: %q of %q", where, value, hint))
			}
		}
	}
	p.open("/lab?ns=default")
	for i, text := range eval[[]string](p, `[...document.querySelectorAll(".inputs .chip")].map((e) => e.textContent)`) {
		p.do(click(fmt.Sprintf(`document.querySelectorAll(".inputs .chip")[%d]`, i)))
		p.until(fmt.Sprintf(`new URLSearchParams(location.search).get("schedule") === %q && document.documentElement.dataset.loading === "0"`, text))
		p.valid(text)
		if p.text(".lead") == "" || p.rows() == 0 {
			t.Errorf("%s means nothing", text)
		}
	}
	p.open("/lab?ns=default")
	fields("the lab", "#main")
	for i := range eval[int](p, `document.querySelectorAll("#main select").length`) {
		field := fmt.Sprintf(`document.querySelectorAll("#main select")[%d]`, i)
		for _, value := range eval[[]string](p, fmt.Sprintf(`[...%s.options].map((o) => o.value)`, field)) {
			p.try(field, value)
			p.valid(fmt.Sprintf("%q of list %d", value, i))
		}
	}
	p.do(click(`document.querySelector(".create button[type=submit]")`))
	p.until(`location.pathname.startsWith("/timers/default/")`)
	for _, path := range []string{"/timers", "/timers/default/heartbeat", "/fires?ns=default", "/dead", "/audit", "/cluster"} {
		p.open(path)
		fields(path, "#main")
	}
	for _, id := range []string{"pause", "skip", "reschedule", "edit", "backfill"} {
		p.open("/timers/default/heartbeat")
		p.do(click(fmt.Sprintf(`document.querySelector("[data-act=%s]")`, id)))
		p.until(`!!document.querySelector("dialog[open] form")`)
		fields(id, "dialog[open]")
		for i := range eval[int](p, `document.querySelectorAll("dialog .presets .chip").length`) {
			p.do(click(fmt.Sprintf(`document.querySelectorAll("dialog .presets .chip")[%d]`, i)))
			p.settled()
			p.valid(fmt.Sprintf("preset %d of %s", i, id))
		}
		p.press(kb.Escape)
		p.until(`!document.querySelector("dialog[open]")`)
	}
	p.open("/limits")
	p.do(click(`document.querySelector("[data-act=create]")`))
	p.until(`!!document.querySelector("dialog[open] form")`)
	fields("a limit", "dialog[open]")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]")`)
	p.open("/notices")
	p.do(click(`document.querySelector("[data-act=create]")`))
	p.until(`!!document.querySelector("dialog[open] form")`)
	fields("a rule", "dialog[open]")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]")`)
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	p.until(`document.activeElement?.getAttribute("role") === "combobox"`)
	p.do(chromedp.KeyEvent("pause payroll"))
	p.until(`!!document.querySelector("[role=option]")?.textContent.startsWith("Pause payroll")`)
	for hint, values := range hints {
		if !tried[hint] && len(values) > 0 {
			t.Errorf("no field has %q", hint)
		}
	}
	p.quiet("examples")
}
