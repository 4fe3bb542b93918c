package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Fields of both kinds of packages.
const (
	summary     = "durable timers that wake your code"
	description = "A timer has a schedule, a payload and a target. rouse stores it durably and delivers each\noccurrence on time, at least once, never early."
	homepage    = "https://github.com/rousehq/rouse"
	maintainer  = "The maintainers of rouse <https://github.com/rousehq/rouse>"
)

// installed are the files of the repository that packages install.
var installed = []file{
	{path: "/usr/lib/systemd/system/rouse.service=packaging/linux/rouse.service", mode: 0o644},
	{path: "/usr/lib/sysusers.d/rouse.conf=packaging/linux/rouse.sysusers", mode: 0o644},
	{path: "/etc/rouse/rouse.yaml=packaging/linux/rouse.yaml", mode: 0o640, config: true},
	{path: "/usr/share/doc/rouse/copyright=LICENSE", mode: 0o644},
	{path: "/usr/share/doc/rouse/CHANGELOG.md=CHANGELOG.md", mode: 0o644},
	{path: "/usr/share/bash-completion/completions/rouse=cmd/rouse/completion/rouse.bash", mode: 0o644},
	{path: "/usr/share/zsh/vendor-completions/_rouse=cmd/rouse/completion/rouse.zsh", mode: 0o644},
	{path: "/usr/share/fish/vendor_completions.d/rouse.fish=cmd/rouse/completion/rouse.fish", mode: 0o644},
}

// packageFiles returns the files of a package, with the binary.
func (r *release) packageFiles(binary string) ([]file, error) {
	files := []file{{path: "/usr/bin/rouse=" + binary, mode: 0o755}}
	for i, f := range append(files, installed...) {
		to, from, _ := strings.Cut(f.path, "=")
		if i > 0 {
			from = filepath.Join(r.root, from)
			files = append(files, f)
		}
		body, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files[i].path, files[i].body = to, body
	}
	return files, nil
}

// packageScript returns one that packages run.
func (r *release) packageScript(name string) (string, error) {
	body, err := os.ReadFile(filepath.Join(r.root, "packaging/linux", name))
	return string(body), err
}

var described = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+))?(?:-(\d+)-(g[0-9a-f]+))?(?:-(dirty))?$`)

// packageVersion returns the version of packages, which sorts as versions do: a release candidate before its
// release, a commit after a release behind it. A commit without a release comes before all.
func packageVersion(version string) string {
	m := described.FindStringSubmatch(version)
	if m == nil {
		return "0.0.0~" + strings.ReplaceAll(version, "-", ".")
	}
	v := m[1]
	if m[2] != "" {
		v += "~" + m[2]
	}
	if m[3] != "" {
		v += fmt.Sprintf("+%s.%s", m[3], m[4])
	}
	if m[5] != "" {
		v += "+dirty"
	}
	return v
}
