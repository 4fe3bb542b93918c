//go:build !linux

package daemon

// TrimMemory does nothing: only Linux is known to give back pages of a program's file.
func TrimMemory() {}
