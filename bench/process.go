package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rousehq/rouse/node"
)

// process is a server that was started here.
type process struct {
	name   string // of the node
	addr   string // of the API
	admin  string // of the metrics
	dapr   string // of Dapr's sidecars, if they are served
	child  *exec.Cmd
	stderr bytes.Buffer
}

// startProcess runs the binary's serve command on free ports and waits until it reports its addresses. i
// distinguishes the servers of a run.
func startProcess(ctx context.Context, o Options, dir string, i int) (*process, error) {
	p := &process{name: fmt.Sprintf("bench-%d", i+1)}
	data := filepath.Join(dir, "data")
	if o.Nodes > 1 {
		data += strconv.Itoa(i + 1)
	}
	file := data + ".address"
	_ = os.Remove(file)
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", data, "--address-file", file,
		"--log-level", "warn", "--allow-private-targets",
		"--node", p.name, "--strategy", o.Strategy, "--buckets", strconv.Itoa(node.Defaults().Buckets), "--lease",
		o.Lease.String(), "--hold", o.Lease.String()}
	args = append(args, o.serve...)
	p.child = exec.Command(o.Binary, args...)
	store := ""
	switch {
	case o.base != nil:
		store = o.base.URL()
	case o.Store == "sqlite":
		store = "sqlite:" + filepath.Join(data, "timers.db")
	}
	p.child.Env = append(os.Environ(), "ROUSE_STORE="+store) // not an argument, which all users of the machine may read
	p.child.Stderr = &p.stderr
	p.child.SysProcAttr = endWithParent(&syscall.SysProcAttr{}, syscall.SIGKILL)
	if err := p.child.Start(); err != nil {
		return nil, err
	}
	if err := p.waitForAddresses(ctx, file); err != nil {
		_ = p.stopProcess(syscall.SIGKILL)
		return nil, err
	}
	return p, nil
}

func (p *process) waitForAddresses(ctx context.Context, file string) error {
	for deadline := time.Now().Add(patience); ; {
		if b, err := os.ReadFile(file); err == nil { // the whole file comes at once
			at := map[string]string{}
			for line := range strings.Lines(string(b)) {
				what, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
				at[what] = addr
			}
			p.addr, p.admin, p.dapr = at["api"], at["admin"], at["dapr"]
			return nil
		}
		if time.Now().After(deadline) || !p.isAlive() {
			return fmt.Errorf("the server did not start: %s", strings.TrimSpace(p.stderr.String()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) isAlive() bool {
	f := statFields(p.child.Process.Pid)
	return len(f) > 0 && f[0] != "Z"
}

// stopProcess ends the process with a signal and waits for it. It may have ended before.
func (p *process) stopProcess(sig syscall.Signal) error {
	if p.child == nil {
		return nil
	}
	_ = p.child.Process.Signal(sig)
	err := p.child.Wait()
	p.child = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) && sig == syscall.SIGKILL {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// readCommits reads from the metrics how many commits the server has made, and of how many changes.
func (p *process) readCommits(ctx context.Context) (commits, changes float64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/metrics", nil)
	if err != nil {
		return 0, 0
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, 0
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch v, _ := strconv.ParseFloat(value, 64); name {
		case "rouse_commit_changes_count":
			commits = v
		case "rouse_commit_changes_sum":
			changes = v
		}
	}
	return commits, changes
}
