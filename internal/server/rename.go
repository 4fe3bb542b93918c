package server

import (
	"errors"

	"github.com/rousehq/rouse"
)

// The service names fields like the query parameters and JSON members of HTTP, for which gRPC has
// messageNames. These are bodies that use other names for some of them.
var (
	pollMember = map[string]string{"open.namespace": "namespace", "open.channel": "channel",
		"open.name_prefix": "name_prefix", "open.labels": "labels"}

	filterMember = map[string]string{"name": "filter.name", "prefix": "filter.prefix", "label": "filter.labels",
		"states":   "filter.states",
		"due_from": "filter.due_from", "due_until": "filter.due_until", "text": "filter.text", "target": "filter.target",
		"code": "filter.code"}
)

// renameFields translates the field names of an error.
func renameFields(err error, names map[string]string) error {
	var inv *rouse.Invalid
	if names == nil || !errors.As(err, &inv) {
		return err
	}
	out := &rouse.Invalid{Problems: make([]rouse.Problem, len(inv.Problems))}
	for i, p := range inv.Problems {
		if name, ok := names[p.Field]; ok {
			p.Field = name
		}
		out.Problems[i] = p
	}
	return out
}
