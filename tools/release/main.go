// Command release builds the files of a release, the same bytes from the same commit on any machine: an
// archive for each platform, Debian and RPM packages, a bill of materials of each binary, their checksums,
// and a statement of how they were made. It publishes nothing.
//
//	go -C tools run ./release -root .. -version v1.2.3 -out dist -- -trimpath …
//
// Arguments after -- are flags of go build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// platform is a system and a processor that rouse is released for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"freebsd", "amd64"}}

// release holds the settings that all files of a release share.
type release struct {
	root    string // of the repository
	tools   string // the directory of the module of this program
	out     string
	version string   // as git describes it, such as v1.2.3
	flags   []string // of go build
	program string   // the package that is built
	commit  string
	time    time.Time // of the commit: no file has another one
}

func main() {
	var r release
	var only string
	flag.StringVar(&r.root, "root", "..", "the repository")
	flag.StringVar(&r.out, "out", "dist", "the directory for the files, below the repository")
	flag.StringVar(&r.version, "version", "", "the version, such as v1.2.3")
	flag.StringVar(&only, "only", "", "one platform, such as linux/amd64; empty is all")
	flag.Parse()
	r.program, r.flags, r.tools = "./cmd/rouse", flag.Args(), "."
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.runRelease(ctx, only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) runRelease(ctx context.Context, only string) error {
	if r.version == "" {
		return errors.New("there is no version: give -version, such as v1.2.3")
	}
	if err := r.findCommit(ctx); err != nil {
		return err
	}
	r.out = filepath.Join(r.root, r.out)
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	built := 0
	for _, p := range platforms {
		if only != "" && only != p.String() {
			continue
		}
		fmt.Fprintln(os.Stderr, "building for", p)
		if err := r.buildPlatform(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		built++
	}
	if built == 0 {
		return fmt.Errorf("there is no platform %s: there are %v", only, platforms)
	}
	return r.writeChecksums(ctx)
}

// findCommit finds the commit and its time.
func (r *release) findCommit(ctx context.Context) (err error) {
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	git := exec.CommandContext(ctx, "git", "log", "-1", "--format=%H %ct")
	git.Dir, git.Stderr = r.root, os.Stderr
	out, err := git.Output()
	if err != nil {
		return fmt.Errorf("git log: %w", err)
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	r.commit, r.time = hash, time.Unix(unix, 0).UTC()
	return err
}

// buildPlatform builds the files of one platform.
func (r *release) buildPlatform(ctx context.Context, p platform) error {
	binary, err := r.buildBinary(ctx, p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(binary))
	if err := r.writePlatformArchive(p, binary); err != nil {
		return err
	}
	if err := r.writeMaterials(ctx, p, binary); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	files, err := r.packageFiles(binary)
	if err != nil {
		return err
	}
	if err := r.writeDeb(p, files); err != nil {
		return err
	}
	return r.writeRPM(p, files)
}

// buildBinary builds the binary of a platform. Nothing of this machine is in it: no path, no time, no flags
// of the environment.
func (r *release) buildBinary(ctx context.Context, p platform) (binary string, err error) {
	dir, err := os.MkdirTemp("", "rouse-release-")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "rouse")
	if p.os == "windows" {
		binary += ".exe"
	}
	compile := exec.CommandContext(ctx, "go", append(append([]string{"build", "-buildvcs=false"}, r.flags...), "-o",
		binary, r.program)...)
	compile.Dir, compile.Stderr = r.root, os.Stderr
	compile.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1",
		"GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
	if err := compile.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("go build: %w", err), os.RemoveAll(dir))
	}
	return binary, nil
}

// writeMaterials writes the bill of materials of a binary.
func (r *release) writeMaterials(ctx context.Context, p platform, binary string) error {
	f, err := os.Create(filepath.Join(r.out, r.archiveName(p)+".spdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	sbom := exec.CommandContext(ctx, "go", "run", "./sbom", "-dir", r.root, "-binary", binary, "-version", r.version)
	sbom.Dir, sbom.Stdout, sbom.Stderr = r.tools, f, os.Stderr
	sbom.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
	if err := sbom.Run(); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	return f.Close()
}

// archiveName is that of the archive of a platform, without its extension.
func (r *release) archiveName(p platform) string {
	return fmt.Sprintf("rouse_%s_%s_%s", strings.TrimPrefix(r.version, "v"), p.os, p.arch)
}
