//go:build unix

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sigStop makes a process hang; 0 where the system has no such signal.
const sigStop = syscall.SIGSTOP

// ownServer is a PostgreSQL or Redis that is started for a run, on a port of 127.0.0.1 and with data of its
// own. It syncs as its makers set it to: PostgreSQL before it acknowledges, Redis its append-only file once a
// second.
type ownServer struct {
	url   string
	about string
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
	end   syscall.Signal
}

// startOwn starts a server, and returns when it takes connections. It tries another port if the first was
// taken in the meantime.
func startOwn(ctx context.Context, kind, below string) (s *ownServer, err error) {
	for range 3 {
		if s, err = tryOwn(ctx, kind, below); err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			break
		}
	}
	return s, err
}

func tryOwn(ctx context.Context, kind, below string) (_ *ownServer, err error) {
	s := &ownServer{}
	if s.dir, err = os.MkdirTemp(below, "rouse-"+kind+"-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start a %s for the run: %w%s", kind, err, s.logTail()), s.closeOwnServer())
		}
	}()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if kind == "postgres" {
		err = s.describePostgres(ctx, port)
	} else {
		err = s.describeRedis(port)
	}
	if err != nil {
		return nil, err
	}
	return s, s.startDatabase(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// describePostgres makes a data directory. PostgreSQL refuses to run as root, so it is another user's then.
func (s *ownServer) describePostgres(ctx context.Context, port int) error {
	bin, err := postgresPrograms()
	if err != nil {
		return err
	}
	as, err := unprivilegedUser("postgres", "nobody")
	if err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(s.dir, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(s.dir, "data")
	// a terminal's Ctrl-C is not for it
	attr := endWithParent(&syscall.SysProcAttr{Credential: as, Setpgid: true}, syscall.SIGKILL)
	init := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "--auth=trust",
		"--encoding=UTF8",
		"--locale=C", "--no-instructions")
	init.Dir, init.Env, init.SysProcAttr = s.dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC",
		"HOME=" + s.dir}, attr
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	settings := []string{"shared_buffers=256MB", "max_wal_size=4GB"}
	s.about = "started for the run with " + strings.Join(settings, ", ")
	args := []string{"-D", data}
	for _, set := range append([]string{"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(port),
		"unix_socket_directories=",
		"dynamic_shared_memory_type=mmap", "max_connections=200"}, settings...) {
		args = append(args, "-c", set)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...)
	s.cmd.Env = init.Env
	// Immediate shutdown: no checkpoint of data that is thrown away, but shared memory is given back, also
	// when this process is killed.
	s.end = syscall.SIGQUIT
	s.cmd.SysProcAttr = endWithParent(&syscall.SysProcAttr{Credential: as, Setpgid: true}, s.end)
	s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	return nil
}

func (s *ownServer) describeRedis(port int) error {
	path, err := findProgram("redis-server")
	if err != nil {
		return err
	}
	s.about = "started for the run"
	s.cmd = exec.Command(path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir, "--appendonly", "yes",
		"--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
	s.end = syscall.SIGKILL
	s.cmd.SysProcAttr = endWithParent(&syscall.SysProcAttr{Setpgid: true}, s.end)
	s.url = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
	return nil
}

func (s *ownServer) startDatabase(ctx context.Context, addr string) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server writes to it, we do not
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // its output is in its log
	}()
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-s.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it takes no connections: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// logTail returns the end of the server's log.
func (s *ownServer) logTail() string {
	const most = 1 << 10
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil || len(b) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// closeOwnServer ends the server and removes its data. There may be none.
func (s *ownServer) closeOwnServer() error {
	if s == nil {
		return nil
	}
	if s.ended != nil {
		_ = s.cmd.Process.Signal(s.end) // it may have ended
		select {
		case <-s.ended:
		case <-time.After(patience):
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
	}
	return os.RemoveAll(s.dir)
}

// freePort returns a port of 127.0.0.1 without a listener.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// findProgram finds a server's program: distributions keep some out of the PATH of users.
func findProgram(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name, "/usr/local/bin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: install it, or give the URL of a server", name)
}

// postgresPrograms is the directory of PostgreSQL's programs, the newest if there are several.
func postgresPrograms() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	version := func(dir string) int {
		v, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // a name that is no number is the oldest
		return v
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	path, err := findProgram("initdb")
	if err != nil {
		return "", err
	}
	path, err = filepath.EvalSymlinks(path) // its neighbours are of the same version
	return filepath.Dir(path), err
}

// unprivilegedUser is the first of the users that exists, if we are root; otherwise ourselves, which is nil.
func unprivilegedUser(names ...string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
	}
	return nil, fmt.Errorf("it does not run as root, and none of the users %v exists", names)
}
