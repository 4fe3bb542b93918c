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
		defer p.close()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		p.put(newConn("http://a.test", ours, nil, netip.MustParseAddr("192.0.2.1"), time.Time{}))
		full := errors.New("full")
		for range 5 {
			time.Sleep(20 * time.Second)
			c, err := p.take("http://a.test", func(netip.Addr) error { return full })
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
