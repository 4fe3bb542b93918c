package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
)

// Ports are taken from a range below that of the ports that the kernel gives to outgoing connections (from
// 32768 on Linux), so that no connection has the port of a server that is down.
const (
	firstPort = 10000
	lastPort  = 32000
)

// claim is a port that this test binary reserves until releasePort, also while no server listens on it.
type claim struct {
	port int
	mark net.Listener
}

// claimPort reserves a free port. Test binaries run concurrently: they mark their ports with sockets whose
// names exist only in memory (Linux), and which the kernel releases when the test binary ends.
func claimPort() (*claim, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		c := &claim{port: port}
		if runtime.GOOS == "linux" {
			mark, err := net.Listen("unix", fmt.Sprintf("@rouse-test-port-%d", port))
			if err != nil {
				continue // reserved by another test binary, or this one
			}
			c.mark = mark
		}
		if l, err := net.Listen("tcp4", c.claimedAddr()); err == nil {
			if err := l.Close(); err == nil {
				return c, nil
			}
		}
		c.releasePort()
	}
	return nil, fmt.Errorf("no free port of 127.0.0.1 between %d and %d", firstPort, lastPort)
}

// FreeAddr returns an address of 127.0.0.1 that no other test gets until this one ends.
func FreeAddr(t testing.TB) string {
	t.Helper()
	c, err := claimPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.releasePort)
	return c.claimedAddr()
}

func (c *claim) claimedAddr() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

func (c *claim) releasePort() {
	if c.mark != nil {
		_ = c.mark.Close() // it had no connections
	}
}
