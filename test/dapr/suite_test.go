package dapr

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse/test/servers"
)

// TestSuite runs those cases of Dapr's own integration tests (tools/dapr) that involve its scheduler, with
// rouse in its place. FOCUS is a regular expression for names of cases. It takes an hour or more, so it runs
// only if DAPR_SUITE is set.
func TestSuite(t *testing.T) {
	dir := programs(t)
	if os.Getenv("DAPR_SUITE") == "" {
		t.Skip("DAPR_SUITE does not ask for it: make test-dapr-suite does")
	}
	if err := os.WriteFile(filepath.Join(dir, "standin.store"), []byte(servers.StartPostgres(t).URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "suite.test"), "-test.v", "-test.timeout=110m", "-test.parallel=3")
	cmd.Dir, cmd.Env = t.TempDir(), os.Environ()
	for name, program := range map[string]string{"DAPRD": "daprd", "PLACEMENT": "placement", "SENTRY": "sentry", "SCHEDULER": "standin"} {
		cmd.Env = append(cmd.Env, "DAPR_INTEGRATION_"+name+"_PATH="+filepath.Join(dir, program))
	}
	log := filepath.Join(dir, "suite.log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	failed := cmd.Run()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	output, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	results := regexp.MustCompile(`(?m)^case (PASS|FAIL|SKIP) (\S+)$`).FindAllSubmatch(output, -1)
	count := map[string]int{}
	for _, r := range results {
		if count[string(r[1])]++; string(r[1]) == "FAIL" {
			t.Errorf("%s fails", r[2])
		}
	}
	if failed != nil {
		t.Errorf("%v; the output is in %s", failed, log)
	}
	if t.Logf("%d cases pass, %d fail, %d are left out", count["PASS"], count["FAIL"], count["SKIP"]); count["PASS"] == 0 {
		t.Errorf("no case passes: %s", strings.TrimSpace(string(output[max(0, len(output)-2000):])))
	}
}
