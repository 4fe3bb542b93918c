//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a server's process and its children.
//
// No goroutine waits for it: so tests that check for leftover goroutines find none, although shared servers
// run until the test binary ends.
type process struct {
	name  string
	dir   string
	ports []*claim
	as    *syscall.Credential
	path  string
	args  []string
	env   []string

	// ready returns nil once the server answers.
	ready func(context.Context) error

	// stopSignal requests a regular shutdown, endSignal a quick one that leaves nothing behind and may lose
	// as much as SIGKILL. 0 is SIGKILL.
	stopSignal, endSignal syscall.Signal

	mu  sync.Mutex
	pid int // 0 if it does not run
}

func (p *process) processID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// startAndWait runs the server and returns when it answers.
func (p *process) startAndWait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		return fmt.Errorf("start %s: it runs", p.name)
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server writes to it, we do not
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "LC_ALL=C", "TZ=UTC"}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C in a terminal must not reach the server
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.pid = cmd.Process.Pid

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := false
	err = pollUntilNil(ctx, func(ctx context.Context) error {
		if ended = ended || p.reapServer(syscall.WNOHANG); ended {
			cancel()
			return errors.New("it ended at once")
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return p.ready(ctx)
	})
	if err != nil {
		if !ended {
			err = errors.Join(err, p.killTree())
		}
		return fmt.Errorf("start %s: %w\n%s", p.name, err, p.serverLogTail())
	}
	return nil
}

// reapServer collects the server's exit status, and reports whether it has ended.
func (p *process) reapServer(options int) bool {
	for {
		pid, err := syscall.Wait4(p.pid, nil, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == p.pid: // an error means that there is no such child
			p.pid = 0
			return true
		default:
			return false
		}
	}
}

func (p *process) killServer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return fmt.Errorf("kill %s: it does not run", p.name)
	}
	return p.killTree()
}

// killTree stops the first process, so that it starts no more processes, and then kills all.
func (p *process) killTree() error {
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	below, err := findDescendants(p.pid)
	for _, pid := range append(below, p.pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // fails only if it has ended already
	}
	p.reapServer(0)
	return errors.Join(err, p.waitForExit(below))
}

// waitForExit waits until processes that are not our children have ended.
func (p *process) waitForExit(pids []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return pollUntilNil(ctx, func(context.Context) error {
		for _, pid := range pids {
			if isProcessAlive(pid) {
				return fmt.Errorf("process %d of %s does not end", pid, p.name)
			}
		}
		return nil
	})
}

func (p *process) stopServer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return fmt.Errorf("stop %s: it does not run", p.name)
	}
	return p.signalAndWait(p.stopSignal)
}

// signalAndWait sends a signal, also to a server that is paused, and waits until the server is gone.
func (p *process) signalAndWait(sig syscall.Signal) error {
	below, err := findDescendants(p.pid)
	if err != nil {
		return err
	}
	if err := syscall.Kill(p.pid, sig); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	for _, pid := range append(below, p.pid) {
		_ = syscall.Kill(pid, syscall.SIGCONT) // one that is gone needs none
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = pollUntilNil(ctx, func(context.Context) error {
		if !p.reapServer(syscall.WNOHANG) {
			return fmt.Errorf("stop %s: it did not end within %v of %v", p.name, patience, sig)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, p.killTree())
	}
	return p.waitForExit(below)
}

func (p *process) pauseServer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return fmt.Errorf("pause %s: it does not run", p.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return pollUntilNil(ctx, func(context.Context) error {
		below, err := findDescendants(p.pid)
		if err != nil {
			return err
		}
		for _, pid := range append(below, p.pid) {
			if isProcessStopped(pid) {
				continue
			}
			_ = syscall.Kill(pid, syscall.SIGSTOP) // if it has ended, the next scan does not find it
			err = fmt.Errorf("pause %s: process %d goes on", p.name, pid)
		}
		return err
	})
}

func (p *process) resumeServer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return fmt.Errorf("resume %s: it does not run", p.name)
	}
	below, err := findDescendants(p.pid)
	for _, pid := range append(below, p.pid) {
		_ = syscall.Kill(pid, syscall.SIGCONT) // one that is gone needs none
	}
	return err
}

// closeAndRemove ends the server if it runs, and removes its files.
func (p *process) closeAndRemove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.pid != 0 && !p.reapServer(syscall.WNOHANG) {
		if p.endSignal != 0 {
			err = p.signalAndWait(p.endSignal)
		} else {
			err = p.killTree()
		}
	}
	for _, c := range p.ports {
		c.releasePort()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *process) logPath() string { return filepath.Join(p.dir, "log") }

// serverLogTail returns the end of the server's log.
func (p *process) serverLogTail() string {
	const most = 2 << 10
	b, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
