package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
)

// Span is a part of the namespaces, in their order: one, or all that begin with a prefix.
type Span struct {
	Fixed  string
	Prefix bool
}

// Spans returns the namespaces of which a principal has some by a verb, without overlap and in their order.
// It is refused if there are none.
func (c *Control) Spans(ctx context.Context, v Verb) ([]Span, error) {
	all := []Span{{"", true}}
	if c == nil {
		return all, nil
	}
	if err := c.Admit(ctx, v); err != nil {
		return nil, err
	}
	p := From(ctx)
	if p.system {
		return all, nil
	}
	var list []Span
	book := *c.roles.Load()
	for i := range p.Grants {
		if !book.grantsVerb(&p.Grants[i], v) {
			continue
		}
		for _, pattern := range p.Grants[i].Scope.Namespaces {
			fixed, prefix := strings.CutSuffix(pattern, "*")
			list = append(list, Span{fixed, prefix})
		}
	}
	slices.SortFunc(list, func(a, b Span) int {
		if by := cmp.Compare(a.Fixed, b.Fixed); by != 0 || a.Prefix == b.Prefix {
			return by
		}
		if a.Prefix { // the wider one first
			return -1
		}
		return 1
	})
	out := list[:0]
	for _, s := range list {
		if n := len(out); n == 0 || out[n-1] != s && !out[n-1].Has(s.Fixed) {
			out = append(out, s)
		}
	}
	return out, nil
}

// Has reports whether a namespace is in the span.
func (s Span) Has(namespace string) bool {
	return namespace == s.Fixed || s.Prefix && strings.HasPrefix(namespace, s.Fixed)
}

// Whole reports whether the span has all namespaces.
func (s Span) Whole() bool { return s.Prefix && s.Fixed == "" }

// HasPart reports whether there may be timers for which a principal does not have the verb: in a namespace,
// or without one in those of which it has some.
func (c *Control) HasPart(ctx context.Context, v Verb, namespace string) bool {
	if namespace != "" {
		return c.Restricted(ctx, v, namespace)
	}
	spans, err := c.Spans(ctx, v)
	return err != nil || slices.ContainsFunc(spans, func(s Span) bool { return c.Restricted(ctx, v, s.Fixed) })
}

// Uncountable refuses a result over all timers to a caller with a verb for a part of them.
func (c *Control) Uncountable(ctx context.Context, v Verb, what string) error {
	return c.Refuse(&Refusal{ReasonScope, rouse.ErrForbidden,
		fmt.Sprintf(
			"%s has the verb %s for a part of them only, and %s needs all; name a namespace of which you have all targets and labels", From(ctx).describePrincipal(), v, what)})
}
