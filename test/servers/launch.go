//go:build unix

package servers

import (
	"regexp"
	"syscall"
)

// taken matches the messages of servers about a port that is in use.
var taken = regexp.MustCompile(`(?i)address already in use|eaddrinuse`)

// launchServer starts a server in a new directory and on new ports. If another program has taken a port in
// between, it retries with new ones.
//
// describe sets the fields that are specific to the server; dir and ports are set already.
func launchServer(name string, ports int, as *syscall.Credential, describe func(*process) error) (*process, error) {
	return launchIn(onDisk, name, ports, as, describe)
}

func launchIn(in func() (home, error), name string, ports int, as *syscall.Credential,
	describe func(*process) error) (*process, error) {
	const tries = 3
	var err error
	for range tries {
		p := &process{name: name, as: as}
		if err = p.prepareLaunch(in, ports, describe); err == nil {
			if err = p.startAndWait(); err == nil {
				return p, nil
			}
		}
		_ = p.closeAndRemove() // the important error is why it did not start
		if !taken.MatchString(err.Error()) {
			break
		}
	}
	return nil, err
}

func (p *process) prepareLaunch(in func() (home, error), ports int, describe func(*process) error) error {
	dir, err := newDir(in, p.name, p.as)
	if err != nil {
		return err
	}
	p.dir = dir
	for range ports {
		c, err := claimPort()
		if err != nil {
			return err
		}
		p.ports = append(p.ports, c)
	}
	return describe(p)
}
