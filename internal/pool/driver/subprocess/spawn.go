package subprocess

import (
	"os/exec"
	"runtime"
	"sync"
)

// spawner starts processes, all of them from one thread, which lives as long as it. On Linux a child can ask for a signal when
// its parent dies, but what the kernel takes for the parent is the thread that started it, and a thread ends with any goroutine
// that has locked it and does not unlock it. This one is locked here, so that it is nobody else's.
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
		// A goroutine that ends with its lock ends its thread, and that may have started other children before.
		defer runtime.UnlockOSThread()
		for one := range s.starts {
			one.done <- one.cmd.Start()
		}
	})
	return s
}

// start starts a process as the leader of a new process group, which dies with this process where the system can do that.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = ownGroup()
	endWithParent(cmd.SysProcAttr)
	done := make(chan error, 1)
	s.starts <- start{cmd, done}
	return <-done
}

// close gives the thread back; no process that it started may run any more.
func (s *spawner) close() {
	close(s.starts)
	s.life.Wait()
}
