//go:build unix

package webhook

import "syscall"

// isStale reports whether a connection that was idle cannot be used: the receiver has closed it, or has sent
// something without a request.
func (c *conn) isStale() bool {
	var b [1]byte
	var got error
	err := c.raw.Control(func(fd uintptr) {
		_, _, got = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err != nil || got != syscall.EAGAIN && got != syscall.EWOULDBLOCK //nolint:errorlint // a number of the kernel
}
