package main

import (
	"strings"

	"github.com/rousehq/rouse"
)

// filterFlags select timers or dead letters.
type filterFlags struct {
	Prefix   string            `help:"Those whose name begins so." placeholder:"TEXT"`
	Label    map[string]string `short:"l" help:"Those with this label; can be repeated, then with all of them." placeholder:"KEY=VALUE" mapsep:"none"`
	DueFrom  moment            `help:"Those due at this time or later: RFC 3339, or from now such as 1h." placeholder:"TIME"`
	DueUntil moment            `help:"Those due before this time." placeholder:"TIME"`
}

// filterQuery returns the query of the flags, in the namespace of the command line.
func (f *filterFlags) filterQuery(a *app) rouse.Query {
	return rouse.Query{Namespace: a.flags.Namespace, Prefix: f.Prefix, Labels: f.Label, DueFrom: f.DueFrom.toInstant(),
		DueUntil: f.DueUntil.toInstant()}
}

// soughtFlags search in fields that no store has an index for.
type soughtFlags struct {
	Text   string `help:"Those with this text in the name, the error or the payload, without regard to case." placeholder:"TEXT"`
	Target string `help:"Those of this target, or of those that begin so, with a * after it." placeholder:"TARGET"`
	Code   int    `help:"Those whose last attempt had this status, such as 503." placeholder:"N"`
}

// soughtTerms returns the search terms of the flags.
func (f *soughtFlags) soughtTerms() rouse.Sought {
	return rouse.Sought{Text: f.Text, Target: f.Target, Code: f.Code}
}

// orderFlags are the order of a list.
type orderFlags struct {
	OrderBy string `help:"Order: name, due, updated or ended." default:"name" enum:"name,due,updated,ended" placeholder:"ORDER"`
	Reverse bool   `help:"The latest first, or the last name."`
}

// setOrder sets the order of a query.
func (f *orderFlags) setOrder(q *rouse.Query) (err error) {
	q.Reverse = f.Reverse
	q.Order, err = rouse.ParseOrder(f.OrderBy)
	return err
}

// filterWords returns the flags as they are written; empty if they select everything.
func (f *filterFlags) filterWords() string {
	var parts []string
	if f.Prefix != "" {
		parts = append(parts, "--prefix "+f.Prefix)
	}
	if len(f.Label) > 0 {
		parts = append(parts, "--label "+strings.ReplaceAll(labelText(f.Label), " ", " --label "))
	}
	if f.DueFrom.set {
		parts = append(parts, "--due-from "+formatRFC3339(f.DueFrom.toInstant()))
	}
	if f.DueUntil.set {
		parts = append(parts, "--due-until "+formatRFC3339(f.DueUntil.toInstant()))
	}
	return strings.Join(parts, " ")
}

// stateFlag narrows a filter to states.
type stateFlag struct {
	State []string `help:"Those in this state: scheduled, retrying, accepted, paused, ended, firing or dead; can be repeated." placeholder:"STATE"`
}

// parseStates reads the states.
func (f *stateFlag) parseStates() (states []rouse.State, err error) {
	for _, name := range f.State {
		s, err := rouse.ParseState(name)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}
