//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// StartDocker starts a Docker Engine without networks, whose images and containers are in the server's
// directory. It runs in its own namespaces, so that containers, mounts and all end with it, like a machine
// that is switched off: Kill and Stop are the same. The URL is that of its socket.
//
// It needs root with all capabilities, and a dockerd, which scripts/install-servers does not install: use it
// only in tests that run on explicit request.
func StartDocker(t testing.TB) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a Docker Engine needs root")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Fatalf("no Docker Engine is installed: %v; Debian's package is docker.io", err)
	}
	var socket, group string
	p, err := launchServer("docker", 0, nil, func(p *process) error {
		socket = filepath.Join(p.dir, "docker.sock")
		group = filepath.Base(filepath.Dir(p.dir)) + "-" + filepath.Base(p.dir)
		p.path = "unshare"
		run := filepath.Join(p.dir, "run") // its content belongs to processes that have ended
		p.args = []string{"--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "/bin/sh", "-c",
			`rm -rf "$0" && exec dockerd "$@"`, run,
			"-H", "unix://" + socket, "--data-root", filepath.Join(p.dir, "data"), "--exec-root", run, "--pidfile",
			filepath.Join(run, "pid"),
			"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=" + group,
			"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"}
		path, err := exec.LookPath(p.path)
		p.path = path
		p.ready = func(ctx context.Context) error { return dockerReady(ctx, socket) }
		p.stopSignal = syscall.SIGKILL
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after its end
		if err := removeGroups(group); err != nil {
			t.Error(err)
		}
	})
	return newServer(t, p, "unix://"+socket, socket)
}

func dockerReady(ctx context.Context, socket string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(req)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("docker: %s", answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// removeGroups removes the control groups that an engine has left, in a tree of its own or in one for each
// controller.
func removeGroups(name string) error {
	trees, _ := filepath.Glob("/sys/fs/cgroup/*/" + name) // the pattern is well-formed
	for _, tree := range append(trees, "/sys/fs/cgroup/"+name) {
		var dirs []string
		err := filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		for i := len(dirs) - 1; i >= 0 && err == nil; i-- { // those below come first
			err = syscall.Rmdir(dirs[i])
		}
		if err != nil {
			return fmt.Errorf("remove control group %s: %w", tree, err)
		}
	}
	return nil
}
