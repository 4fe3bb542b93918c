package server

import (
	"strings"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
)

// requestHeader has the id that a caller gave its request. The audit log shows it.
const requestHeader = "x-request-id"

const maxRequestID = 128 // bytes; longer ones are left out

// requestID returns the id of a request, if it is one.
func requestID(values []string) string {
	if len(values) != 1 || len(values[0]) > maxRequestID ||
		strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return values[0]
}

// codesOf returns the code of an error for the audit log, and why access control refused it.
func codesOf(err error) (code, reason string) {
	p, _ := problemOf(err)
	return p.Code, access.ReasonOf(err)
}

// ofFilter returns the namespace of a request, which is several if its filter has none.
func ofFilter(namespace string, filtered bool) string {
	if namespace == "" && filtered {
		return audit.Several
	}
	return namespace
}

// notePathSubject notes the names in the path of a request.
func (r *route) notePathSubject(call *audit.Call, vars []string) {
	if call == nil {
		return
	}
	var namespace, name, fire string
	var others []string
	i := 0
	for segment := range strings.SplitSeq(r.path, "/") {
		if !strings.HasPrefix(segment, "{") {
			continue
		}
		variable, _, _ := strings.Cut(segment[1:], "}")
		switch value := vars[i]; variable {
		case "namespace":
			namespace = value
		case "name":
			name = value
		case "fire_id":
			fire = value
		default:
			others = append(others, value)
		}
		i++
	}
	call.About(namespace, append([]string{audit.Joined(name, fire)}, others...)...)
}
