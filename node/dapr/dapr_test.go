package dapr

import (
	"net"
	"testing"

	"github.com/rousehq/rouse/node"
)

// configured is a node that has settings only.
type configured struct {
	core
	settings node.Config
}

func (c *configured) Config() *node.Config { return &c.settings }

// An address for every network is none that a sidecar could dial.
func TestDaprAddressOfAllNetworks(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Door{core: &configured{}, listener: l}
	host, port, err := net.SplitHostPort(d.reachableAddress())
	_, want, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() || port != want {
		t.Errorf("sidecars are told %s, of %s", d.reachableAddress(), l.Addr())
	}
	d.core.Config().DaprAdvertise = "scheduler.example:1"
	if got := d.reachableAddress(); got != "scheduler.example:1" {
		t.Errorf("sidecars are told %s", got)
	}
}
