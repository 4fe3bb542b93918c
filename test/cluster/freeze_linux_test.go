package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// freeze stops the node, and returns when all of its threads stand still.
func (n *node) freeze() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	until(n.t, always("%s does not stand still", n.name), n.frozen)
}

func (n *node) frozen() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.cmd.Process.Pid))
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
