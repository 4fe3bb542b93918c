//go:build linux

package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
)

// instance is a private systemd: a real user instance with only the units of the test. It needs root, for a
// mount namespace with its own /run and for a control group.
type instance struct {
	t     *testing.T
	dir   string // everything of it: %t, and its units
	group string // its control group
}

// Environment variables by which this program becomes a systemd.
const (
	becomeVariable = "ROUSE_TEST_BECOME_SYSTEMD" // its directory
	groupsVariable = "ROUSE_TEST_CONTROL_GROUPS" // where control groups of version 2 are mounted
)

// become makes this process a systemd if its environment demands it. It runs in its own mount namespace.
func become() {
	dir := os.Getenv(becomeVariable)
	if dir == "" {
		return
	}
	err := errors.Join(
		syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"), // hides the systemd of the machine
		os.MkdirAll("/run/systemd/system", 0o755))              // without which it does not start
	if groups := os.Getenv(groupsVariable); groups != "/sys/fs/cgroup" {
		err = errors.Join(err, syscall.Mount(groups, "/sys/fs/cgroup", "", syscall.MS_BIND, ""))
	}
	if err == nil {
		program := findSystemd()
		err = syscall.Exec(program, []string{program, "--user", "--unit=basic.target"}, []string{"PATH=/usr/bin:/bin", "HOME=" + dir,
			"XDG_RUNTIME_DIR=" + dir, "XDG_CONFIG_HOME=" + dir, "SYSTEMD_UNIT_PATH=" + filepath.Join(dir, "units"), // and no other units
			"SYSTEMD_GENERATOR_PATH=/nonexistent", "SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/nonexistent", "SYSTEMD_LOG_TARGET=null"})
	}
	fmt.Fprintln(os.Stderr, "cannot become a systemd:", err)
	os.Exit(1)
}

func findSystemd() string {
	for _, name := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return ""
}

// newInstance starts a systemd, or skips the test.
func newInstance(t *testing.T) *instance {
	t.Helper()
	if runtime.GOOS != "linux" || findSystemd() == "" {
		t.Skip("there is no systemd here (package systemd)")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a systemd of its own")
	}
	mounted, own, err := controlGroup()
	if err != nil {
		t.Skip("no systemd can be started here: ", err)
	}
	i := &instance{t: t, group: filepath.Join(mounted, own, fmt.Sprintf("rouse-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
	if err := os.Mkdir(i.group, 0o755); err != nil {
		t.Skip("no systemd can be started here: ", err)
	}
	if _, err := os.Stat(filepath.Join(i.group, "cgroup.kill")); err != nil {
		t.Skip("the kernel is older than 5.14: ", errors.Join(err, os.Remove(i.group)))
	}
	if i.dir, err = os.MkdirTemp("", "rouse"); err != nil { // t.TempDir is too long for sockets
		t.Fatal(err)
	}
	t.Cleanup(i.remove)
	if err := os.Mkdir(filepath.Join(i.dir, "units"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"basic", "shutdown"} { // every service refers to them
		i.write(target+".target", "[Unit]\nDefaultDependencies=no\n")
	}
	i.write("dbus.socket", "[Socket]\nListenStream=%t/bus\n")
	i.write("dbus.service", "[Unit]\nRequires=dbus.socket\n[Service]\nType=notify\n"+
		"ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation\n")
	i.start(mounted)
	return i
}

// controlGroup returns the mount point of control groups of version 2, and the group of this process.
func controlGroup() (mounted, own string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); slices.Contains(fields[6:], "cgroup2") {
			mounted = fields[4]
		}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok && mounted != "" {
			return mounted, strings.TrimSpace(path), nil
		}
	}
	return "", "", errors.New("there are no control groups of version 2")
}

// write writes a unit.
func (i *instance) write(name, body string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, "units", name), []byte(body), 0o644); err != nil {
		i.t.Fatal(err)
	}
}

func (i *instance) start(mounted string) {
	i.t.Helper()
	group, err := os.Open(i.group)
	if err != nil {
		i.t.Fatal(err)
	}
	defer group.Close() //nolint:errcheck // it was only read
	program, err := os.Executable()
	if err != nil {
		i.t.Fatal(err)
	}
	var printed bytes.Buffer
	cmd := exec.Command(program)
	cmd.Env = []string{becomeVariable + "=" + i.dir, groupsVariable + "=" + mounted}
	cmd.Stdout, cmd.Stderr = &printed, &printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, UseCgroupFD: true, CgroupFD: int(group.Fd()), Setsid: true,
		Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // systemd dies with the thread that has started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		i.t.Skip("no systemd can be started here: ", err)
	}
	i.t.Cleanup(func() {
		i.kill()
		<-ended
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := i.answers(i.private()); err == nil {
			return
		} else if time.Now().After(deadline) {
			i.t.Fatal("systemd does not answer: ", err)
		}
		select {
		case err := <-ended:
			ended <- err
			i.t.Skipf("no systemd can be started here: it ends with %v, and prints %q", err, printed.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// answers returns why systemd cannot be reached; nil if it can.
func (i *instance) answers(address string) error {
	ctx, cancel := context.WithTimeout(i.t.Context(), 10*time.Second)
	defer cancel()
	s, err := connectSystemd(ctx, address, "", func() {})
	if err == nil {
		s.closeBus()
	}
	return err
}

// private returns the address of systemd's own socket.
func (i *instance) private() string { return "unix:path=" + filepath.Join(i.dir, "systemd/private") }

// bus returns the address of a D-Bus, which systemd starts at the first connection.
func (i *instance) bus() string {
	i.t.Helper()
	if _, err := os.Stat("/usr/bin/dbus-daemon"); err != nil {
		i.t.Skip("there is no dbus-daemon here (package dbus)")
	}
	i.systemctl("start", "dbus.service")
	address := "unix:path=" + filepath.Join(i.dir, "bus")
	poll.Until(i.t, "systemd has its name on the bus", func() bool { return i.answers(address) == nil })
	return address
}

// systemctl runs systemctl.
func (i *instance) systemctl(args ...string) string {
	i.t.Helper()
	cmd := exec.Command("systemctl", append([]string{"--user"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+i.dir, "DBUS_SESSION_BUS_ADDRESS=", "SYSTEMD_PAGER=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		i.t.Fatalf("systemctl %q: %v: %s", args, err, out)
	}
	return string(out)
}

// kill kills all processes of the instance.
func (i *instance) kill() {
	if err := os.WriteFile(filepath.Join(i.group, "cgroup.kill"), []byte("1"), 0); err != nil {
		i.t.Error(err)
	}
}

// remove removes the rest of the instance.
func (i *instance) remove() {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var groups []string
		err := filepath.WalkDir(i.group, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				groups = append(groups, path)
			}
			return err
		})
		for _, g := range slices.Backward(groups) { // innermost first
			err = errors.Join(err, os.Remove(g))
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			i.t.Error(err)
			break
		}
	}
	if err := os.RemoveAll(i.dir); err != nil {
		i.t.Error(err)
	}
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
