package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
)

// named puts the name of what a call was about in front of an error that does not know it.
func named(what, name string, err error) error {
	if err == nil || name == "" {
		return err
	}
	for _, bare := range []error{rouse.ErrNotFound, rouse.ErrExists, rouse.ErrConflict} {
		if errors.Is(err, bare) {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
	}
	return err
}

// flagNames are the fields of a spec that have another name among the flags.
var flagNames = strings.NewReplacer("content_type", "content-type", "labels", "label", "retry.max_interval", "retry-max", "retry.", "retry-",
	"webhook.headers", "header", "webhook.", "")

// flagged names the flags in place of the fields in a refusal.
func flagged(err error) error {
	inv, ok := errors.AsType[*rouse.Invalid](err)
	if !ok {
		return err
	}
	out := &rouse.Invalid{Problems: make([]rouse.Problem, len(inv.Problems))}
	for i, p := range inv.Problems {
		p.Field = flagNames.Replace(p.Field)
		p.Wrong = strings.ReplaceAll(p.Wrong, "retry.interval", "retry-interval")
		out.Problems[i] = p
	}
	return out
}
