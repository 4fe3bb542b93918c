package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/rpmpack"
)

// rpmArch are the names of processors in RPM packages.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// writeRPM writes an RPM package.
func (r *release) writeRPM(p platform, files []file) error {
	arch := rpmArch[p.arch]
	pack, err := rpmpack.NewRPM(rpmpack.RPMMetaData{Name: "rouse", Summary: summary, Description: description,
		Version: packageVersion(r.version), Release: "1",
		Arch: arch, OS: "linux", URL: homepage, Licence: "Apache-2.0", Packager: maintainer, BuildHost: "reproducible",
		BuildTime: r.time, Compressor: "gzip"})
	if err != nil {
		return err
	}
	for _, f := range files {
		one := rpmpack.RPMFile{Name: f.path, Body: f.body, Mode: uint(0o100000 | f.mode), Owner: "root", Group: "root",
			MTime: uint32(r.time.Unix())}
		if f.config {
			one.Type = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		}
		pack.AddFile(one)
	}
	for name, add := range map[string]func(string){"postinst": pack.AddPostin, "prerm": pack.AddPreun,
		"postrm": pack.AddPostun} {
		script, err := r.packageScript(name)
		if err != nil {
			return err
		}
		add(script)
	}
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("rouse-%s-1.%s.rpm", packageVersion(r.version), arch)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pack.Write(f); err != nil {
		return err
	}
	return f.Close()
}
