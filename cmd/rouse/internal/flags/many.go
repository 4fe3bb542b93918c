package flags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// ManyFlags extend a command for one timer to all that match.
type ManyFlags struct {
	FilterFlags `embed:""`

	All    bool   `help:"All of the namespace."`
	DryRun bool   `help:"Change nothing, and print what would be changed."`
	Yes    bool   `short:"y" help:"Do not ask for confirmation."`
	Limit  uint64 `help:"With a filter: at most so many; 0 is all." default:"0" placeholder:"N"`
}

// SelectsMany reports whether the command is about all that match, and refuses an empty or ambiguous
// selection. what is the noun for the selection; filtered is set if there is a filter in addition to those of
// ManyFlags.
func (f *ManyFlags) SelectsMany(a *cli.App, what, name string, filtered bool) (bool, error) {
	help := a.Command + " --help"
	filtered = filtered || f.filterWords() != ""
	switch {
	case name == "" && !filtered && !f.All:
		return false, &cli.Usage{Text: "which " + what + "? give a name, a filter such as --prefix, or --all", Help: help}
	case name != "" && f.All:
		return false, &cli.Usage{Text: "--all and a name do not go together", Help: help}
	case name != "" && filtered:
		return false, &cli.Usage{Text: "a filter and a name do not go together", Help: help}
	case name != "" && (f.DryRun || f.Limit != 0):
		return false, &cli.Usage{Text: "--dry-run and --limit go with a filter or --all, not with a name", Help: help}
	}
	return name == "", nil
}

// ApplyBulk applies r to all that match, in the states and with the filter of the flags. deed is the verb,
// such as "delete", and did its past form. If ask is set, the user has to agree.
func (f *ManyFlags) ApplyBulk(a *cli.App, r client.BulkRequest, states StateFlag, deed, did string, ask bool) error {
	r.Query, r.DryRun, r.Limit = f.FilterQuery(a), f.DryRun, f.Limit
	var err error
	if r.Query.States, err = states.ParseStates(); err != nil {
		return err
	}
	if err := rouse.CheckNamespace(r.Query.Namespace); err != nil {
		return err
	}
	ask = ask && !f.Yes && !f.DryRun
	if ask && !a.CanAsk() {
		return a.AskConfirmation(f.bulkQuestion(deed, r, 0))
	}
	return a.WithClient(func(s *client.Client) error {
		if ask {
			dry := r
			dry.DryRun = true
			sum, err := s.Bulk(a.Ctx, dry, nil)
			if err != nil {
				return UseFlagNames(err)
			}
			if err := a.AskConfirmation(f.bulkQuestion(deed, r, sum.Matched)); err != nil {
				return err
			}
		}
		return RunBulk(a, a.Ctx, s, r, did)
	})
}

// bulkQuestion asks the user to confirm the number; 0 is unknown.
func (f *ManyFlags) bulkQuestion(deed string, r client.BulkRequest, n uint64) string {
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

// RunBulk runs a bulk request and prints its progress.
func RunBulk(a *cli.App, ctx context.Context, s *client.Client, r client.BulkRequest, did string) error {
	bar := a.NewProgress(did, 0)
	told := 0
	sum, err := s.Bulk(ctx, r, func(p client.BulkProgress) error {
		bar.DrawBar(int64(p.Changed), int64(p.Changed))
		if a.Flags.JSON {
			return nil
		}
		for _, f := range p.Failures {
			if told++; told <= cli.MaxTold {
				bar.ClearBar()
				fmt.Fprintf(a.ErrOut, "%s %s: %s\n", a.StyleErr.Red("rouse:"),
					cli.CleanText(strings.TrimSpace(f.Name+" "+f.FireID)),
					cli.CleanText(UseFlagNames(f.Err).Error()))
			}
		}
		return nil
	})
	bar.ClearBar()
	if err != nil && sum.Job == "" {
		return UseFlagNames(err)
	}
	if err != nil && goesOn(err) && !a.Flags.JSON {
		a.PrintNote("the job %s goes on; see rouse jobs get, and rouse jobs cancel", sum.Job)
	}
	if tellErr := tellBulk(a, &sum, r.DryRun, did, err == nil); tellErr != nil {
		return tellErr
	}
	switch {
	case err != nil:
		return fmt.Errorf("it was not done to all: %w", err)
	case sum.Failed > 0:
		return cli.Silent(cli.ExitFailure)
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
func tellBulk(a *cli.App, sum *client.BulkProgress, dryRun bool, did string, done bool) error {
	if a.Flags.JSON {
		shown := api.BulkProgress{Job: sum.Job, Matched: sum.Matched, Changed: sum.Changed, Failed: sum.Failed,
			Names: sum.Names, Done: done}
		for _, t := range sum.Targets {
			shown.Targets = append(shown.Targets, api.BulkTarget(t))
		}
		for _, f := range sum.Failures {
			_, p := cli.ProblemOf(f.Err)
			shown.Failures = append(shown.Failures, api.BulkFailure{Namespace: f.Namespace, Name: f.Name, FireID: f.FireID,
				Problem: &p})
		}
		return a.PrintJSON(shown)
	}
	if dryRun {
		for _, name := range sum.Names {
			a.PrintLine("%s", name)
		}
		if more := sum.Matched - uint64(len(sum.Names)); sum.Matched > uint64(len(sum.Names)) {
			a.PrintNote("and %d more", more)
		}
		a.PrintNote("%d would be %s; nothing was done", sum.Matched-sum.Failed, did)
		NoteTargets(a, sum.Targets)
		return nil
	}
	if sum.Failed > cli.MaxTold {
		a.PrintNote("and %d more failures", sum.Failed-cli.MaxTold)
	}
	if sum.Failed > 0 {
		a.PrintLine("%s %d, %d failed", did, sum.Changed, sum.Failed)
		NoteTargets(a, sum.Targets)
		return nil
	}
	a.PrintLine("%s %d", did, sum.Changed)
	NoteTargets(a, sum.Targets)
	return nil
}

// NoteTargets prints where dead letters go.
func NoteTargets(a *cli.App, targets []client.BulkTarget) {
	for _, t := range targets {
		switch {
		case t.Target != "":
			a.PrintNote("%d to %s", t.Count, t.Target)
		case len(targets) > 1: // beyond those that the server counts one by one
			a.PrintNote("%d to other targets", t.Count)
		}
	}
}
