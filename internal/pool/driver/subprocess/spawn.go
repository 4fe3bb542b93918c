package subprocess

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts all processes from one thread, which lives as long as the spawner. On Linux a child can
// request a signal when its parent dies, but the kernel takes the starting thread for the parent, and a
// thread ends with any goroutine that has locked it and not unlocked it. The thread of the spawner is locked,
// so no other goroutine uses it.
type spawner struct {
	starts chan start
	life   sync.WaitGroup
}

type start struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{starts: make(chan start)}
	s.life.Go(func() {
		runtime.LockOSThread()
		// A goroutine that ends while locked would end its thread, which may have started other children
		// before.
		defer runtime.UnlockOSThread()
		for one := range s.starts {
			one.done <- one.cmd.Start()
		}
	})
	return s
}

// spawnProcess starts a process as the leader of a new process group, which dies with this process if the
// system supports that.
func (s *spawner) spawnProcess(cmd *exec.Cmd) error {
	cmd.SysProcAttr = ownGroup()
	endWithParent(cmd.SysProcAttr)
	done := make(chan error, 1)
	s.starts <- start{cmd, done}
	return <-done
}

// closeSpawner releases the thread. No process that it started may be running.
func (s *spawner) closeSpawner() {
	close(s.starts)
	s.life.Wait()
}
