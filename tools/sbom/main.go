// Command sbom writes the bill of materials of a Go binary, as an SPDX 2.3 document in JSON: each module that
// is linked, with its version, checksum and licence. It fails if a module has a licence that is not allowed.
//
//	go -C tools run ./sbom -dir .. -binary ../bin/rouse > rouse.spdx.json
//
// The modules are those that the linker recorded in the binary, so tools and tests do not count.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

func main() {
	dir := flag.String("dir", ".", "the module that the binary was built from")
	binary := flag.String("binary", "", "the binary")
	version := flag.String("version", "", "the version of the binary, if its build information has none")
	flag.Parse()
	now := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		now = time.Unix(seconds, 0) // the same document in each build
	}
	if err := writeSBOM(os.Stdout, *dir, *binary, *version, now); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func writeSBOM(w io.Writer, dir, binary, version string, now time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	if version != "" {
		info.Main.Version = version
	}
	dirs, err := moduleDirs(dir)
	if err != nil {
		return err
	}
	var refused []string
	licence := func(m *debug.Module) string {
		id := licenceOf(dirs[m.Path])
		if !isAllowedLicence(id) {
			refused = append(refused, fmt.Sprintf("%s %s: %s", m.Path, m.Version, id))
		}
		return id
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(newDocument(info, licence, now)); err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("licences that are not allowed:\n\t%s", strings.Join(refused, "\n\t"))
	}
	return nil
}

// moduleDirs returns the directories of the modules that a module needs, by their paths.
func moduleDirs(dir string) (map[string]string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	return dirs, nil
}
