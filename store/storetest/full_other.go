//go:build !linux

package storetest

import "testing"

// Full needs a small disk, which can be mounted on Linux only.
func Full(t *testing.T, _ OpenDir) { t.Skip("needs Linux") }
