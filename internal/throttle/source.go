package throttle

import "net/netip"

// Source returns the network whose addresses count as one client: an IPv4 address itself, and the first 64
// bits of an IPv6 address, because one machine, or one customer, has all of these.
func Source(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	network, _ := addr.WithZone("").Prefix(64)
	return network.Addr()
}
