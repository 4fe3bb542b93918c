package daemon

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startedAfter is how long after the start of a server its parts have begun.
	startedAfter = 20 * time.Second
	// trimEvery is how often pages are given back, after a time in which the process was idle: it used less
	// than a hundredth of a core.
	trimEvery = time.Minute
	idlePart  = 100
)

// TrimMemory gives back the memory that only the start of a server needs, once it has started: garbage, and
// the pages of the program's file. Most code and tables of the file are used while packages initialize, or
// never; the kernel maps those around each page that is used. What is used again is mapped again, from the
// kernel's cache, 64 KiB or more at a time. While the server is idle, it gives back pages again and again.
func TrimMemory() {
	go func() {
		time.Sleep(startedAfter)
		debug.FreeOSMemory()
		trimImage()
		for used := usedTime(); ; {
			time.Sleep(trimEvery)
			before := used
			if used = usedTime(); used-before < trimEvery/idlePart {
				trimImage()
			}
		}
	}()
}

// usedTime returns the CPU time that the process has used.
func usedTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func trimImage() {
	for _, m := range imageMappings() {
		// nothing is lost: the pages are those of the file
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// imageMappings returns where the program's file is mapped as it is on disk. A mapping with pages of its own
// is left out: the linker writes addresses into some, and then protects them.
func imageMappings() (list []mapping) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer maps.Close() //nolint:errcheck // it was read
	var m mapping
	image := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		f := strings.Fields(lines.Text()) // range, permissions, offset, device, inode, path; or a value of the last one
		switch {
		case len(f) >= 2 && f[0] == "Anonymous:" && f[1] == "0" && image:
			list = append(list, m)
		case len(f) >= 5 && !strings.HasSuffix(f[0], ":"):
			first, last, _ := strings.Cut(f[0], "-")
			start, err := strconv.ParseUint(first, 16, 64)
			end, err2 := strconv.ParseUint(last, 16, 64)
			image = err == nil && err2 == nil && len(f) == 6 && f[5] == path && !strings.Contains(f[1], "w")
			m = mapping{uintptr(start), uintptr(end)}
		}
	}
	return list
}
