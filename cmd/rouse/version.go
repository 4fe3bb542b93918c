package main

import (
	"runtime"
	"runtime/debug"

	"github.com/rousehq/rouse/api"
)

// release is set by the linker in released binaries: -ldflags "-X main.release=v1.2.3".
var release string

// programVersion returns the release, or the version that the build recorded.
func programVersion() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	return v
}

// versionCmd prints the version.
type versionCmd struct{}

func (versionCmd) Help() string {
	return `Examples:

    rouse version
    rouse version --json`
}

// Run prints the version, of the program and of Go.
func (versionCmd) Run(a *app) error {
	v := api.Version{Version: programVersion(), API: "v1", Go: runtime.Version()}
	return a.showValue(v, func() error {
		a.printLine("rouse %s (API %s, %s, %s/%s)", v.Version, v.API, v.Go, runtime.GOOS, runtime.GOARCH)
		return nil
	})
}
