//go:build unix

package servers

import (
	"regexp"
	"syscall"
)

// taken is what servers say of a port that another program has.
var taken = regexp.MustCompile(`(?i)address already in use|eaddrinuse`)

// launch starts a server in a new directory and on new ports. If a program that is none of ours has taken a port in between, it
// does so again.
//
// describe fills in what is special to the server; dir and ports are made.
func launch(name string, ports int, as *syscall.Credential, describe func(*process) error) (*process, error) {
	const tries = 3
	var err error
	for range tries {
		p := &process{name: name, as: as}
		if err = p.prepare(ports, describe); err == nil {
			if err = p.start(); err == nil {
				return p, nil
			}
		}
		_ = p.close() // the error that counts is why it did not start
		if !taken.MatchString(err.Error()) {
			break
		}
	}
	return nil, err
}

func (p *process) prepare(ports int, describe func(*process) error) error {
	dir, err := newDir(p.name, p.as)
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
