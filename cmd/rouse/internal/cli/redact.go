package cli

import (
	"regexp"
	"strings"
)

const hidden = "xxxxx"

// Where passwords are in addresses: before the last @ of a URL, of which a list may have several; and in
// values of a query, or of a string of PostgreSQL, whose names show it.
var (
	urlStart   = regexp.MustCompile(`[a-z][a-z0-9+.-]*://`)
	afterHost  = regexp.MustCompile(`(://[^/?#]*[/?#]).+`) // by which monitors know a node
	secretPair = regexp.MustCompile(`(?i)([a-z_.-]*(?:pass|secret|token)[a-z_.-]*\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s;,]*)`)
)

// RedactPath removes what comes after the host of a URL, and its password.
func RedactPath(raw string) string {
	return afterHost.ReplaceAllString(RedactPasswords(raw), "${1}"+hidden)
}

// RedactPasswords removes the passwords of an address: a URL, several of them with commas between, or a
// string of PostgreSQL.
func RedactPasswords(raw string) string {
	starts := urlStart.FindAllStringIndex(raw, -1)
	var b strings.Builder
	end := len(raw)
	if len(starts) > 0 {
		end = starts[0][0]
	}
	b.WriteString(raw[:end])
	for i, at := range starts {
		next := len(raw)
		if i+1 < len(starts) {
			next = starts[i+1][0]
		}
		rest := raw[at[1]:next]
		b.WriteString(raw[at[0]:at[1]])
		if last := strings.LastIndexByte(rest, '@'); last >= 0 {
			name, _, pair := strings.Cut(rest[:last], ":")
			if pair && !strings.ContainsAny(name, "@/") {
				b.WriteString(name + ":") // alone it may be a token
			}
			b.WriteString(hidden)
			rest = rest[last:]
		}
		b.WriteString(rest)
	}
	return secretPair.ReplaceAllString(b.String(), "${1}"+hidden)
}
