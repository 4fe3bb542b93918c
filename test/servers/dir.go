//go:build unix

package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// home is the directory of everything that this test binary starts. A process, the broom, removes it when the
// test binary ends.
type home struct {
	dir  string
	held *os.File // the broom's input, which is open while the test binary runs
}

// onDisk and inMemory are made when they are first used.
var (
	onDisk   = sync.OnceValues(func() (home, error) { return newHome("") })
	inMemory = sync.OnceValues(func() (home, error) { return newHome(memoryDir()) })
)

func newHome(parent string) (home, error) {
	dir, err := os.MkdirTemp(parent, "rouse-servers-")
	if err != nil {
		return home{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers of other users pass through it
		return home{}, err
	}
	held, err := startCleanup(dir)
	return home{dir: dir, held: held}, err
}

// memoryDir is the directory for the data of brokers that are not killed: memory, if the machine has enough
// of it, "" for the usual one otherwise. A busy disk takes seconds for a sync, after which RabbitMQ refuses
// operations on its queues. A broker that is killed needs the disk: its definitions of queues are written
// soon after they are acknowledged, which memory is too fast for.
func memoryDir() string {
	const shared, enough = "/dev/shm", 4 << 30
	var st unix.Statfs_t
	if unix.Statfs(shared, &st) != nil || uint64(st.Bavail)*uint64(st.Bsize) < enough ||
		unix.Access(shared, unix.W_OK) != nil {
		return ""
	}
	return shared
}

// broom waits until its input ends, which is when the test binary has ended for whatever reason. Files that a
// dying server still writes are removed by the next attempt. PostgreSQL has a segment of shared memory, which
// outlives a SIGKILL.
const broom = `
cat >/dev/null
for pid in "$0"/*/data/postmaster.pid; do
	if [ -f "$pid" ]; then ipcrm -m "$(awk 'NR == 7 { print $2 }' "$pid")"; fi
done
for try in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$0" && exit
	sleep 0.2
done
`

// startCleanup starts the broom, and returns the writing end of its input.
func startCleanup(dir string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", broom, dir)
	cmd.Stdin = r
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it receives no signals meant for this process
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("sweep up behind the servers: %w", err), r.Close(), w.Close())
	}
	return w, r.Close()
}

var dirs atomic.Int64

// newDir makes a directory that belongs to a server's user.
func newDir(in func() (home, error), name string, as *syscall.Credential) (string, error) {
	home, err := in()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home.dir, fmt.Sprintf("%s-%d", name, dirs.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if as == nil {
		return dir, nil
	}
	return dir, os.Chown(dir, int(as.Uid), int(as.Gid))
}
