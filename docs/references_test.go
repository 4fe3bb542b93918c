//go:build unix

package docs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/access"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	symbols = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks follows links within the repository, to their headings.
func TestLinks(t *testing.T) {
	for _, page := range slices.Concat(pages(t), contributing(t), []string{"../ARCHITECTURE.md", "../CONTRIBUTING.md"}) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name, place, _ := strings.Cut(m[1], "#")
			to := page
			if name != "" {
				to = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(to); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a link leads to %s, which is not there", page, m[1])
			} else if place != "" && !places(t, to)[place] {
				t.Errorf("%s: a link leads to %s, which has no such place", page, m[1])
			}
		}
	}
}

// contributing returns the pages for people who change the code.
func contributing(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("contributing/*.md")
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages for contributors: %v", err)
	}
	return found
}

// TestFilesOfContributorsExist looks for the files and folders that the pages for contributors name.
func TestFilesOfContributorsExist(t *testing.T) {
	path := regexp.MustCompile("`((?:[a-z_]+/)*[a-z_]+(?:\\.(?:go|proto|txtar)|/))`")
	for _, page := range contributing(t) {
		for _, m := range path.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

// places returns where links can lead to in a page.
func places(t *testing.T, page string) map[string]bool {
	t.Helper()
	body := fenced.ReplaceAllString(read(t, page), "")
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(body, -1) {
		found[strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	for _, m := range anchor.FindAllStringSubmatch(body, -1) {
		found[m[1]] = true
	}
	return found
}

// TestTestsExist looks for the tests that pages name: each in the file named before it.
func TestTestsExist(t *testing.T) {
	quoted := regexp.MustCompile("`([^`]+)`")
	named, file := 0, ""
	for _, m := range quoted.FindAllStringSubmatch(read(t, "guarantees.md")+read(t, "track-record.md")+read(t, "reliability.md")+read(t, "security.md"), -1) {
		switch name := m[1]; {
		case strings.HasSuffix(name, "_test.go"):
			file = name
		case strings.HasPrefix(name, "Test"):
			named++
			if !strings.Contains(read(t, filepath.Join("..", file)), "func "+name+"(") {
				t.Errorf("%s has no %s", file, name)
			}
		}
	}
	if named < 8 {
		t.Errorf("only %d tests are named for eight promises", named)
	}
	_, threats, _ := strings.Cut(read(t, "security.md"), "\n## Threats\n")
	threats, _, _ = strings.Cut(threats, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([^|-][^|]*)\|[^|]+\|(.*)\|$`).FindAllStringSubmatch(threats, -1)
	for _, row := range rows {
		if row[1] != "threat " && !strings.Contains(row[2], "`Test") {
			t.Errorf("security.md names no test for: %s", row[1])
		}
	}
	if len(rows) < 30 {
		t.Errorf("security.md has only %d threats", len(rows))
	}
}

// TestRoutes demands a row of api.md for each route of the HTTP API, and for each code of its problems a
// place where the type of the problem leads.
func TestRoutes(t *testing.T) {
	var spec struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.OpenAPI, &spec); err != nil {
		t.Fatal(err)
	}
	body := read(t, "api.md")
	for path, methods := range spec.Paths {
		for method := range methods {
			want := strings.ToUpper(method) + " " + strings.Replace(path, "/v1/namespaces/{namespace}/", "/", 1)
			if method != "parameters" && !strings.Contains(body, "`"+want+"`") {
				t.Errorf("api.md does not tell of `%s`", want)
			}
		}
	}
	codes := regexp.MustCompile(`(?m)^\t"([a-z_]+)": +\{(?:http\.Status|499)`).FindAllStringSubmatch(read(t, "../internal/server/http_problem.go"), -1)
	if len(codes) < 10 {
		t.Errorf("only %d codes were found", len(codes))
	}
	for _, c := range codes {
		if !places(t, "api.md")[c[1]] {
			t.Errorf("api.md has no place #%s", c[1])
		}
	}
}

// TestLimits compares the table of limits with what is checked.
func TestLimits(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "api.md"), "\n## Limits\n")
	for _, row := range []string{
		fmt.Sprintf("| namespace | %d of ", rouse.MaxNamespace),
		fmt.Sprintf("| name | %d bytes", rouse.MaxName),
		fmt.Sprintf("| schedule, target | %d, %d bytes |", rouse.MaxSchedule, rouse.MaxTarget),
		fmt.Sprintf("| payload, content type | %d, %d bytes |", rouse.MaxPayload, rouse.MaxContentType),
		fmt.Sprintf("| labels | %d; names of %d, values of %d bytes |", rouse.MaxLabels, rouse.MaxLabelKey, rouse.MaxLabelValue),
		fmt.Sprintf("| headers of a webhook | %d; names of %d, values of %d bytes |", rouse.MaxHeaders, rouse.MaxHeaderName, rouse.MaxHeaderValue),
		fmt.Sprintf("timeout | %d; 1 ms – 24 h; 1 ms – 168 h; 24 h; 100 ms – 1 h |", rouse.MaxAttempts),
		fmt.Sprintf("| timers in a batch; in a page | %d; ", rouse.MaxBatch),
		fmt.Sprintf("; %d |\n", api.MaxDepth),
	} {
		if !strings.Contains(table, row) {
			t.Errorf("the limits of api.md lack %q", row)
		}
	}
}

