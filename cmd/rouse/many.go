package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// manyFlags extend a command for one timer to all that match.
type manyFlags struct {
	filterFlags `embed:""`

	All    bool   `help:"All of the namespace."`
	DryRun bool   `help:"Change nothing, and print what would be changed."`
	Yes    bool   `short:"y" help:"Do not ask for confirmation."`
	Limit  uint64 `help:"With a filter: at most so many; 0 is all." default:"0" placeholder:"N"`
}

// selectsMany reports whether the command is about all that match, and refuses an empty or ambiguous
// selection. what is the noun for the selection; filtered is set if there is a filter in addition to those of
// manyFlags.
func (f *manyFlags) selectsMany(a *app, what, name string, filtered bool) (bool, error) {
	help := a.command + " --help"
	filtered = filtered || f.filterWords() != ""
	switch {
	case name == "" && !filtered && !f.All:
		return false, &usage{text: "which " + what + "? give a name, a filter such as --prefix, or --all", help: help}
	case name != "" && f.All:
		return false, &usage{text: "--all and a name do not go together", help: help}
	case name != "" && filtered:
		return false, &usage{text: "a filter and a name do not go together", help: help}
	case name != "" && (f.DryRun || f.Limit != 0):
		return false, &usage{text: "--dry-run and --limit go with a filter or --all, not with a name", help: help}
	}
	return name == "", nil
}

// applyBulk applies r to all that match, in the states and with the filter of the flags. deed is the verb,
// such as "delete", and did its past form. If ask is set, the user has to agree.
func (f *manyFlags) applyBulk(a *app, r client.BulkRequest, states stateFlag, deed, did string, ask bool) error {
	r.Query, r.DryRun, r.Limit = f.filterQuery(a), f.DryRun, f.Limit
	var err error
	if r.Query.States, err = states.parseStates(); err != nil {
		return err
	}
	if err := rouse.CheckNamespace(r.Query.Namespace); err != nil {
		return err
	}
	ask = ask && !f.Yes && !f.DryRun
	if ask && !a.canAsk() {
		return a.askConfirmation(f.bulkQuestion(deed, r, 0))
	}
	return a.withClient(func(s *client.Client) error {
		if ask {
			dry := r
			dry.DryRun = true
			sum, err := s.Bulk(a.ctx, dry, nil)
			if err != nil {
				return useFlagNames(err)
			}
			if err := a.askConfirmation(f.bulkQuestion(deed, r, sum.Matched)); err != nil {
				return err
			}
		}
		return a.runBulk(a.ctx, s, r, did)
	})
}

// bulkQuestion asks the user to confirm the number; 0 is unknown.
func (f *manyFlags) bulkQuestion(deed string, r client.BulkRequest, n uint64) string {
	what, count := "timers", "all "
	if r.Action == client.BulkRedrive || r.Action == client.BulkPurge {
		what = "dead letters"
	}
	if n > 0 {
		count = fmt.Sprint(n, " ")
	}
	text := deed + " " + count + what + " of namespace " + r.Query.Namespace
	if words := f.filterWords(); words != "" {
		text += " with " + words
	}
	return text + "?"
}

// runBulk runs a bulk request and prints its progress.
func (a *app) runBulk(ctx context.Context, s *client.Client, r client.BulkRequest, did string) error {
	bar := a.newProgress(did, 0)
	told := 0
	sum, err := s.Bulk(ctx, r, func(p client.BulkProgress) error {
		bar.drawBar(int64(p.Changed), int64(p.Changed))
		if a.flags.JSON {
			return nil
		}
		for _, f := range p.Failures {
			if told++; told <= maxTold {
				bar.clearBar()
				fmt.Fprintf(a.errOut, "%s %s: %s\n", a.styleErr.red("rouse:"), cleanText(strings.TrimSpace(f.Name+" "+f.FireID)),
					cleanText(useFlagNames(f.Err).Error()))
			}
		}
		return nil
	})
	bar.clearBar()
	if err != nil && sum.Job == "" {
		return useFlagNames(err)
	}
	if err != nil && goesOn(err) && !a.flags.JSON {
		a.printNote("the job %s goes on; see rouse jobs get, and rouse jobs cancel", sum.Job)
	}
	if tellErr := a.tellBulk(&sum, r.DryRun, did, err == nil); tellErr != nil {
		return tellErr
	}
	switch {
	case err != nil:
		return fmt.Errorf("it was not done to all: %w", err)
	case sum.Failed > 0:
		return silent(exitFailure)
	}
	return nil
}

// goesOn reports whether the job of a request that ended with an error may go on: the connection broke, the
// server stopped, or the command was interrupted. Other errors are those of jobs that have ended.
func goesOn(err error) bool {
	for _, broken := range []error{context.Canceled, context.DeadlineExceeded, rouse.ErrUnavailable, rouse.ErrClosed,
		io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

// tellBulk prints the result of a bulk request; done is false if it did not end by itself.
func (a *app) tellBulk(sum *client.BulkProgress, dryRun bool, did string, done bool) error {
	if a.flags.JSON {
		shown := api.BulkProgress{Job: sum.Job, Matched: sum.Matched, Changed: sum.Changed, Failed: sum.Failed,
			Names: sum.Names, Done: done}
		for _, t := range sum.Targets {
			shown.Targets = append(shown.Targets, api.BulkTarget(t))
		}
		for _, f := range sum.Failures {
			_, p := problemOf(f.Err)
			shown.Failures = append(shown.Failures, api.BulkFailure{Namespace: f.Namespace, Name: f.Name, FireID: f.FireID,
				Problem: &p})
		}
		return a.printJSON(shown)
	}
	if dryRun {
		for _, name := range sum.Names {
			a.printLine("%s", name)
		}
		if more := sum.Matched - uint64(len(sum.Names)); sum.Matched > uint64(len(sum.Names)) {
			a.printNote("and %d more", more)
		}
		a.printNote("%d would be %s; nothing was done", sum.Matched-sum.Failed, did)
		a.noteTargets(sum.Targets)
		return nil
	}
	if sum.Failed > maxTold {
		a.printNote("and %d more failures", sum.Failed-maxTold)
	}
	if sum.Failed > 0 {
		a.printLine("%s %d, %d failed", did, sum.Changed, sum.Failed)
		a.noteTargets(sum.Targets)
		return nil
	}
	a.printLine("%s %d", did, sum.Changed)
	a.noteTargets(sum.Targets)
	return nil
}

// noteTargets prints where dead letters go.
func (a *app) noteTargets(targets []client.BulkTarget) {
	for _, t := range targets {
		switch {
		case t.Target != "":
			a.printNote("%d to %s", t.Count, t.Target)
		case len(targets) > 1: // beyond those that the server counts one by one
			a.printNote("%d to other targets", t.Count)
		}
	}
}
