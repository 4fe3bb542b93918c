package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// endWithParent makes a child end when this process ends, for whatever reason.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// findDescendants returns the processes that pid has started, and their descendants. Sessions and process
// groups do not suffice: PostgreSQL's backends each have their own.
func findDescendants(pid int) ([]int, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, e := range names {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		_, parent, err := readProcStat(fmt.Sprintf("/proc/%d/stat", child))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended in between
		}
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	all := children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// isProcessAlive reports whether a process runs. A zombie does not count.
func isProcessAlive(pid int) bool {
	state, _, err := readProcStat(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && state != 'Z' && state != 'X'
}

// isProcessStopped reports whether all threads of a process are stopped.
func isProcessStopped(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return true // it is gone
	}
	for _, thread := range threads {
		state, _, err := readProcStat(dir + "/" + thread.Name() + "/stat")
		if err == nil && state != 'T' && state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
}

// readProcStat reads state and parent of a process or thread. They follow its name, which is in brackets and
// may contain brackets.
func readProcStat(path string) (state byte, parent int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("%s: %q is not what the kernel documents", path, b)
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err
}
