package subprocess

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// reaper kills the process groups of workers after this process has ended in any way, including SIGKILL. It
// is a small shell that reads their ids from a pipe and does its work when the pipe is closed. The
// parent-death signal of Linux reaches only the workers themselves; the reaper also reaches their child
// processes. Only numbers are written to it.
type reaper struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	groups map[int]bool
}

const reaperScript = `
trap '' HUP INT TERM
groups=' '
while read -r what group; do
	case $what in
	+) groups="$groups$group " ;;
	-) groups="${groups%% $group *} ${groups#* $group }" ;;
	esac
done
for group in $groups; do kill -KILL "-$group"; done 2>/dev/null
`

func newReaper() (*reaper, error) {
	r := &reaper{groups: map[int]bool{}}
	return r, r.startReaper()
}

func (r *reaper) startReaper() error {
	cmd := exec.Command("/bin/sh", "-c", reaperScript)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = ownSession() // signals to this process do not reach it
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the reaper of workers: %w", err)
	}
	r.cmd, r.in = cmd, in
	return nil
}

func (r *reaper) addProcessGroup(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[group] = true
	r.writeCommand("+", group)
}

func (r *reaper) removeProcessGroup(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, group)
	r.writeCommand("-", group)
}

// writeCommand writes a command to the shell. A shell that was killed is replaced, and receives all groups.
func (r *reaper) writeCommand(what string, group int) {
	if _, err := fmt.Fprintln(r.in, what, group); err == nil {
		return
	}
	_ = errors.Join(r.in.Close(), r.cmd.Wait())
	if r.startReaper() != nil {
		return // it is tried again with the next worker
	}
	for group := range r.groups {
		if _, err := fmt.Fprintln(r.in, "+", group); err != nil {
			return
		}
	}
}

// closeReaper ends the shell.
func (r *reaper) closeReaper() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.in.Close(); err != nil {
		return err
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("the reaper of workers: %w", err)
	}
	return nil
}
