package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// insideNamespace is set in the copy of the test that may mount.
const insideNamespace = "ROUSE_STORETEST_MOUNTS"

// PowerCut writes to a store on a disk that is a file, copies the file at some moment, and tests that a store
// on the copy contains everything acknowledged before: unsynced writes are in the kernel's memory and not in
// the file. A kill alone proves nothing about syncs. It needs root. Call it from a test that does nothing
// else: PowerCut runs that test again.
func PowerCut(t *testing.T, open OpenDir) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(t, dir, open)
		return
	}
	inNamespace(t, func() {
		image := filepath.Join(t.TempDir(), "disk")
		disk := newMount(t, image, true)
		v := verifier{acked: map[int]int{}}
		for round := range 3 {
			w := startWriter(t, filepath.Join(disk.dir, "store"), round)
			v.readAcknowledgements(t, w, 10+40*round)
			w.freezeWriter()
			copied := fmt.Sprintf("%s-%d", image, round)
			runOrFail(t, "cp", "--sparse=always", image, copied)
			w.killWriter()
			for w.out.Buffered() > 0 { // acknowledged before the copy
				batch, revision, ok := w.nextAcknowledgement()
				if !ok {
					break
				}
				v.noteAcknowledged(round, batch, revision)
			}
			_, _, _ = w.nextAcknowledgement()
			_ = w.cmd.Wait()
			disk.unmountDisk()
			image = copied
			disk = newMount(t, image, false)
			v.verifyStore(t, filepath.Join(disk.dir, "store"), open)
		}
		disk.unmountDisk()
	})
}

// inNamespace runs do in a process with private mounts: they disappear when it ends, however it does.
func inNamespace(t *testing.T, do func()) {
	if os.Getenv(insideNamespace) != "" {
		runOrFail(t, "mount", "--make-rprivate", "/")
		do()
		return
	}
	if os.Getuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount", "cp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
}

// mount is a file system in a file.
type mount struct {
	t   *testing.T
	dir string
}

func newMount(t *testing.T, image string, fresh bool) *mount {
	t.Helper()
	m := &mount{t, t.TempDir()}
	if fresh {
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, 512<<20); err != nil {
			t.Fatal(err)
		}
		runOrFail(t, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	}
	// commit=600: the kernel does not write unsynced data by itself.
	if out, err := exec.Command("mount", "-o", "loop,noatime,commit=600", image, m.dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", m.dir).Run() })
	return m
}

func (m *mount) unmountDisk() {
	m.t.Helper()
	runOrFail(m.t, "umount", m.dir)
}

// freezeWriter stops the writer, and returns when none of its threads can write any more.
func (w *writer) freezeWriter() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20_000 {
		if w.isStopped() {
			return
		}
		<-tick.C
	}
	w.t.Fatal("the writer does not stop")
}

func (w *writer) isStopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", w.cmd.Process.Pid))
	for _, name := range threads {
		text, e := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text), ") ") // the state follows the name
		if e != nil || !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

func runOrFail(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}
