package dapr

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of a test. It is no measurement.
const patience = 2 * time.Minute

// programs returns the folder of the programs.
func programs(t *testing.T) string {
	dir := os.Getenv("DAPR_PROGRAMS")
	if dir == "" {
		t.Skip("DAPR_PROGRAMS does not say where Dapr's programs are: make test-dapr builds them")
	}
	return dir
}

// process is a program that a test may kill and start again.
type process struct {
	t    *testing.T
	path string
	args []string

	cmd  *exec.Cmd
	out  *tail
	gone chan struct{}
}

// start starts a program of DAPR_PROGRAMS. It is killed when the test ends.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, path: filepath.Join(programs(t), name), args: args, out: &tail{}}
	p.begin()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", name, p.out)
		}
	})
	return p
}

func (p *process) begin() {
	p.t.Helper()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	gone := make(chan struct{})
	p.gone = gone
	go func(cmd *exec.Cmd) {
		defer close(gone)
		_ = cmd.Wait()
	}(p.cmd)
}

// kill ends the process like the out-of-memory killer.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// tail keeps the last bytes of a process's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text = append(l.text, b...); len(l.text) > 1<<16 {
		l.text = bytes.Clone(l.text[len(l.text)-1<<15:])
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-6000):])
}

// port returns a free port.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
