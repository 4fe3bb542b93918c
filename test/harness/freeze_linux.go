package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Freeze stops the process, and returns when all of its threads stand still.
func (p *Process) Freeze() {
	p.T.Helper()
	p.Signal(syscall.SIGSTOP)
	Until(p.T, Always("%s does not stand still", p.Name), p.allThreadsStopped)
}

func (p *Process) allThreadsStopped() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Cmd.Process.Pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the state follows the name
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}
