package systemd

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Windows has no systemd: New fails before any of this is used.
const (
	shared    = 0
	exclusive = 1
	errLocked = syscall.EWOULDBLOCK
)

func lockFile(*os.File, int) error              { return errors.ErrUnsupported }
func fileOwner(fs.FileInfo) (user int, ok bool) { return 0, false }
