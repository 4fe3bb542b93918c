package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rousehq/rouse/test/harness"
)

// disk is a file system in a file. What the file holds is what a disk would hold after the power was cut:
// what was written but not synced is in the kernel's memory only.
type disk struct {
	t     testing.TB
	image string
	dir   string // where it is mounted
	cuts  int
}

// options keep the kernel from writing unsynced data early by itself.
const options = "noatime,commit=600"

// newDisk makes and mounts a disk. The test is skipped where that cannot be done.
func newDisk(t testing.TB, megabytes int64) *disk {
	t.Helper()
	if !harness.MayMount() {
		t.Skip("mounting needs root in a mount namespace of its own")
	}
	for _, tool := range []string{"mkfs.ext4", "losetup", "mount", "umount", "cp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	top := harness.TempDir(t)
	d := &disk{t: t, image: filepath.Join(top, "image-0"), dir: filepath.Join(top, "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, megabytes<<20); err != nil {
		t.Fatal(err)
	}
	d.must("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image)
	if err := d.mount(); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	t.Cleanup(func() {
		if d.mounted() {
			d.unmount()
		}
	})
	return d
}

// mount mounts the image through a loop device that writes to it directly, and that is given back when it is
// unmounted.
func (d *disk) mount() error {
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", d.image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	if out, err = exec.Command("mount", "-t", "ext4", "-o", options, device, d.dir).CombinedOutput(); err != nil {
		err = fmt.Errorf("mount: %w: %s", err, out)
	}
	// Of a device in use this means: when it is used no more.
	if out, e := exec.Command("losetup", "--detach", device).CombinedOutput(); e != nil && err == nil {
		err = fmt.Errorf("losetup --detach: %w: %s", e, out)
	}
	return err
}

func (d *disk) mounted() bool {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	return strings.Contains(string(mounts), " "+d.dir+" ")
}

func (d *disk) unmount() {
	d.t.Helper()
	d.must("umount", d.dir)
}

// powerCut puts a copy of what the disk holds in its place, as it is found when the power comes back. The
// server that writes to it is stopped while the copy is made, so that it is of one moment, and then killed.
func (d *disk) powerCut(s *server) {
	d.t.Helper()
	s.Freeze()
	d.cuts++
	old := d.image
	d.image = filepath.Join(filepath.Dir(old), fmt.Sprintf("image-%d", d.cuts))
	d.must("cp", "--sparse=always", old, d.image)
	s.Kill()
	d.unmount()
	if err := os.Remove(old); err != nil {
		d.t.Fatal(err)
	}
	if err := d.mount(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) must(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}
