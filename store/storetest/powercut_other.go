//go:build !linux

package storetest

import "testing"

// PowerCut needs a disk that is a file, which can be mounted on Linux only.
func PowerCut(t *testing.T, _ OpenDir) { t.Skip("needs Linux") }