// TestRoles compares the rights that stores.md gives with those that a store needs.
func TestRoles(t *testing.T) {
	body := read(t, "stores.md")
	for _, line := range strings.Split(read(t, "../store/postgres/roles.sql"), "\n") {
		line = strings.NewReplacer("{schema}", "rouse", "{app}", "rouse_app", "{reader}", "rouse_reader").Replace(line)
		if !strings.HasPrefix(line, "--") && !strings.Contains(body, line+"\n") {
			t.Errorf("stores.md lacks %s", line)
		}
	}
}

// TestVerbs looks for the verbs that pages name among those of access control.
func TestVerbs(t *testing.T) {
	areas := map[string]bool{} // what is before the dot
	for _, v := range access.Verbs {
		area, _, _ := strings.Cut(string(v), ".")
		areas[area] = true
	}
	verb := regexp.MustCompile(`^([a-z]+)\.([a-z]+)$`)
	called := regexp.MustCompile("[Vv]erbs? `([a-z.]+)`")
	put := regexp.MustCompile(`rouse role put \S+ ([a-z. ]+)`)
	quoted := regexp.MustCompile("`([^`\n]+)`")
	files := []string{"csv", "go", "json", "jsonl", "log", "md", "sql", "yaml"} // endings
	found := 0
	for _, page := range pages(t) {
		body := read(t, page)
		var named []string
		for _, m := range called.FindAllStringSubmatch(body, -1) {
			named = append(named, m[1])
		}
		for _, m := range put.FindAllStringSubmatch(body, -1) {
			named = append(named, strings.Fields(m[1])...)
		}
		for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(body, ""), -1) {
			parts := verb.FindStringSubmatch(m[1])
			if parts != nil && areas[parts[1]] && !slices.Contains(files, parts[2]) && m[1] != "secrets.keys" {
				named = append(named, m[1])
			}
		}
		found += len(named)
		for _, name := range named {
			if !slices.Contains(access.Verbs, access.Verb(name)) {
				t.Errorf("%s: access control has no verb %q", page, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d verbs were found", found)
	}
}

// TestDefaultsInSentences compares the defaults that pages give after the name of a setting, as in
// "`dead-age` (30 days)", with those in the tables of configuration.md.
func TestDefaultsInSentences(t *testing.T) {
	defaults := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| \\[`([a-z0-9-]+)`\\]\\([^)]*\\) \\| `([^`]*)` \\|")
	for _, m := range row.FindAllStringSubmatch(read(t, "configuration.md"), -1) {
		defaults[m[1]] = m[2]
	}
	given := regexp.MustCompile("`([a-z0-9-]+)`(?:\\]\\(configuration\\.md#[a-z0-9-]+\\))?(?: \\(| `)" +
		"([0-9][0-9,]*)(?: ?(ms|s|min|h|days|MiB|GiB))?\\b")
	units := strings.NewReplacer("min", "m", "days", "d")
	found := 0
	for _, page := range pages(t) {
		for _, m := range given.FindAllStringSubmatch(read(t, page), -1) {
			want, is := defaults[m[1]]
			if !is {
				continue
			}
			found++
			have := strings.ReplaceAll(m[2], ",", "") + units.Replace(m[3])
			if days, is := strings.CutSuffix(have, "d"); is {
				n, _ := strconv.Atoi(days)
				have = fmt.Sprint(24*n, "h")
			}
			if have != want {
				t.Errorf("%s: %q, but the default of %s is %s", page, m[0], m[1], want)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d defaults were found", found)
	}
}

var metricNames = regexp.MustCompile(`\brouse_[a-z_]+`)

// documentedMetrics returns the metrics in the table of operations.md, with their descriptions.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, line := range strings.Split(read(t, "operations.md"), "\n") {
		names, description, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `rouse_") {
			continue
		}
		for _, name := range metricNames.FindAllString(names, -1) {
			found[name] += description
		}
	}
	return found
}

// TestMetrics compares them with those of a server that has fired.
func TestMetrics(t *testing.T) {
	s := newShell(t)
	begin(t, s)
	s.run(block{text: `bin/rouse namespace put tenant-1 --timers 1
bin/rouse limit set slow --namespace tenant-1 --paused
bin/rouse create one --namespace tenant-1 --schedule '@every 1h' --target http://127.0.0.1:7413/ --limit slow
bin/rouse run one --namespace tenant-1
bin/rouse create once --schedule '@after 1ms' --target http://127.0.0.1:7413/
! bin/rouse create two --namespace tenant-1 --schedule '@every 1h' --target http://127.0.0.1:7413/`}, result{})
	var exposed string
	s.until(block{page: "operations.md"}, func() (bool, string) {
		exposed = get(t, "http://"+s.admin+"/metrics")
		return strings.Contains(exposed, `rouse_occurrences_total{cause="delivered",ending="fired"} 1`) &&
			strings.Contains(exposed, `rouse_limit_waiting{limit="slow",namespace="tenant-1"} 1`), "no fire is counted, or none that waits:\n" + exposed
	})
	documented := documentedMetrics(t)
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (rouse_\S+) `).FindAllStringSubmatch(exposed, -1) {
		if there[m[1]] = true; documented[m[1]] == "" {
			t.Errorf("operations.md does not tell of %s", m[1])
		}
	}
	for name, description := range documented {
		if !there[name] && !strings.Contains(description, "there after the first") && !strings.Contains(description, "only with an") {
			t.Errorf("there is no %s, which operations.md tells of", name)
		}
	}
	checkLabels(t, exposed, documented)
}

// checkLabels demands that operations.md names the labels of each metric, and that no label contains what
// users choose, except the namespace in metrics of quotas and named limits.
func checkLabels(t *testing.T, exposed string, documented map[string]string) {
	t.Helper()
	values := regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	found, missing := 0, map[string]bool{}
	for _, series := range regexp.MustCompile(`(?m)^(rouse_[a-z_]+)\{(.*)\} `).FindAllStringSubmatch(exposed, -1) {
		name := series[1]
		for _, ending := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, ending); documented[base] != "" {
				name = base
			}
		}
		for _, label := range values.FindAllStringSubmatch(series[2], -1) {
			found++
			if label[1] != "le" && !strings.Contains(documented[name], "`"+label[1]+"`") {
				missing[label[1]+" of "+name] = true
			}
			tenant := label[2] == "tenant-1" && !strings.HasPrefix(name, "rouse_quota_") && !strings.HasPrefix(name, "rouse_limit_")
			if tenant || label[2] == "once" || strings.Contains(label[2], "127.0.0.1") {
				t.Errorf("%s has a label %s: operations.md promises none with a name of users", name, label[0])
			}
		}
	}
	for label := range missing {
		t.Errorf("operations.md does not tell of the label %s", label)
	}
	if found < 20 || !strings.Contains(exposed, `rouse_quota_refused_total{namespace="tenant-1"`) {
		t.Errorf("only %d labels were found in:\n%s", found, exposed)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, resp.Status, err, body)
	}
	return string(body)
}
