package timer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// DeadCmd groups the commands for dead letters.
type DeadCmd struct {
	List    deadListCmd    `cmd:"" default:"withargs" help:"List dead letters."`
	Show    deadShowCmd    `cmd:"" help:"Show a dead letter."`
	Redrive deadRedriveCmd `cmd:"" help:"Retry dead letters with new attempts, and the same fire ids."`
	Purge   deadPurgeCmd   `cmd:"" help:"Delete dead letters."`
}

func (DeadCmd) Help() string {
	return `A fire that ran out of attempts, or that its target rejected, is kept as a dead letter.

Examples:

    rouse dead
    rouse dead show coffee FIRE
    rouse dead redrive coffee
    rouse dead redrive --prefix invoice- --error-contains 'connection refused'
    rouse dead purge --all --yes`
}

// deadQuery returns the query for the dead letters of a timer.
func deadQuery(a *cli.App, name string) rouse.Query {
	return rouse.Query{Namespace: a.Flags.Namespace, Name: name, States: []rouse.State{rouse.StateDead}}
}

// deadListCmd lists dead letters.
type deadListCmd struct {
	cli.WatchFlag     `embed:""`
	flags.FilterFlags `embed:""`
	flags.SoughtFlags `embed:""`
	flags.OrderFlags  `embed:""`

	AllNamespaces bool `short:"A" help:"Those of all namespaces."`
	Limit         int  `help:"Maximum number; 0 is unlimited." default:"0" placeholder:"N"`
}

func (deadListCmd) Help() string {
	return `Examples:

    rouse dead list
    rouse dead list --prefix invoice- --json
    rouse dead list --order-by ended --reverse --target 'https://hooks.example.com/*'
    rouse dead list -A --text 'connection refused'`
}

// Run lists them.
func (c *deadListCmd) Run(a *cli.App) error {
	if c.Limit < 0 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is negative", "give 0 for all")
	}
	q := c.FilterFlags.FilterQuery(a)
	q.States, q.Limit, q.Sought = []rouse.State{rouse.StateDead}, c.Limit, c.SoughtTerms()
	if err := c.OrderFlags.SetOrder(&q); err != nil {
		return err
	}
	header := []string{"NAME", "FIRE", "DUE", "ATTEMPTS", "LAST ERROR"}
	if c.AllNamespaces {
		q.Namespace, header = "", append([]string{"NAMESPACE"}, header...)
	}
	t := cli.NewTable(a, header...)
	n := 0
	err := a.EachMatchingTimer(q, func(d *rouse.Timer) error {
		n++
		if a.Flags.JSON {
			return a.PrintJSON(api.TimerOf(d))
		}
		row := []string{d.Key.Name, d.Key.Fire, cli.FormatRFC3339(dueOf(d)), strconv.Itoa(int(d.Attempts)),
			rouse.Shorten(d.LastError, 80)}
		if c.AllNamespaces {
			row = append([]string{d.Key.Namespace}, row...)
		}
		return t.AddTableRow(row...)
	})
	if err := errors.Join(err, t.FlushTable()); err != nil {
		return err
	}
	if n == 0 && !a.Flags.JSON {
		a.PrintNote("no dead letters")
	}
	return nil
}

// dueOf returns the due time of a dead letter's occurrence.
func dueOf(d *rouse.Timer) rouse.Instant {
	if d.Due == rouse.Never && len(d.Runs) > 0 {
		return d.Runs[0]
	}
	return d.Due
}

// deadShowCmd shows a dead letter.
type deadShowCmd struct {
	Name string `arg:"" help:"Name of the timer."`
	Fire string `arg:"" help:"Id of the fire, as list prints it."`
}

func (deadShowCmd) Help() string {
	return `Examples:

    rouse dead show coffee 0f3k9q2m7d8x1c5v6b4n3z2a1s`
}

// Run shows it.
func (c *deadShowCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		d, err := s.DeadLetter(ctx, a.Flags.Namespace, c.Name, c.Fire)
		if err != nil {
			return cli.AddObjectName("dead letter", c.Name+" "+c.Fire, err)
		}
		return showTimer(a, &d)
	})
}

// deadChoice selects dead letters.
type deadChoice struct {
	Name string `arg:"" optional:"" help:"Name of the timer."`
	Fire string `arg:"" optional:"" help:"Id of the fire; default all dead letters of the timer."`

	flags.ManyFlags `embed:""`
	ErrorContains   string `help:"Those whose last error contains this." placeholder:"TEXT"`
}

// hasFilter reports whether filters select the dead letters. It refuses an empty or ambiguous selection.
func (c *deadChoice) hasFilter(a *cli.App) (bool, error) {
	return c.SelectsMany(a, "dead letters", c.Name, c.ErrorContains != "")
}

