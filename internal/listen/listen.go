// Package listen is the one rule for addresses to listen on: what other machines can reach has to be allowed.
package listen

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/rousehq/rouse"
)

// Loopback reports whether a host is this machine only: localhost, or an address of loopback.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// OnLoopback reports whether an address of the form HOST:PORT can be reached only from this machine.
func OnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && Loopback(host)
}

// Check is the rule, for the named setting. Requests are not authenticated, so an address that other machines can reach has to be allowed by
// insecure. example is a valid address for the error text.
func Check(setting, address, example string, insecure bool) error {
	wrong := func(format string, args ...any) error {
		return &rouse.Invalid{Problems: []rouse.Problem{{Field: setting, Wrong: fmt.Sprintf(format, args...)}}}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return wrong("%q is no address: give HOST:PORT, such as %s", address, example)
	}
	if !insecure && !OnLoopback(address) {
		return wrong("%q can be reached from other machines, and every client that reaches it may use it: listen on 127.0.0.1, or allow it with insecure", address)
	}
	return nil
}
