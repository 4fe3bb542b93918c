package webhook

import (
	"net/netip"
	"testing"
)

func TestAddresses(t *testing.T) {
	const (
		public  = iota // always
		private        // with AllowPrivate
		closed         // never
	)
	for text, want := range map[string]int{
		"93.184.216.34": public, "1.1.1.1": public, "100.63.255.255": public, "100.128.0.1": public, "172.15.255.255": public,
		"172.32.0.1": public, "192.0.1.1": public, "198.17.255.255": public, "223.255.255.255": public, "11.0.0.1": public,
		"2606:4700:4700::1111": public, "2001:4860:4860::8888": public, "2a00::1": public, "::ffff:1.1.1.1": public,

		"0.0.0.0": private, "0.1.2.3": private, "10.0.0.1": private, "100.64.0.1": private, "127.0.0.1": private,
		"127.255.255.254": private, "172.16.0.1": private, "172.31.255.255": private, "192.0.0.1": private, "192.0.2.1": private,
		"192.88.99.1": private, "192.168.0.1": private, "198.18.0.1": private, "198.19.255.255": private, "198.51.100.1": private,
		"203.0.113.1": private, "224.0.0.1": private, "239.255.255.255": private, "240.0.0.1": private, "255.255.255.255": private,
		"::": private, "::1": private, "::7f00:1": private, "::ffff:127.0.0.1": private, "::ffff:10.1.2.3": private,
		"64:ff9b::1.1.1.1": private, "64:ff9b:1::1": private, "2001::1": private, "2001:db8::1": private, "2002:101:101::1": private,
		"fc00::1": private, "fd12:3456::1": private, "fec0::1": private, "ff02::1": private, "100::1": private,
		"::ffff:0:127.0.0.1": private, "::ffff:0:1.1.1.1": private, "1000::1": private, "1fff:ffff::1": private, "4000::1": private,
		"5f00::1": private, "8000::1": private, "e000::1": private, "3fff:fff::1": private, "200::1": private,

		"169.254.0.1": closed, "169.254.169.254": closed, "169.254.170.2": closed, "::ffff:169.254.169.254": closed,
		"fe80::1": closed, "fe80::1%eth0": closed, "febf::1": closed, "fd00:ec2::254": closed, "fd20:ce::254": closed,
		"100.100.100.200": closed, "168.63.129.16": closed, "192.0.0.192": closed,
		"::169.254.169.254": closed, "::ffff:0:169.254.169.254": closed, "64:ff9b::169.254.169.254": closed, "64:ff9b::a9fe:a9fe": closed,
		"64:ff9b:1:a9fe:a9:fe00::": closed, "64:ff9b:1::169.254.169.254": closed, "2002:a9fe:a9fe::1": closed,
		"2001:0:a9fe:a9fe::": closed, "2001:0:1:1:0:0:5601:5601": closed, "2606::1%eth0": closed,
	} {
		a := netip.MustParseAddr(text)
		if got := addressFault(a, false); (got == "") != (want == public) {
			t.Errorf("%s without AllowPrivate: %q", text, got)
		}
		if got := addressFault(a, true); (got == "") != (want != closed) {
			t.Errorf("%s with AllowPrivate: %q", text, got)
		}
	}
}
