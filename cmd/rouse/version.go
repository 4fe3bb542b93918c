package main

import (
	"runtime"

	"github.com/rousehq/rouse/api"
)

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
