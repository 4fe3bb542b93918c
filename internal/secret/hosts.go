package secret

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// Bounds of the hosts that a secret may be sent to.
const (
	MaxHosts = 32
	maxHost  = 253 // bytes of a name
)

// anyHost stands for all hosts where a secret is given a new value.
const anyHost = "*"

// checkHosts returns the hosts that a secret is given, in the form that is stored: none for all.
func checkHosts(hosts []string) ([]string, error) {
	if len(hosts) > MaxHosts {
		return nil, rouse.Refuse("hosts", fmt.Sprint(len(hosts)), "are too many",
			fmt.Sprintf("give at most %d, or the beginning *. of a domain", MaxHosts))
	}
	if slices.Contains(hosts, anyHost) {
		return nil, nil
	}
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = hostForm(h)
		name := strings.TrimPrefix(out[i], "*.")
		_, err := netip.ParseAddr(out[i])
		if name == "" || len(name) > maxHost || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" ||
			strings.Contains(name, ":") && err != nil {
			return nil, rouse.Refuse(fmt.Sprintf("hosts[%d]", i), rouse.Shorten(h, maxHost), "is no host",
				`give a name such as api.example.com, "*.example.com" for all below it, an address, or "*" for every host; no scheme, port or path`)
		}
	}
	return out, nil
}

// hostForm returns the form in which hosts are compared. An address of IPv6 has one form only.
func hostForm(host string) string {
	host = strings.Trim(strings.TrimSuffix(strings.ToLower(host), "."), "[]")
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return host
}

// mayGoTo refuses a host that a secret must not be sent to. The text names the secret, the host and the cure.
func (st *stored) mayGoTo(namespace, name, host string) error {
	host = hostForm(host)
	if len(st.Hosts) == 0 || slices.ContainsFunc(st.Hosts, func(h string) bool {
		domain, below := strings.CutPrefix(h, "*")
		return h == host || below && len(host) > len(domain) && strings.HasSuffix(host, domain)
	}) {
		return nil
	}
	return fmt.Errorf(
		"the secret %s of the namespace %s may be sent to %s only, and not to %s: use another target, or set the secret again with rouse secret set %s --host %s",
		name, namespace, strings.Join(st.Hosts, ", "), rouse.Shorten(host, maxHost), name, rouse.Shorten(host, maxHost))
}

// targetHost returns the host of a target of callbacks; empty if it has none.
func targetHost(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// sealPlace returns the place that the value of a note is sealed for: the hosts and the kind are parts of it,
// so that a writer to the store cannot send the secret elsewhere.
func (st *stored) sealPlace(name string) string {
	place := "secret/" + name
	if len(st.Hosts) > 0 {
		place += " to " + strings.Join(st.Hosts, ",")
	}
	if st.Kind != (Kind{}) {
		text, err := json.Marshal(st.Kind)
		if err != nil {
			panic(err) // it is only texts
		}
		place += " as " + string(text)
	}
	return place
}
