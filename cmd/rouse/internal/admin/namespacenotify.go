package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// namespaceNotifyCmd changes the rules for notices of a namespace, or lists them.
type namespaceNotifyCmd struct {
	Name   string            `arg:"" help:"Name of the namespace."`
	Target string            `arg:"" optional:"" help:"Target that is told when its timers fail; left out, the rules are listed."`
	Label  map[string]string `short:"l" help:"The rule is of timers with this label; can be repeated, then with all of them." placeholder:"KEY=VALUE" mapsep:"none"`

	flags.NotifyFlags `embed:""`

	Remove bool `help:"Remove the rule of these labels."`
}

func (namespaceNotifyCmd) Help() string {
	return `A rule tells a target of the failures of all timers of a namespace, or of those with some labels, that have no --notify of their own. It
replaces the rule of the same labels. For a timer that has the labels of several rules, the first of the list counts: rules of more labels come first.

Examples:

    rouse namespace notify acme https://example.com/pager --after 3 --every 1h
    rouse namespace notify acme https://example.com/billing --label team=billing --format slack
    rouse namespace notify acme
    rouse namespace notify acme --label team=billing --remove`
}

// notifyAgain is how often a change of the rules that met another one is made again.
const notifyAgain = 5

// Run changes or lists them.
func (c *namespaceNotifyCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		for try := 0; ; try++ {
			n, _, err := s.Namespaces().Get(ctx, c.Name)
			created := !errors.Is(err, rouse.ErrNotFound)
			if err != nil && (created || c.Target == "") {
				return err
			}
			if c.Target == "" && !c.Remove {
				return c.listRules(a, n.Notify)
			}
			rules, err := c.changedRules(n.Notify)
			if err != nil {
				return err
			}
			n, err = s.Namespaces().PutNotify(ctx, c.Name, rules, n.Revision)
			if errors.Is(err, rouse.ErrConflict) && try < notifyAgain {
				continue
			}
			if err != nil {
				return err
			}
			return a.ShowValue(api.NamespaceOf(&n), func() error {
				a.PrintLine("saved namespace %s, rules for notices: %d", n.Name, len(n.Notify))
				return nil
			})
		}
	})
}

// changedRules returns the rules with that of the command, or without it.
func (c *namespaceNotifyCmd) changedRules(rules []rouse.NotifyRule) ([]rouse.NotifyRule, error) {
	rules = slices.Clone(rules)
	at := slices.IndexFunc(rules, func(r rouse.NotifyRule) bool { return maps.Equal(r.Labels, c.Label) })
	rule := rouse.NotifyRule{Labels: c.Label, Notify: c.NotifyOf(c.Target)}
	switch {
	case c.Remove && c.Target != "":
		return nil, rouse.Refuse("target", c.Target, "is given in addition to --remove", "give one of them")
	case c.Remove && at < 0:
		return nil, rouse.Refuse("label", cli.LabelText(c.Label), "are the labels of no rule",
			"list the rules: rouse namespace notify "+c.Name)
	case c.Remove:
		return slices.Delete(rules, at, at+1), nil
	case at >= 0:
		rules[at] = rule
		return rules, nil
	}
	at = slices.IndexFunc(rules, func(r rouse.NotifyRule) bool { return len(r.Labels) < len(c.Label) })
	if at < 0 {
		at = len(rules)
	}
	return slices.Insert(rules, at, rule), nil
}

// listRules shows rules in their order.
func (c *namespaceNotifyCmd) listRules(a *cli.App, rules []rouse.NotifyRule) error {
	t := cli.NewTable(a, "LABELS", "TARGET", "EVENTS", "LATE", "AFTER", "EVERY", "FORMAT")
	for i := range rules {
		shown := api.NotifyRuleOf(&rules[i])
		if a.Flags.JSON {
			if err := a.PrintJSON(shown); err != nil {
				return err
			}
			continue
		}
		if err := t.AddTableRow(ruleCells(&rules[i])...); err != nil {
			return err
		}
	}
	if len(rules) == 0 && !a.Flags.JSON {
		a.PrintNote("namespace %s has no rules for notices", c.Name)
	}
	return t.FlushTable()
}

func ruleCells(r *rouse.NotifyRule) []string {
	span := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return api.Duration(d).String()
	}
	return []string{cli.OrDash(cli.LabelText(r.Labels)), r.Target, cli.OrDash(strings.Join(r.Events, ", ")), span(r.Late),
		strconv.Itoa(int(max(r.After, 1))), span(r.Every), cli.OrDash(r.Format)}
}
