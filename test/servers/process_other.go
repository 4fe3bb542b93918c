//go:build unix && !linux

package servers

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// endWithParent does nothing here: only Linux ends a child with its parent. Tests that end regularly end
// their servers.
func endWithParent(*syscall.SysProcAttr) {}

// row is a process as ps shows it.
type row struct {
	pid, parent int
	state       string
}

func processTable() ([]row, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var rows []row
	for line := range strings.Lines(string(out)) {
		var r row
		if _, err := fmt.Sscan(line, &r.pid, &r.parent, &r.state); err != nil {
			return nil, fmt.Errorf("ps: %q: %w", line, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// findDescendants are the processes that pid has started, and those that they have started.
func findDescendants(pid int) ([]int, error) {
	rows, err := processTable()
	if err != nil {
		return nil, err
	}
	var all []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, r := range rows {
			if r.parent == next[0] {
				all = append(all, r.pid)
				next = append(next, r.pid)
			}
		}
	}
	return all, nil
}

// isProcessAlive reports whether a process runs. A zombie does not count.
func isProcessAlive(pid int) bool { return processState(pid, 'Z') == '+' }

// isProcessStopped reports whether a process is stopped or has ended.
func isProcessStopped(pid int) bool { return processState(pid, 'Z', 'T') != '+' }

// processState returns the state of a process if it is one of those given, '+' if it is another, and 0 if
// there is no such process.
func processState(pid int, of ...byte) byte {
	rows, err := processTable()
	if err != nil {
		return '+' // the caller retries
	}
	for _, r := range rows {
		if r.pid != pid {
			continue
		}
		for _, s := range of {
			if r.state[0] == s {
				return s
			}
		}
		return '+'
	}
	return 0
}
