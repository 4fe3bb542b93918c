package throttle

import (
	"net/netip"
	"testing"
)

func TestSources(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2::9":      "2001:db8:1:2::",
		"2001:db8:1:3::9":      "2001:db8:1:3::",
		"fe80::1%eth0":         "fe80::",
		"::1":                  "::",
	} {
		if got := Source(netip.MustParseAddr(from)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, want %s", from, got, want)
		}
	}
	if got := Source(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: %v", got)
	}
}
