package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestThePackageOnDebian installs the package on this Debian, updates, uses and purges it, in a copy of its
// root that is discarded: an overlay in a mount namespace of its own. Afterwards nothing but what
// docs/install.md names is there.
func TestThePackageOnDebian(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("this is no Debian")
	}
	if out, err := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces of its own: %v: %s", err, out)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary := os.Getenv("ROUSE_BINARY")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "rouse")
		command(t, root, "go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/rouse")
	}
	dir := t.TempDir()
	for version, name := range map[string]string{"v0.1.0": "rouse.deb", "v0.2.0-rc.1": "newer.deb"} {
		r := release{root: root, out: dir, version: version, time: time.Unix(1e9, 0)}
		files, err := r.packageFiles(binary)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.writeDeb(platform{"linux", "amd64"}, files); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "rouse_"+packageVersion(version)+"_amd64.deb"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("testdata/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "left")
	inside := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", `
mount -t tmpfs tmpfs "$1"
mkdir "$1"/upper "$1"/work "$1"/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
mkdir -p "$1/root/run/lock"
mount -t tmpfs tmpfs "$1/root/run"
cp "$2/rouse.deb" "$2/newer.deb" "$1/root/"
cp "$3" "$1/root/install.sh"
chroot "$1/root" sh /install.sh
rm "$1/root/install.sh"
(cd "$1/upper" && find . -not -type d -not -type c) > "$2/left"
`, "sh", t.TempDir(), dir, script)
	inside.Env = append(os.Environ(), "LC_ALL=C")
	if out, err := inside.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	// What any package leaves: dpkg's own files, logs, and the lists of users with their copies.
	usual := regexp.MustCompile(`^\./(var/lib/dpkg/|var/log/|var/cache/|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|etc/\.pwd\.lock$)`)
	for _, name := range strings.Fields(string(list)) {
		if !usual.MatchString(name) {
			t.Errorf("after the purge there is %s", name)
		}
	}
}

// exposure is the most that "systemd-analyze security" may find, from 0, nothing is exposed, to 10.
// docs/install.md states it.
const exposure = "1.5"

// TestTheUnitIsHardened compares what the unit exposes.
func TestTheUnitIsHardened(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "at most "+exposure) {
		t.Errorf("docs/install.md does not state the exposure, at most %s", exposure)
	}
	threshold := strings.ReplaceAll(exposure, ".", "") // the program takes tenths
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold="+threshold, "../../packaging/linux/rouse.service").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		t.Skip("systemd-analyze is not here")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", regexp.MustCompile(`Overall exposure level.*`).Find(out))
}

// TestTheUnitStaysDown: after an exit code that only an operator can cure, systemd does not start the server
// again and again.
func TestTheUnitStaysDown(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/linux/rouse.service")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindSubmatch(unit)
	if codes == nil || string(codes[1]) != "2 7" {
		t.Fatalf("the unit is restarted after the exit codes of a wrong configuration and a damaged store: %q", codes)
	}
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for code, means := range map[string]string{"2": "configuration is wrong", "7": "damaged"} {
		if row := regexp.MustCompile(`(?m)^\| ` + code + ` \|.*$`).Find(page); !strings.Contains(string(row), means) {
			t.Errorf("docs/cli.md has for exit code %s: %q", code, row)
		}
	}
}
