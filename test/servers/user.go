//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// asUser returns the user for a server: for root, which several servers refuse, the first existing one of
// names; otherwise nil, the current user.
func asUser(names ...string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("none of the users %q exists, and the server does not run as root", names)
}
