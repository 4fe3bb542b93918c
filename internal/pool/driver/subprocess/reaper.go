package subprocess

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// reaper kills the process groups of workers when this process has ended in whatever way, SIGKILL included. It is a small shell
// that is told their numbers through a pipe, and does its work when the pipe ends. A signal to the children of a dead parent,
// which Linux has, reaches only the workers themselves; what they have started is reached this way. Only numbers are said to it.
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
	return r, r.start()
}

func (r *reaper) start() error {
	cmd := exec.Command("/bin/sh", "-c", reaperScript)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = ownSession() // no signal that is meant for us reaches it
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start what ends workers that outlive this process: %w", err)
	}
	r.cmd, r.in = cmd, in
	return nil
}

func (r *reaper) add(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[group] = true
	r.say("+", group)
}

func (r *reaper) remove(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, group)
	r.say("-", group)
}

// say tells the shell. One that was killed is replaced, and told everything.
func (r *reaper) say(what string, group int) {
	if _, err := fmt.Fprintln(r.in, what, group); err == nil {
		return
	}
	_ = errors.Join(r.in.Close(), r.cmd.Wait())
	if r.start() != nil {
		return // it is tried again with the next worker
	}
	for group := range r.groups {
		if _, err := fmt.Fprintln(r.in, "+", group); err != nil {
			return
		}
	}
}

// close ends the shell, which has nothing to do any more.
func (r *reaper) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.in.Close(); err != nil {
		return err
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("what ends workers that outlive this process: %w", err)
	}
	return nil
}
