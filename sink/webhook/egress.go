package webhook

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
)

// Rule allows or denies requests to hosts, networks and ports. Fields that a rule leaves out match
// everything.
type Rule struct {
	Allow     bool
	Namespace string       // of the timers
	Host      string       // in small letters; "*.example.com" is every name below example.com
	Net       netip.Prefix // of the address to which the request goes
	Port      uint16
}

// MaxRules bounds the rules of a sink: they are compared one after another for each connection.
const MaxRules = 1000

// ParseRules reads rules, with semicolons or line ends between: allow or deny, then namespace=, host=, cidr=
// and port= as needed. Errors are *rouse.Invalid.
func ParseRules(text string) (rules []Rule, err error) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		refuse := func(wrong, cure string) error {
			return rouse.Refuse(fmt.Sprintf("egress[%d]", len(rules)), rouse.Shorten(strings.Join(words, " "), 128), wrong, cure)
		}
		if words[0] != "allow" && words[0] != "deny" {
			return nil, refuse("begins with neither allow nor deny",
				"write a rule such as 'allow namespace=acme host=*.example.com port=443'")
		}
		rule := Rule{Allow: words[0] == "allow"}
		for _, word := range words[1:] {
			if wrong, cure := rule.readCondition(word); wrong != "" {
				return nil, refuse(wrong, cure)
			}
		}
		if rules = append(rules, rule); len(rules) > MaxRules {
			return nil, rouse.Refuse("egress", "", "has more rules than are compared", fmt.Sprintf("use at most %d", MaxRules))
		}
	}
	return rules, nil
}

// readCondition takes one condition.
func (r *Rule) readCondition(word string) (wrong, cure string) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "namespace":
		if r.Namespace = value; rouse.CheckNamespace(value) != nil {
			return "names no namespace", "use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first"
		}
	case "host":
		r.Host = strings.ToLower(strings.TrimSuffix(value, "."))
		plain := strings.TrimPrefix(r.Host, "*.")
		if plain == "" || strings.Trim(plain, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || isAddress(plain) {
			return "names no host", "give a name such as api.example.com or *.example.com; addresses are cidr="
		}
	case "cidr":
		p, err := netip.ParsePrefix(value)
		if a, single := netip.ParseAddr(value); err != nil && single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if r.Net = p.Masked(); err != nil || p.Addr().Zone() != "" || p.Addr().Is4In6() {
			return "names no network", "give one such as 10.1.0.0/16 or 2001:db8::/32"
		}
	case "port":
		n, err := strconv.ParseUint(value, 10, 16)
		if r.Port = uint16(n); err != nil || n == 0 {
			return "names no port", "give 1 to 65535"
		}
	default:
		return "has the condition " + strconv.Quote(rouse.Shorten(word, 64)), "use namespace=, host=, cidr= and port="
	}
	return "", ""
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// matchesRequest reports whether a rule applies. An address that is not known matches no network.
func (r *Rule) matchesRequest(namespace, host string, port uint16, addr netip.Addr) bool {
	if r.Namespace != "" && r.Namespace != namespace || r.Port != 0 && r.Port != port ||
		r.Net.IsValid() && (!addr.IsValid() || !r.Net.Contains(addr)) {
		return false
	}
	if below, wild := strings.CutPrefix(r.Host, "*"); wild {
		return strings.HasSuffix(host, below)
	}
	return r.Host == "" || r.Host == host
}

// checkEgress returns why a namespace may not send requests to a host at an address, or nil. The first rule
// that applies decides; an allowed network may be private. Without a rule, public addresses are allowed.
// early is before the address is known: a rule for networks, which may apply then, leaves the decision to the
// dial.
func (s *Sink) checkEgress(namespace, host string, port uint16, addr netip.Addr, early bool) error {
	host, addr = strings.ToLower(strings.TrimSuffix(host, ".")), addr.Unmap()
	private := s.opts.AllowPrivate
	for i := range s.opts.Egress {
		r := &s.opts.Egress[i]
		if early && r.Net.IsValid() && !addr.IsValid() {
			open := *r
			if open.Net = (netip.Prefix{}); open.matchesRequest(namespace, host, port, addr) {
				return nil
			}
			continue
		}
		if !r.matchesRequest(namespace, host, port, addr) {
			continue
		}
		if !r.Allow {
			return &forbidden{target: net.JoinHostPort(host, strconv.Itoa(int(port))),
				why: "is denied to the namespace " + namespace + " by rule " + strconv.Itoa(i+1) + " of egress"}
		}
		private = private || r.Net.IsValid()
		break
	}
	if !addr.IsValid() {
		return nil
	}
	if why := addressFault(addr, private); why != "" {
		return &forbidden{target: "the address " + addr.String(), why: why}
	}
	return nil
}

// Allowed refuses a target that the rules for a namespace deny, as far as that can be known without resolving
// its name.
func (s *Sink) Allowed(namespace string, spec *rouse.Spec) error {
	if len(s.opts.Egress) == 0 || !strings.HasPrefix(spec.Target, "http") {
		return nil
	}
	host, port := placeOf(spec.Target).hostAndPort()
	n, _ := strconv.ParseUint(port, 10, 16) // Check has refused others
	addr, _ := netip.ParseAddr(host)
	if err := s.checkEgress(namespace, host, uint16(n), addr, true); err != nil {
		return rouse.Refuse("target", spec.Target, strings.TrimPrefix(err.Error(), "not sent: "),
			"use another target, or ask the operator for a rule that allows it")
	}
	return nil
}

// allowsNetwork reports whether a rule allows a network with an address, whatever its namespace: Allowed
// knows that.
func (s *Sink) allowsNetwork(addr netip.Addr) bool {
	return slices.ContainsFunc(s.opts.Egress, func(r Rule) bool {
		return r.Allow && r.Net.IsValid() &&
			r.Net.Contains(addr.Unmap())
	})
}

// idleName returns the name under which an idle connection is kept. With rules no namespace uses the
// connections of another.
func (s *Sink) idleName(r *request) string {
	if len(s.opts.Egress) == 0 {
		return r.origin
	}
	return r.namespace + " " + r.origin
}

// ParseProxy reads the URL of a proxy; errors do not contain it.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, rouse.Refuse("egress-proxy", "", "is no proxy",
			"give one such as http://proxy.internal:3128, with user and password if it needs them")
	}
	return u, nil
}

// maxConnect bounds the bytes of a proxy's answer.
const maxConnect = 16 << 10

// openTunnel asks the proxy on a connection to connect to the target.
func (s *Sink) openTunnel(ctx context.Context, tcp net.Conn, host, port string) error {
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	defer stop()
	at := net.JoinHostPort(host, port)
	head := "CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\nUser-Agent: " + s.opts.UserAgent + "\r\n"
	if u := s.opts.Proxy.User; u != nil {
		password, _ := u.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(tcp, head+"\r\n"); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	// One byte at a time: the bytes after the answer are the target's.
	resp, err := http.ReadResponse(bufio.NewReaderSize(io.LimitReader(oneByOne{tcp}, maxConnect), 16),
		&http.Request{Method: http.MethodConnect})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("proxy: %w", context.Cause(ctx))
	case err != nil:
		return errors.New("proxy: its answer is broken")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("proxy: it answered CONNECT with %s", statusText(resp.StatusCode))
	}
	return nil
}

// oneByOne reads single bytes, so that a buffered reader takes no more than it needs.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(1, len(b))]) }
