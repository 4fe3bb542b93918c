package webhook

import "net/netip"

// never are the networks that no setting allows: link-local addresses, and the metadata services of clouds.
var never = parsePrefixes(
	"169.254.0.0/16", "fe80::/10", // link-local; also the metadata of most clouds
	"fd00:ec2::/32",      // AWS
	"fd20:ce::254/128",   // Google
	"100.100.100.200/32", // Alibaba
	"168.63.129.16/32",   // Azure's wire server
	"192.0.0.192/32",     // Oracle
)

// global is the part of IPv6 that is assigned as globally reachable unicast. Everything else is special,
// including unassigned addresses.
var global = netip.MustParsePrefix("2000::/3")

// special are the networks of IPv4, and of global, that are not globally reachable unicast. AllowPrivate
// allows them.
var special = parsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

func parsePrefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// addressFault returns why no request may go to an address; empty if one may.
func addressFault(a netip.Addr, allowPrivate bool) string {
	if a.Zone() != "" {
		return "is link-local"
	}
	a = a.Unmap()
	if inNetworks(a, never) {
		return "is link-local, or a cloud's metadata service"
	}
	for _, inner := range embeddedAddrs(a) {
		if inNetworks(inner, never) {
			return "stands for " + inner.String() + ", which is link-local, or a cloud's metadata service"
		}
	}
	if !allowPrivate && (inNetworks(a, special) || a.Is6() && !global.Contains(a)) {
		return "is not public, and this server delivers to public addresses only"
	}
	return ""
}

func inNetworks(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

var (
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// embeddedAddrs returns the IPv4 addresses to which an IPv6 address may be translated.
func embeddedAddrs(a netip.Addr) []netip.Addr {
	if a.Is4() {
		return nil
	}
	b := a.As16()
	v4 := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case compatible.Contains(a), translated.Contains(a), nat64.Contains(a):
		return []netip.Addr{v4(12, 13, 14, 15)}
	case nat64Local.Contains(a): // the prefix may have 48 to 96 bits; RFC 6052 skips byte 8
		return []netip.Addr{v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12), v4(12, 13, 14, 15)}
	case sixToFour.Contains(a):
		return []netip.Addr{v4(2, 3, 4, 5)}
	case teredo.Contains(a):
		return []netip.Addr{v4(4, 5, 6, 7), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	}
	return nil
}
