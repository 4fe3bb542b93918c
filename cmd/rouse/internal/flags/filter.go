// Package flags has the flags that describe or select timers, for several commands.
package flags

import (
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// FilterFlags select timers or dead letters.
type FilterFlags struct {
	Prefix   string            `help:"Those whose name begins so." placeholder:"TEXT"`
	Label    map[string]string `short:"l" help:"Those with this label; can be repeated, then with all of them." placeholder:"KEY=VALUE" mapsep:"none"`
	DueFrom  cli.Moment        `help:"Those due at this time or later: RFC 3339, or from now such as 1h." placeholder:"TIME"`
	DueUntil cli.Moment        `help:"Those due before this time." placeholder:"TIME"`
}

// FilterQuery returns the query of the flags, in the namespace of the command line.
func (f *FilterFlags) FilterQuery(a *cli.App) rouse.Query {
	return rouse.Query{Namespace: a.Flags.Namespace, Prefix: f.Prefix, Labels: f.Label, DueFrom: f.DueFrom.ToInstant(),
		DueUntil: f.DueUntil.ToInstant()}
}

// SoughtFlags search in fields that no store has an index for.
type SoughtFlags struct {
	Text   string `help:"Those with this text in the name, the error or the payload, without regard to case." placeholder:"TEXT"`
	Target string `help:"Those of this target, or of those that begin so, with a * after it." placeholder:"TARGET"`
	Code   int    `help:"Those whose last attempt had this status, such as 503." placeholder:"N"`
}

// SoughtTerms returns the search terms of the flags.
func (f *SoughtFlags) SoughtTerms() rouse.Sought {
	return rouse.Sought{Text: f.Text, Target: f.Target, Code: f.Code}
}

// OrderFlags are the order of a list.
type OrderFlags struct {
	OrderBy string `help:"Order: name, due, updated or ended." default:"name" enum:"name,due,updated,ended" placeholder:"ORDER"`
	Reverse bool   `help:"The latest first, or the last name."`
}

// SetOrder sets the order of a query.
func (f *OrderFlags) SetOrder(q *rouse.Query) (err error) {
	q.Reverse = f.Reverse
	q.Order, err = rouse.ParseOrder(f.OrderBy)
	return err
}

// filterWords returns the flags as they are written; empty if they select everything.
func (f *FilterFlags) filterWords() string {
	var parts []string
	if f.Prefix != "" {
		parts = append(parts, "--prefix "+f.Prefix)
	}
	if len(f.Label) > 0 {
		parts = append(parts, "--label "+strings.ReplaceAll(cli.LabelText(f.Label), " ", " --label "))
	}
	if f.DueFrom.Set {
		parts = append(parts, "--due-from "+cli.FormatRFC3339(f.DueFrom.ToInstant()))
	}
	if f.DueUntil.Set {
		parts = append(parts, "--due-until "+cli.FormatRFC3339(f.DueUntil.ToInstant()))
	}
	return strings.Join(parts, " ")
}

// StateFlag narrows a filter to states.
type StateFlag struct {
	State []string `help:"Those in this state: scheduled, retrying, accepted, paused, ended, firing or dead; can be repeated." placeholder:"STATE"`
}

// ParseStates reads the states.
func (f *StateFlag) ParseStates() (states []rouse.State, err error) {
	for _, name := range f.State {
		s, err := rouse.ParseState(name)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}
