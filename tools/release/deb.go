package main

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the format demands it; SHA256SUMS protects the package
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// writeDeb writes a Debian package: an ar archive of a version, a tar for dpkg itself, and a tar of the
// files.
func (r *release) writeDeb(p platform, files []file) error {
	control, err := r.controlTar(p, files)
	if err != nil {
		return err
	}
	data, err := compressTar(withDirectories(files), r.time)
	if err != nil {
		return err
	}
	body := arArchive(r.time.Unix(), file{path: "debian-binary", body: []byte("2.0\n")},
		file{path: "control.tar.gz", body: control}, file{path: "data.tar.gz", body: data})
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("rouse_%s_%s.deb", packageVersion(r.version), p.arch)),
		body, 0o644)
}

// controlTar returns the tar for dpkg itself.
func (r *release) controlTar(p platform, files []file) ([]byte, error) {
	var size int
	var sums, conffiles strings.Builder
	for _, f := range files {
		size += len(f.body)
		if f.config {
			conffiles.WriteString(f.path + "\n")
			continue
		}
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.body), strings.TrimPrefix(f.path, "/")) //nolint:gosec // see above
	}
	text := fmt.Sprintf(
		"Package: rouse\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\nRecommends: ca-certificates\nSection: net\n"+
			"Priority: optional\nHomepage: %s\nDescription: %s\n %s\n", packageVersion(r.version), p.arch, maintainer,
		(size+1023)/1024, homepage,
		summary, strings.ReplaceAll(description, "\n", "\n "))
	list := []file{{path: "./control", mode: 0o644, body: []byte(text)},
		{path: "./md5sums", mode: 0o644, body: []byte(sums.String())},
		{path: "./conffiles", mode: 0o644, body: []byte(conffiles.String())}}
	for _, name := range []string{"preinst", "postinst", "prerm", "postrm"} {
		script, err := r.packageScript(name)
		if err != nil {
			return nil, err
		}
		list = append(list, file{path: "./" + name, mode: 0o755, body: []byte(script)})
	}
	return compressTar(list, r.time)
}

// withDirectories returns files with the directories above them, each before its contents.
func withDirectories(files []file) (all []file) {
	there := map[string]bool{"/": true}
	var add func(dir string)
	add = func(dir string) {
		if there[dir] {
			return
		}
		there[dir] = true
		add(path.Dir(dir))
		all = append(all, file{path: "." + dir + "/", mode: 0o755})
	}
	for _, f := range files {
		add(path.Dir(f.path))
		f.path = "." + f.path
		all = append(all, f)
	}
	return all
}

// arArchive returns an ar archive.
func arArchive(at int64, files ...file) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", f.path, at, 0, 0, "100644", len(f.body))
		b.Write(f.body)
		if len(f.body)%2 != 0 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
