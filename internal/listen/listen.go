// Package listen is the one rule for addresses to listen on: a listener that other machines can reach has TLS
// and authenticates its callers, or is allowed by name.
package listen

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// Listeners are the names of listeners in the setting insecure.
var Listeners = []string{"api", "admin", "dapr", "nodes"}

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

// Insecure are the listeners that other machines may reach without TLS or without authentication, as a
// setting is written: "api, admin"; "true" or "all" is all of them, and "false" or nothing is none.
type Insecure []string

// UnmarshalText reads the names.
func (i *Insecure) UnmarshalText(text []byte) error {
	*i = nil
	switch string(text) {
	case "true", "all":
		*i = Insecure{"all"}
		return nil
	case "false":
		return nil
	}
	for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return strings.ContainsRune(", \n\t", r) }) {
		if !slices.Contains(Listeners, word) {
			return fmt.Errorf("%q is no listener", word)
		}
		*i = append(*i, word)
	}
	return nil
}

// String returns the text that UnmarshalText reads.
func (i Insecure) String() string {
	if slices.Contains(i, "all") {
		return "true"
	}
	if len(i) == 0 {
		return "false"
	}
	return strings.Join(i, ", ")
}

// Kind describes the form, for errors.
func (Insecure) Kind() string {
	return "true, false, or some of " + strings.Join(Listeners, ", ") + " with commas between"
}

// Has reports whether a listener is named.
func (i Insecure) Has(listener string) bool {
	return slices.Contains(i, "all") || slices.Contains(i, listener)
}

// Rule is the protection of a listener.
type Rule struct {
	Insecure Insecure
	TLS      bool   // connections are encrypted
	Access   bool   // callers are authenticated
	How      string // the settings that give it both, for the error
}

// Check refuses an address of a listener that other machines can reach, unless the listener is protected or
// named by insecure. The error names the setting, and example is a valid address for it.
func (r Rule) Check(listener, setting, address, example string) error {
	wrong := func(format string, args ...any) error {
		return &rouse.Invalid{Problems: []rouse.Problem{{Field: setting, Wrong: fmt.Sprintf(format, args...)}}}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return wrong("%q is no address: give HOST:PORT, such as %s", address, example)
	}
	if OnLoopback(address) || r.TLS && r.Access || r.Insecure.Has(listener) {
		return nil
	}
	missing := "neither has TLS nor authenticates its callers"
	if r.TLS {
		missing = "does not authenticate its callers"
	} else if r.Access {
		missing = "has no TLS"
	}
	return wrong(
		"%q can be reached from other machines, and %s: listen on 127.0.0.1; %s; or allow it as it is with insecure=%s",
		address, missing, r.How, listener)
}
