//go:build unix

package servers

import (
	"net"
	"strings"
	"testing"
)

// TestLaunchWhenPortIsTaken: a server gets another port, and other failures are reported.
func TestLaunchWhenPortIsTaken(t *testing.T) {
	t.Parallel()
	path := requireProgram(t, "redis-server")
	tries := 0
	start := func(settings ...[2]string) (*process, error) {
		tries = 0
		return launchServer("redis", 1, nil, func(p *process) error {
			if tries++; tries == 1 && settings == nil {
				l, err := net.Listen("tcp4", p.ports[0].claimedAddr())
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = l.Close() }) // it had no connections
			}
			describeRedis(p, path, settings)
			return nil
		})
	}
	p, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if tries != 2 {
		t.Errorf("it started at try %d, want 2", tries)
	}
	if err := p.closeAndRemove(); err != nil {
		t.Error(err)
	}
	_, err = start([2]string{"no-such-setting", "1"})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("a setting that is wrong gives the error %v", err)
	}
	if tries != 1 {
		t.Errorf("a setting that is wrong was tried %d times", tries)
	}
}
