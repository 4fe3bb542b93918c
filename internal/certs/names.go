package certs

import (
	"crypto/x509"
	"errors"
	"strings"
)

// NamesOf returns the names in a certificate: of hosts, URIs, and e-mail addresses. The subject is no name:
// authorities do not check it.
func NamesOf(c *x509.Certificate) []string {
	names := append(append([]string(nil), c.DNSNames...), c.EmailAddresses...)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return names
}

// Match reports whether a pattern is a name. A pattern of hosts may begin with "*.", which is any one label;
// one of URIs may end with "/*", which is any rest. A name that is itself a pattern matches itself only.
func Match(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		if strings.Contains(pattern, "://") {
			return pattern == name // paths of URIs are case-sensitive
		}
		return strings.EqualFold(pattern, name)
	}
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		label, parent, found := strings.Cut(name, ".")
		return found && label != "" && !strings.ContainsAny(name, "*@/:") && strings.EqualFold(parent, rest)
	}
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && len(name) > len(prefix) && strings.HasPrefix(name, prefix) && !hasDotSegments(name)
}

// hasDotSegments reports whether a URI has segments that lead out of a path, which peers may remove.
func hasDotSegments(uri string) bool {
	for segment := range strings.SplitSeq(uri, "/") {
		if segment == "." || segment == ".." || strings.HasPrefix(segment, "%2e") || strings.HasPrefix(segment, "%2E") {
			return true
		}
	}
	return false
}

// CheckPattern refuses a pattern that matches nothing, or more than it seems to.
func CheckPattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("is empty")
	case len(pattern) > 2048:
		return errors.New("is too long")
	case !strings.Contains(pattern, "*"):
		return nil
	case strings.Count(pattern, "*") > 1:
		return errors.New("has more than one *")
	case strings.HasPrefix(pattern, "*."):
		if !strings.Contains(pattern[2:], ".") || strings.ContainsAny(pattern, "/@:") {
			return errors.New("is no pattern of hosts of one domain")
		}
		return nil
	}
	_, path, uri := strings.Cut(strings.TrimSuffix(pattern, "*"), "://")
	if !uri || !strings.HasSuffix(pattern, "/*") || !strings.Contains(path, "/") {
		return errors.New("has a * that is neither the first label of a host nor the end of a URI after a slash")
	}
	return nil
}
