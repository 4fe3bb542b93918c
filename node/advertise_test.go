package node

import (
	"strings"
	"testing"
)

// TestAdvertisedAddresses checks that an address of IPv6 is one with brackets, and that brackets which
// another address does not need are left out.
func TestAdvertisedAddresses(t *testing.T) {
	valid := func(address string) Config {
		c := Defaults()
		c.Listen, c.Data, c.Advertise = "127.0.0.1:7411", "d", address
		return c
	}
	for address, want := range map[string]string{
		"[fd00::12]:7411":       "[fd00::12]:7411",
		"[10.0.0.12]:7411":      "10.0.0.12:7411",
		"10.0.0.12:7411":        "10.0.0.12:7411",
		"rouse.example.org:443": "rouse.example.org:443",
	} {
		c := valid(address)
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if got := c.advertisedAddress("127.0.0.1:1"); got != want {
			t.Errorf("%s is advertised as %s, not %s", address, got, want)
		}
	}
	c := valid("fd00::12:7411")
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "brackets") {
		t.Errorf("an address of IPv6 without brackets: %v", err)
	}
}