// eachDeadLetter calls do for every selected dead letter. One that was deleted in the meantime is skipped,
// unless it was named. do returns the target that it goes to, if any.
func (c *deadChoice) eachDeadLetter(a *cli.App, doing, did string,
	do func(ctx context.Context, s *client.Client, name, fire string) (string, error)) error {
	n := int64(0)
	var targets []client.BulkTarget
	tell := func(name, fire, target string) error {
		n++
		if a.Flags.JSON {
			return a.PrintJSON(deadDone{did, a.Flags.Namespace, name, fire, target})
		}
		i := slices.IndexFunc(targets, func(t client.BulkTarget) bool { return t.Target == target })
		if i < 0 {
			i, targets = len(targets), append(targets, client.BulkTarget{Target: target})
		}
		targets[i].Count++
		return nil
	}
	err := a.WithClient(func(s *client.Client) error {
		one := func(name, fire string) (string, error) {
			ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
			defer cancel()
			if key := a.Flags.IdempotencyKey; key != "" && c.Fire == "" { // each is a request of its own
				sum := sha256.Sum256([]byte(key + " " + fire))
				ctx = client.WithIdempotencyKey(ctx, hex.EncodeToString(sum[:]))
			}
			return do(ctx, s, name, fire)
		}
		if c.Fire != "" {
			target, err := one(c.Name, c.Fire)
			if err != nil {
				return cli.AddObjectName("dead letter", c.Name+" "+c.Fire, flags.UseFlagNames(err))
			}
			return tell(c.Name, c.Fire, target)
		}
		bar := a.NewProgress(doing, 0)
		defer bar.ClearBar()
		for d, err := range s.List(a.Ctx, deadQuery(a, c.Name)) {
			if err != nil {
				return err
			}
			target, err := one(d.Key.Name, d.Key.Fire)
			switch {
			case errors.Is(err, rouse.ErrNotFound):
				continue
			case err != nil:
				return fmt.Errorf("dead letter %q %s: %w", d.Key.Name, d.Key.Fire, flags.UseFlagNames(err))
			}
			if err := tell(d.Key.Name, d.Key.Fire, target); err != nil {
				return err
			}
			bar.DrawBar(n, n)
		}
		if n == 0 && c.Name != "" {
			return fmt.Errorf("dead letters of %q: %w", c.Name, rouse.ErrNotFound)
		}
		return nil
	})
	if !a.Flags.JSON && (err == nil || n > 0) {
		a.PrintLine("%s %d", did, n)
		flags.NoteTargets(a, targets)
	}
	return err
}

// deadDone is the JSON output for one dead letter.
type deadDone struct {
	Did       string `json:"did"` // redriven or purged
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	FireID    string `json:"fire_id"`
	Target    string `json:"target,omitzero"` // of redriven ones: where it goes
}

// deadRedriveCmd gives dead letters new attempts.
type deadRedriveCmd struct {
	deadChoice `embed:""`
	Rate       float64 `help:"With a filter: at most so many per second, so that the target is not overrun; 0 is as fast as possible." default:"0" placeholder:"N"`

	WithCurrentSpec bool `help:"With the target, payload, headers and policies that the timer has now."`
}

func (deadRedriveCmd) Help() string {
	return `A dead letter has the target, payload and policies that its timer had when it died. If that was the fault, replace the timer, and redrive
the dead letter with --with-current-spec.

Examples:

    rouse dead redrive coffee 0f3k9q2m7d8x1c5v6b4n3z2a1s
    rouse dead redrive coffee
    rouse dead redrive coffee --with-current-spec
    rouse dead redrive --all --error-contains 'connection refused' --dry-run
    rouse dead redrive --all --error-contains 'connection refused' --rate 10
    rouse dead redrive --prefix invoice- --limit 100`
}

// Run redrives them.
func (c *deadRedriveCmd) Run(a *cli.App) error {
	many, err := c.hasFilter(a)
	if err != nil {
		return err
	}
	if many {
		r := client.BulkRequest{Action: client.BulkRedrive, ErrorContains: c.ErrorContains, PerSecond: c.Rate,
			CurrentSpec: c.WithCurrentSpec}
		return c.ApplyBulk(a, r, flags.StateFlag{}, "redrive", "redriven", false)
	}
	if c.Rate != 0 {
		return &cli.Usage{Text: "--rate goes with a filter or --all, not with a name", Help: a.Command + " --help"}
	}
	return c.eachDeadLetter(a, "redriven", "redriven",
		func(ctx context.Context, s *client.Client, name, fire string) (string, error) {
			return s.Redrive(ctx, a.Flags.Namespace, name, fire, c.WithCurrentSpec)
		})
}

// deadPurgeCmd deletes dead letters.
type deadPurgeCmd struct {
	deadChoice `embed:""`
}

func (deadPurgeCmd) Help() string {
	return `Examples:

    rouse dead purge coffee 0f3k9q2m7d8x1c5v6b4n3z2a1s
    rouse dead purge --label team=billing --dry-run
    rouse dead purge --all --yes`
}

// Run purges them.
func (c *deadPurgeCmd) Run(a *cli.App) error {
	many, err := c.hasFilter(a)
	if err != nil {
		return err
	}
	if many {
		r := client.BulkRequest{Action: client.BulkPurge, ErrorContains: c.ErrorContains}
		return c.ApplyBulk(a, r, flags.StateFlag{}, "purge", "purged", true)
	}
	return c.eachDeadLetter(a, "purged", "purged", func(ctx context.Context, s *client.Client, name,
		fire string) (string, error) {
		return "", s.Purge(ctx, a.Flags.Namespace, name, fire)
	})
}
