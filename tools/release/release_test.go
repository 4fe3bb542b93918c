package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.example")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// small makes a repository with a small program in place of rouse, and with all other files of a release.
func small(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	write := func(name string, body []byte) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", []byte("module example.org/rouse\n\ngo 1.26.0\n"))
	write("cmd/rouse/main.go", []byte("package main\n\nvar release string\n\nfunc main() { println(release) }\n"))
	names := append([]string{"packaging/linux/preinst", "packaging/linux/postinst", "packaging/linux/prerm", "packaging/linux/postrm"}, enclosed...)
	for _, f := range installed {
		_, from, _ := strings.Cut(f.path, "=")
		names = append(names, from)
	}
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, body)
	}
	command(t, root, "git", "init", "-q")
	command(t, root, "git", "add", "-A")
	command(t, root, "git", "commit", "-qm", "a release")
	return root
}

func build(t *testing.T, root, out, only string, flags []string) (files map[string][]byte) {
	t.Helper()
	version := "v1.2.3"
	if len(flags) == 0 {
		flags = []string{"-trimpath", "-ldflags=-s -w -X main.release=" + version}
	} else {
		version = flags[len(flags)-1][strings.LastIndex(flags[len(flags)-1], "=")+1:]
	}
	r := release{root: root, out: out, version: version, flags: flags, program: "./cmd/rouse", tools: ".."}
	if err := r.runRelease(t.Context(), only); err != nil {
		t.Fatal(err)
	}
	return contents(t, r.out)
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// compare demands the same files with the same bytes.
func compare(t *testing.T, first, second map[string][]byte) {
	t.Helper()
	if len(first) != len(second) {
		t.Errorf("%d files, and then %d", len(first), len(second))
	}
	for name, body := range first {
		if !bytes.Equal(body, second[name]) {
			t.Errorf("%s has other bytes in the second build", name)
		}
	}
}

// TestTwoBuildsGiveTheSameBytes builds from two directories.
func TestTwoBuildsGiveTheSameBytes(t *testing.T) {
	first := build(t, small(t), "dist", "linux/amd64", nil)
	t.Setenv("GOFLAGS", "-ldflags=-X=main.release=other")
	t.Setenv("TZ", "Asia/Tokyo")
	compare(t, first, build(t, small(t), "other", "linux/amd64", nil))

	for _, name := range []string{"rouse_1.2.3_linux_amd64.tar.gz", "rouse_1.2.3_linux_amd64.spdx.json", "rouse_1.2.3_amd64.deb", "rouse-1.2.3-1.x86_64.rpm", "rouse.intoto.json"} {
		if len(first[name]) == 0 || !bytes.Contains(first["SHA256SUMS"], []byte("  "+name+"\n")) {
			t.Errorf("there is no %s, or no checksum of it: there are\n%s", name, first["SHA256SUMS"])
		}
	}
	var s statement
	if err := json.Unmarshal(first["rouse.intoto.json"], &s); err != nil || len(s.Subject) != 4 || len(s.Predicate.Definition.Dependencies[0].Digest["gitCommit"]) != 40 {
		t.Errorf("the provenance is %+v, %v", s, err)
	}
	if sbom := string(first["rouse_1.2.3_linux_amd64.spdx.json"]); !strings.Contains(sbom, `"versionInfo": "v1.2.3"`) {
		t.Errorf("the bill of materials has no version:\n%s", sbom)
	}
}

// TestTheReleaseIsReproducible builds the release in the directory ROUSE_RELEASE again, from a clone
// elsewhere and with an empty cache. make release-check runs it.
func TestTheReleaseIsReproducible(t *testing.T) {
	dist := os.Getenv("ROUSE_RELEASE")
	if dist == "" {
		t.Skip("by request: make release-check")
	}
	clone := t.TempDir()
	command(t, ".", "git", "clone", "-q", "../..", clone)
	t.Setenv("GOCACHE", t.TempDir())
	compare(t, contents(t, dist), build(t, clone, "dist", os.Getenv("ROUSE_RELEASE_ONLY"), flag.Args()))
}

// TestZip: an archive for Windows depends on its files and the time only.
func TestZip(t *testing.T) {
	files := []file{{path: "rouse/rouse.exe", mode: 0o755, body: []byte("MZ")}}
	first, err := compressZip(files, time.Unix(1e9, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	second, err := compressZip(files, time.Unix(1e9, 0).UTC())
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v, or other bytes", err)
	}
}

func TestVersionsOfPackages(t *testing.T) {
	last := ""
	for _, v := range [][2]string{ // in their order
		{"ca8945f", "0.0.0~ca8945f"}, {"ca8945f-dirty", "0.0.0~ca8945f.dirty"}, {"v0.1.0-rc.1", "0.1.0~rc.1"}, {"v0.1.0", "0.1.0"},
		{"v0.1.0-5-gabcdef0", "0.1.0+5.gabcdef0"}, {"v0.1.1-rc.1-2-gabcdef0-dirty", "0.1.1~rc.1+2.gabcdef0+dirty"}, {"v0.1.1", "0.1.1"},
	} {
		if got := packageVersion(v[0]); got != v[1] {
			t.Errorf("the version of %s is %s, not %s", v[0], got, v[1])
		}
		if _, err := exec.LookPath("dpkg"); err == nil && last != "" {
			if exec.CommandContext(context.Background(), "dpkg", "--compare-versions", last, "lt", v[1]).Run() != nil {
				t.Errorf("%s does not come before %s", last, v[1])
			}
		}
		last = v[1]
	}
}
