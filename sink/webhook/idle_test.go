package webhook

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestARefusedRequestLeavesConnectionsAsTheyWere: what finds no place at an address does not prolong the
// connection that is idle there.
func TestARefusedRequestLeavesConnectionsAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := idle{most: 2, perOrigin: 2, timeout: time.Minute}
		defer p.closePool()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		p.putConn(newConn("http://a.test", ours, nil, netip.MustParseAddr("192.0.2.1"), time.Time{}))
		full := errors.New("full")
		for range 5 {
			time.Sleep(20 * time.Second)
			c, err := p.takeConn("http://a.test", func(netip.Addr) error { return full })
			if c != nil || err != nil && err != full {
				t.Fatalf("%v, %v", c, err)
			}
		}
		synctest.Wait()
		if n := p.all.Len(); n != 0 {
			t.Errorf("%d connections are idle for longer than they may", n)
		}
	})
}

// TestReuseUntil: a connection gets no request in the last second before the receiver closes it, or after its
// age.
func TestReuseUntil(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for header, want := range map[string]time.Duration{
		"": time.Minute, "timeout=5": 4 * time.Second, "timeout=5, max=0": 0, "max=7, timeout=75": time.Minute, "timeout=20,timeout=3": 2 * time.Second,
		"timeout=1": 0, "timeout=x": time.Minute, "timeout=99999999999999999999": time.Minute, "timeout=2147483647": time.Minute,
	} {
		if got := reuseUntil(now.Add(time.Minute), header, now).Sub(now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
