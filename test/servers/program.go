//go:build unix

package servers

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Program is a process that belongs to one test and ends with it, or with the test binary.
type Program struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

// StartProgram starts a program. If the test fails, it logs the last output of the program.
func StartProgram(t testing.TB, name string, args ...string) *Program {
	t.Helper()
	p := &Program{cmd: exec.Command(name, args...), log: &bytes.Buffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(p.cmd.SysProcAttr)
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.End() // it may have ended before
		if t.Failed() {
			log := p.log.String()
			t.Logf("the last output of %s:\n%s", filepath.Base(name), log[max(0, len(log)-2000):])
		}
	})
	return p
}

// End kills the program, if it runs, and waits for its end.
func (p *Program) End() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}
