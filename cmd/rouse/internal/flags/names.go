package flags

import (
	"errors"
	"strings"

	"github.com/rousehq/rouse"
)

// FlagNames maps fields of specs and filters to flags with other names.
var FlagNames = strings.NewReplacer(append([]string{"labels", "label", "webhook.headers", "header",
	"filter.name_prefix", "prefix", "filter.states", "state", "filter.", "", "when.", "", "_ms", "", "due_", "due-",
	"error_contains", "error-contains", "per_second", "rate", "per_key", "per-key",
	"rate.count", "rate", "rate.per", "rate", "rate.burst", "burst",
	"with_current_spec", "with-current-spec"},
	fieldNames...)...)

// ProseNames are the fields that occur in sentences about other fields and are not English words.
var ProseNames = strings.NewReplacer(fieldNames...)

var fieldNames = append(memberNames(), "give_up", "retry-give-up", "retry.", "retry-", "webhook.", "",
	"debounce.quiet", "debounce", "debounce.max_wait", "debounce-max-wait", "throttle.every", "throttle")

// UseFlagNames replaces the names of fields in a refusal by those of flags.
func UseFlagNames(err error) error {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return err
	}
	out := &rouse.Invalid{Problems: make([]rouse.Problem, len(inv.Problems))}
	for i, p := range inv.Problems {
		p.Field = FlagNames.Replace(p.Field)
		p.Wrong, p.Cure = ProseNames.Replace(p.Wrong), ProseNames.Replace(p.Cure)
		out.Problems[i] = p
	}
	return out
}
