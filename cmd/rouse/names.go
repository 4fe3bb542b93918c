package main

import (
	"errors"
	"strings"

	"github.com/rousehq/rouse"
)

// flagNames maps fields of specs and filters to flags with other names.
var flagNames = strings.NewReplacer(append([]string{"labels", "label", "webhook.headers", "header",
	"filter.name_prefix", "prefix", "filter.states", "state", "filter.", "", "when.", "", "_ms", "", "due_", "due-",
	"error_contains", "error-contains", "per_second", "rate",
	"with_current_spec", "with-current-spec"},
	fieldNames...)...)

// proseNames are the fields that occur in sentences about other fields and are not English words.
var proseNames = strings.NewReplacer(fieldNames...)

var fieldNames = append(memberNames(), "give_up", "retry-give-up", "retry.", "retry-", "webhook.", "",
	"debounce.quiet", "debounce", "debounce.max_wait", "debounce-max-wait", "throttle.every", "throttle")

// useFlagNames replaces the names of fields in a refusal by those of flags.
func useFlagNames(err error) error {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return err
	}
	out := &rouse.Invalid{Problems: make([]rouse.Problem, len(inv.Problems))}
	for i, p := range inv.Problems {
		p.Field = flagNames.Replace(p.Field)
		p.Wrong, p.Cure = proseNames.Replace(p.Wrong), proseNames.Replace(p.Cure)
		out.Problems[i] = p
	}
	return out
}
