package webhook

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/rousehq/rouse"
)

// Check refuses a spec that could never be delivered, with an *rouse.Invalid that contains every problem.
// It does not resolve names: each dial checks the addresses.
func (s *Sink) Check(spec *rouse.Spec) error {
	var ps []rouse.Problem
	add := func(field, value, wrong, cure string) {
		ps = append(ps, rouse.Problem{Field: field, Value: rouse.Shorten(value, 128), Wrong: wrong, Cure: cure})
	}
	if value, wrong, cure := s.targetFault(spec.Target); wrong != "" {
		add("target", value, wrong, cure)
	}
	if !rouse.IsHeaderValue(spec.ContentType) {
		add("content_type", spec.ContentType, "cannot be sent as a header", "use printable ASCII, without spaces at the ends")
	}
	switch m := methodOf(spec); m {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	case http.MethodGet, http.MethodDelete:
		for _, c := range []struct {
			wrong bool
			what  string
		}{{len(spec.Payload) > 0, "a payload"}, {spec.Webhook.Structured, "structured mode"},
			{spec.Webhook.Batch > 1, "batches"}} {
			if c.wrong {
				add("webhook.method", m, "has no body, and "+c.what+" needs one", "use POST, PUT or PATCH")
			}
		}
	default:
		add("webhook.method", m, "is not offered", "use POST, PUT, PATCH, GET or DELETE")
	}
	if len(ps) > 0 {
		return &rouse.Invalid{Problems: ps}
	}
	return nil
}

// targetFault returns the fault of a target, if any; value is the part of the target that may be
// shown.
func (s *Sink) targetFault(target string) (value, wrong, cure string) {
	if len(target) > rouse.MaxTarget {
		return target, fmt.Sprintf("has %d bytes", len(target)), fmt.Sprintf("use at most %d", rouse.MaxTarget)
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			r, _ := utf8.DecodeRuneInString(target[i:])
			return target, fmt.Sprintf("contains %q at byte %d", r, i), s.asciiCure(target)
		}
	}
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		return target, "is no web address", "begin it with https:// or http://, in small letters"
	}
	u, err := url.Parse(target)
	if err != nil {
		return hidePassword(target), "is no URL", "give one such as https://example.com/hook"
	}
	if u.User != nil || strings.Contains(u.Host, "@") {
		return hidePassword(target), "contains a user or password", "put credentials into webhook.headers, as Authorization"
	}
	if strings.Contains(target, "#") {
		return target, "contains a fragment", "leave out '#' and what follows"
	}
	if i := strings.LastIndexByte(u.Host, ':'); i > strings.LastIndexByte(u.Host, ']') {
		if n, err := strconv.ParseUint(u.Host[i+1:], 10, 16); err != nil || n == 0 || u.Host[i+1] == '0' {
			return target, "has no valid port", "use a port from 1 to 65535, or none"
		} else if slices.Contains(blocked, uint16(n)) {
			return target, fmt.Sprintf("has the port %d, of a service that could take a request for commands of its own", n),
				"use another port, such as 8080"
		}
	}
	wrong, cure = s.hostFault(u.Hostname(), strings.HasPrefix(u.Host, "["))
	return target, wrong, cure
}

// asciiCure returns the cure for a target with characters that URLs do not have: the target with the ASCII
// form of its host, if that is accepted.
func (s *Sink) asciiCure(target string) string {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		host, err := idna.Lookup.ToASCII(u.Hostname())
		plain := strings.Replace(target, u.Hostname(), host, 1)
		if err == nil && plain != target && u.User == nil {
			if _, wrong, _ := s.targetFault(plain); wrong == "" {
				return "write " + plain
			}
		}
	}
	return "percent-encode it in a path or query, and write host names in their xn-- form"
}

// blocked are the ports that browsers block according to the Fetch standard, and those of Redis and
// Memcached: services there read lines of text, and could take a line of a request for a command.
var blocked = []uint16{1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
	103, 104, 109, 110, 111, 113, 115, 117, 119,
	123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587,
	601, 636, 989, 990, 993, 995,
	1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
	10080, 11211}

// hidePassword removes a possible password.
func hidePassword(target string) string {
	scheme, rest, _ := strings.Cut(target, "://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = "…@" + rest[i+1:]
	}
	return scheme + "://" + rest
}

// hostFault returns the fault of a host, if any: an address must be allowed for requests, and a
// name must be a name for every resolver.
func (s *Sink) hostFault(host string, bracketed bool) (wrong, cure string) {
	const named = "use a name such as hooks.example.com"
	if a, err := netip.ParseAddr(host); err == nil && bracketed == a.Is6() {
		if why := addressFault(a, s.opts.AllowPrivate || s.allowsNetwork(a)); why != "" {
			cure = "use a public address"
			if addressFault(a, true) == "" {
				cure += ", or start the server with allow-private-targets"
			}
			return "leads to " + a.String() + ", which " + why, cure
		}
		return "", ""
	}
	if host == "" {
		return "has no host", named
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if len(l) == 0 || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || len(name) > 253 ||
			bracketed {
			return "has no valid host", named + ", with letters, digits, '-' and dots"
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") &&
		strings.Trim(last[2:], "0123456789abcdef") == "" {
		return "has a host that some programs read as a number and others as a name", named + ", or a full IP address"
	}
	if !s.opts.AllowPrivate && last == "localhost" {
		return "leads to this machine, and this server delivers to public addresses only",
			named + ", or start the server with allow-private-targets"
	}
	return "", ""
}
