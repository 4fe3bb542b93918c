package kubelink

import (
	"regexp"
	"strings"
)

// The forms of names in Kubernetes.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	word      = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// The lengths of names in Kubernetes, in bytes.
const (
	maxLabel     = 63
	maxSubdomain = 253
)

// IsLabel reports whether a text is a label of DNS, as names of namespaces are.
func IsLabel(text string) bool { return len(text) <= maxLabel && label.MatchString(text) }

// IsSubdomain reports whether a text consists of labels of DNS, as names of most objects do.
func IsSubdomain(text string) bool { return len(text) <= maxSubdomain && subdomain.MatchString(text) }

// IsLabelValue reports whether a text can be the value of a label of an object.
func IsLabelValue(text string) bool { return text == "" || isWord(text) }

// IsQualifiedName reports whether a text can be the name of a label or an annotation: prefix/name, or a name.
func IsQualifiedName(text string) bool {
	prefix, name, prefixed := strings.Cut(text, "/")
	if !prefixed {
		return isWord(text)
	}
	return IsSubdomain(prefix) && isWord(name)
}

func isWord(text string) bool { return len(text) <= maxLabel && word.MatchString(text) }
