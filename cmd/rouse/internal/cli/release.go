package cli

import "runtime/debug"

// Release is the version of a released binary, which main sets; "" is none. It does not change while commands
// run.
var Release string

// ProgramVersion returns the release, or the version that the build recorded.
func ProgramVersion() string {
	if Release != "" {
		return Release
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
