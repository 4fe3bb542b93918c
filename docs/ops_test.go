//go:build unix

package docs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

const (
	rulesFile     = "../ops/prometheus/rules.yaml"
	ruleTests     = "../ops/prometheus/rules_test.yaml"
	dashboardFile = "../ops/grafana/rouse.json"
	runbooks      = "runbooks.md"
)

// alert is a rule of the file of alerts.
type alert struct {
	Alert, Expr string
	Labels      struct{ Severity string }
	Annotations map[string]string
}

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// panel is a panel of the dashboard, or a row of panels.
type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr string }
}

type dashboard struct {
	Panels      []panel
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct {
		List []struct {
			Name  string
			Query json.RawMessage
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAlertsPassPromtool runs the checks of Prometheus itself, and the tests of rules.
func TestAlertsPassPromtool(t *testing.T) {
	promtool := servers.Promtool(t)
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", ruleTests}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tested := read(t, ruleTests)
	for _, a := range alerts(t) {
		if !strings.Contains(tested, "alertname: "+a.Alert+"\n") {
			t.Errorf("%s has no test in %s", a.Alert, ruleTests)
		}
	}
}

var rouseCommand = regexp.MustCompile("`rouse ([a-z-]+(?: [a-z-]+)?)")

// TestAlertsHaveRunbooks: each alert has a severity and texts, and a section that tells how to look and what
// to do, with commands that exist; there is no section without an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	const base = "https://github.com/rousehq/rouse/blob/main/docs/runbooks.md#"
	sections := map[string]string{}
	for _, s := range strings.Split(read(t, runbooks), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels.Severity) {
			t.Errorf("%s has the severity %q", a.Alert, a.Labels.Severity)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no summary or description", a.Alert)
		}
		if want := base + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s, not to %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		text := sections[a.Alert]
		delete(sections, a.Alert)
		for _, want := range []string{"(" + a.Labels.Severity + ").", "\nHow to look:\n\n- ", "\nWhat to do:\n\n- "} {
			if !strings.Contains(text, want) {
				t.Errorf("the section of %s lacks %q", a.Alert, want)
			}
		}
	}
	for name := range sections {
		t.Errorf("%s has the section %s, and there is no such alert", runbooks, name)
	}
	commands := read(t, "cli.md")
	for _, m := range rouseCommand.FindAllStringSubmatch(read(t, runbooks), -1) {
		first, _, _ := strings.Cut(m[1], " ")
		if !strings.Contains(commands, "\n## rouse "+m[1]) && !strings.Contains(commands, "\n## rouse "+first+"\n") && !strings.Contains(commands, "\n## rouse "+first+" (") {
			t.Errorf("%s names the command rouse %s, which does not exist", runbooks, m[1])
		}
	}
}

// TestDashboardIsLaidOut: ids are unique, panels do not overlap, and each has an expression and a title.
func TestDashboardIsLaidOut(t *testing.T) {
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Title == "" || (p.Type != "row") != (len(p.Targets) > 0) {
			t.Errorf("the panel %d %q has an id that is in use, no title, or no expression", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X < 0 || g.X+g.W > 24 || g.W < 4 || g.H < 1 {
			t.Errorf("%q is outside of the 24 columns: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("%q and %q overlap", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}

// A selector of a metric in an expression, with its labels.
var selector = regexp.MustCompile(`\b((?:rouse|process|go)_[a-z_]+|up)\b(\{[^}]*\})?`)

// TestAlertsAndDashboardWork has a real Prometheus scrape real nodes that use every optional part, evaluates
// each expression there, and looks for each metric with the labels that an expression names.
func TestAlertsAndDashboardWork(t *testing.T) {
	s := newShell(t, taken(t, []block{{lang: "sh", text: postgresPlace + redisPlace}})...)
	begin(t, s)
	s.run(block{page: "ops", text: everything}, result{})
	prom := servers.StartPrometheus(t, scrapeAll(t, s))

	expressions := map[string]string{}
	for _, a := range alerts(t) {
		expressions[a.Expr] = a.Alert
	}
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expressions[target.Expr] = "the panel " + p.Title
		}
	}
	for _, a := range d.Annotations.List {
		expressions[a.Expr] = "the annotation"
	}
	if len(expressions) < 80 {
		t.Fatalf("only %d expressions were found", len(expressions))
	}
	poll.Until(t, "both nodes are scraped", func() bool {
		return len(query(t, prom.URL(), `up == 1`)) == 2 && len(query(t, prom.URL(), `rouse_quota_refused_total`)) > 0 && len(query(t, prom.URL(), `rouse_attempts_total > 0`)) > 0
	})
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "rouse", "$instance", ".*")
	missing := map[string]string{}
	for _, expr := range slices.Sorted(maps.Keys(expressions)) {
		where, expr := expressions[expr], variables.Replace(expr)
		if strings.Contains(expr, "$") {
			t.Errorf("%s: an unknown variable: %s", where, expr)
		}
		query(t, prom.URL(), expr)
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			missing[m[1]+m[2]] = where
		}
	}
	for sel, where := range missing {
		if len(query(t, prom.URL(), sel)) == 0 {
			t.Errorf("%s: no node has %s", where, sel)
		}
	}
	wantLoaded(t, prom.URL())
}

// everything starts a second node with every optional part, and makes the metrics that are there only after
// the first of something.
const everything = `
bin/rouse create once --schedule '@after 1ms' --target http://127.0.0.1:7413/
cat > pools.yaml <<'EOF'
pools:
  - name: shout
    transport: store
    driver: {subprocess: {command: [bin/rouse, work, tr, a-z, A-Z]}}
EOF
cat > brokers.yaml <<'EOF'
brokers:
  events: {url: "redis://127.0.0.1:6379/1"}
EOF
(umask 077; bin/rouse key generate > admin.key)
bin/rouse cert dev certs
bin/rouse secret new-key > sealing.keys
bin/rouse serve --listen 127.0.0.1:7421 --admin 127.0.0.1:7422 --data all --store postgres://rouse@127.0.0.1:5432/rouse --index redis://127.0.0.1:6379/0 --reminders --canary 1s --heartbeat http://127.0.0.1:7413/ --pools pools.yaml --brokers brokers.yaml --admin-key-file admin.key --secret-keys file:sealing.keys --tls-cert certs/server.crt --tls-key certs/server.key &
until curl -sf --cacert certs/ca.crt https://127.0.0.1:7422/readyz; do sleep 0.1; done
export ROUSE_SERVER=https://127.0.0.1:7421 ROUSE_CA=certs/ca.crt
bin/rouse namespace put default --key-file admin.key
bin/rouse namespace put acme --timers 1 --key-file admin.key
bin/rouse create one --schedule '@every 1h' --target stream:x --namespace acme --key-file admin.key
bin/rouse create two --schedule '@every 1h' --target stream:x --namespace acme --key-file admin.key && exit 1 || true
bin/rouse call shout 42 --async --key-file admin.key <<<hello
`

// scrapeAll configures a Prometheus for both nodes, with the alerts.
func scrapeAll(t *testing.T, s *shell) string {
	t.Helper()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := s.cmd.Dir
	return fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: rouse
    static_configs: [{targets: [%q]}]
  - job_name: guarded
    scheme: https
    authorization: {credentials_file: %q}
    tls_config: {ca_file: %q}
    relabel_configs: [{target_label: job, replacement: rouse}]
    static_configs: [{targets: [%q]}]
`, rules, s.admin, filepath.Join(dir, "admin.key"), filepath.Join(dir, "certs", "ca.crt"), s.ports.Replace("127.0.0.1:7422"))
}

// query evaluates an expression and returns the samples. An error of Prometheus fails the test.
func query(t *testing.T, server, expr string) []json.RawMessage {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	ask(t, server+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), &answer)
	if answer.Status != "success" {
		t.Errorf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result
}

// wantLoaded checks that Prometheus has evaluated each alert without an error.
func wantLoaded(t *testing.T, server string) {
	t.Helper()
	type rule struct{ Name, Health, LastError string }
	var answer struct {
		Data struct{ Groups []struct{ Rules []rule } }
	}
	want := len(alerts(t))
	poll.Until(t, "all alerts are evaluated", func() bool {
		ask(t, server+"/api/v1/rules", &answer)
		return len(answer.Data.Groups) == 1 && len(answer.Data.Groups[0].Rules) == want &&
			!slices.ContainsFunc(answer.Data.Groups[0].Rules, func(r rule) bool { return r.Health == "unknown" })
	})
	for _, r := range answer.Data.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("%s: %s", r.Name, r.LastError)
		}
	}
}

func ask(t *testing.T, url string, answer any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, answer)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", url, err, body)
	}
}

// checkPrometheus reads a configuration of Prometheus with its own tool.
func checkPrometheus(t *testing.T, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(servers.Promtool(t), "check", "config", "--syntax-only", file).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
