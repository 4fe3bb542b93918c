//go:build failpoint

package engine

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// failpoint kills the process, like kill -9, if ROUSE_FAILPOINT names this step: "after-commit" the first
// time, "after-commit:7" the seventh time.
func failpoint(name string) {
	if name == armed.name && armed.left.Add(-1) == 0 {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	}
}

var armed = armFailpoint(os.Getenv("ROUSE_FAILPOINT"))

// armedPoint is the step at which to die, and the number of passes left until then.
type armedPoint struct {
	name string
	left atomic.Int64
}

func armFailpoint(text string) *armedPoint {
	name, times, _ := strings.Cut(text, ":")
	a := &armedPoint{name: name}
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		n = 1
	}
	a.left.Store(n)
	return a
}
