package tool

import (
	"runtime"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// VersionCmd prints the version.
type VersionCmd struct{}

func (VersionCmd) Help() string {
	return `Examples:

    rouse version
    rouse version --json`
}

// Run prints the version, of the program and of Go.
func (VersionCmd) Run(a *cli.App) error {
	v := api.Version{Version: cli.ProgramVersion(), API: "v1", Go: runtime.Version()}
	return a.ShowValue(v, func() error {
		a.PrintLine("rouse %s (API %s, %s, %s/%s)", v.Version, v.API, v.Go, runtime.GOOS, runtime.GOARCH)
		return nil
	})
}
