package main

import "runtime/debug"

// release is that of a released binary, which main sets; "" is none.
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
