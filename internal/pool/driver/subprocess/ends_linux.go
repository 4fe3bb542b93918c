package subprocess

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ends reports the end of processes. Waiting for a process takes a thread; this takes a single epoll
// descriptor for all of them, watched by the poller of the runtime.
type ends struct {
	poll *os.File
	fd   int // of poll
	life sync.WaitGroup

	mu    sync.Mutex
	next  int32
	wants map[int32]chan<- struct{}
}

func newEnds() (*ends, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	e := &ends{poll: os.NewFile(uintptr(fd), "ends of processes"), fd: fd, wants: map[int32]chan<- struct{}{}}
	raw, err := e.poll.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, e.poll.Close())
	}
	e.life.Go(func() { e.handleEpoll(raw) })
	return e, nil
}

// handleEpoll handles events of the kernel until the descriptor is closed.
func (e *ends) handleEpoll(raw syscall.RawConn) {
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		if err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events, 0) // after an error, it is called again with the next event
			return n > 0
		}); err != nil {
			return
		}
		e.mu.Lock()
		for _, one := range events[:n] {
			if c := e.wants[one.Fd]; c != nil {
				delete(e.wants, one.Fd)
				close(c)
			}
		}
		e.mu.Unlock()
	}
}

// endOfProcess returns a channel that is closed when a process has ended, or nil if the kernel cannot report
// it.
func (e *ends) endOfProcess(p *os.Process) <-chan struct{} {
	c := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	number := e.next
	failed := errors.New("there is no handle")
	_ = p.WithHandle(func(handle uintptr) {
		failed = unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, int(handle),
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: number})
	})
	if failed != nil {
		return nil
	}
	e.wants[number] = c
	return c
}

func (e *ends) closeEpoll() error {
	err := e.poll.Close()
	e.life.Wait()
	return err
}
