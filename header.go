package rouse

import (
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

// checkHeaders checks the headers of a timer's callbacks.
func (w *Webhook) checkHeaders(add func(field, value, wrong, cure string)) {
	seen := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(w.Headers)) {
		v := w.Headers[k]
		field := "webhook.headers." + Shorten(k, MaxHeaderName)
		canonical := textproto.CanonicalMIMEHeaderKey(k)
		switch other, twice := seen[canonical]; {
		case len(k) > MaxHeaderName || !isToken(k):
			add("webhook.headers", k, "is no header name", fmt.Sprintf("use 1 to %d letters, digits and '-'", MaxHeaderName))
		case twice:
			add(field, "", "is the same header as "+other, "give it once")
		case matchesHeader(canonical, reservedHeaders):
			add(field, "", "is set by rouse", "leave it out; the payload's type is content_type")
		case matchesHeader(canonical, trustedHeaders):
			add(field, "", "is one that receivers and metadata services trust only from a proxy or a machine of theirs",
				"leave it out, or use another name")
		case len(v) > MaxHeaderValue:
			add(field, "", fmt.Sprintf("has a value of %d bytes", len(v)), fmt.Sprintf("use at most %d", MaxHeaderValue))
		case HasSecrets(v) && secretFault(v) != "":
			add(field, "", secretFault(v), "write {{secret:NAME}}, with the name of a secret of the namespace")
		case !IsHeaderValue(v):
			add(field, "", "has a value that cannot be sent", "use printable ASCII, without spaces at the ends")
		}
		seen[canonical] = k
	}
}

// reservedHeaders belong to the request itself, or to rouse. A name that ends with '*' is all that begin so.
var reservedHeaders = []string{"Host", "Content-Length", "Content-Type", "Connection", "Transfer-Encoding", "Trailer",
	"Te", "Upgrade", "Keep-Alive", "Expect",
	"Http2-Settings", "Webhook-*", "Ce-*", "Rouse-*", "Proxy-*", "Sec-*"}

// trustedHeaders are headers that a receiver may trust for the origin or the identity of a request, or that
// give access to the metadata service of a cloud.
var trustedHeaders = []string{"Forwarded", "Via", "X-Forwarded*", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
	"True-Client-Ip", "Cf-Connecting-Ip*",
	"Fastly-Client-Ip", "X-Original-*", "X-Rewrite-Url", "X-Http-Method*", "X-Method-Override", "X-Envoy-*",
	"X-Amzn-Oidc-*", "X-Goog-Authenticated-User-*",
	"X-Goog-Iap-*", "X-Ms-Client-Principal*", "Metadata", "Metadata-*", "X-Google-Metadata-*", "X-Aws-Ec2-Metadata-Token*",
	"X-Identity-Header"}

func matchesHeader(name string, list []string) bool {
	return slices.ContainsFunc(list, func(of string) bool {
		prefix, open := strings.CutSuffix(of, "*")
		return name == of || open && strings.HasPrefix(name, prefix)
	})
}

// isToken reports whether s can be the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// IsHeaderValue reports whether s can be the value of a header, and arrives as it was.
func IsHeaderValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return strings.TrimSpace(s) == s
}
