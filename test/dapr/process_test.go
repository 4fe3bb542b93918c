package dapr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// patience bounds every wait of a test. It is no measurement.
const patience = 2 * time.Minute

// programs returns the folder of the programs.
func programs(t *testing.T) string {
	dir := os.Getenv("DAPR_PROGRAMS")
	if dir == "" {
		t.Skip("DAPR_PROGRAMS, the folder of Dapr's programs, is not set: make test-dapr builds them")
	}
	return dir
}

// process is a program with its arguments.
type process struct {
	*harness.Program
	args []string
}

// start starts a program of DAPR_PROGRAMS. It is killed when the test ends.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{harness.NewProgram(t, filepath.Join(programs(t), name)), args}
	p.begin()
	return p
}

func (p *process) begin() {
	p.T.Helper()
	p.Run(p.args, nil, nil)
}

// port returns a free port.
func port(t *testing.T) string {
	_, port, _ := strings.Cut(servers.FreeAddr(t), ":")
	return port
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Holds(patience, holds) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}
