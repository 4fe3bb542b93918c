package admin

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// AuditCmd shows the audit log.
type AuditCmd struct {
	Name      string     `arg:"" optional:"" help:"Name of what was changed or asked for, such as a timer."`
	Verb      string     `help:"Only calls with this verb, such as timers.delete or 'timers.*'." placeholder:"VERB"`
	Principal string     `help:"Only calls of this principal, by id or name." placeholder:"ID"`
	Outcome   string     `help:"Only calls with this outcome: ok, a code such as forbidden, or refused for all but ok." placeholder:"CODE"`
	From      cli.Moment `help:"Only calls at or after this time: RFC 3339, or from now such as -24h." placeholder:"TIME"`
	Until     cli.Moment `help:"Only calls before this time." placeholder:"TIME"`
	Oldest    bool       `help:"Oldest first."`
	Limit     int        `help:"Maximum number; 0 is unlimited, the default with --follow." default:"50" placeholder:"N"`
	Follow    bool       `short:"f" help:"Print events as they happen, from now on."`
}

func (AuditCmd) Help() string {
	return `Shows who changed what, on all nodes, newest first: of the namespaces in which your credentials have the verb audit.read, or of
those that --namespace matches. Texts with * at the end match all that begin so.

Examples:

    rouse audit coffee --verb timers.delete
    rouse audit --principal ci --from=-24h
    rouse audit --outcome refused --json
    rouse audit -f`
}

// Run prints the events.
func (c *AuditCmd) Run(a *cli.App) error {
	if c.Limit < 0 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is negative", "give 0 for all")
	}
	q := client.AuditQuery{Name: c.Name, Verb: c.Verb, Principal: c.Principal, Outcome: c.Outcome,
		From: c.From.ToInstant(), Until: c.Until.ToInstant(), OldestFirst: c.Oldest}
	if a.Given["namespace"] {
		q.Namespace = a.Flags.Namespace
	}
	return a.WithClient(func(s *client.Client) error {
		if c.Follow {
			return c.followAuditEvents(a, s, q)
		}
		return c.listAuditEvents(a, s, q)
	})
}

var auditColumns = []string{"TIME", "PRINCIPAL", "FROM", "VERB", "NAMESPACE", "NAMES", "REVISION", "OUTCOME", "TOOK"}

func (c *AuditCmd) listAuditEvents(a *cli.App, s *client.Client, q client.AuditQuery) error {
	t := cli.NewTable(a, auditColumns...)
	n, searched, token := 0, 0, ""
	for {
		page, err := s.Access().Audit(a.Ctx, q, token)
		if err != nil {
			return errors.Join(t.FlushTable(), err)
		}
		searched += page.Searched
		for i := range page.Events {
			if c.Limit > 0 && n == c.Limit {
				err := t.FlushTable()
				a.PrintNote("there are more: see --limit")
				return err
			}
			n++
			if err := c.printAuditEvent(a, t, &page.Events[i]); err != nil {
				return err
			}
		}
		if token = page.Next; token != "" {
			continue
		}
		if err := t.FlushTable(); err != nil {
			return err
		}
		if n == 0 && !a.Flags.JSON {
			a.PrintNote("no events; searched %s", cli.CountThings(int64(searched), "event"))
		}
		return nil
	}
}

func (c *AuditCmd) followAuditEvents(a *cli.App, s *client.Client, q client.AuditQuery) error {
	limit := 0
	if a.Given["limit"] {
		limit = c.Limit
	}
	t := cli.NewTable(a, auditColumns...)
	copy(t.Widths, []int{24, 20, 15, 16, 12, 24, 12, 12}) // lines are printed as they arrive
	n := 0
	err := s.Access().FollowAudit(a.Ctx, q, func(events []client.AuditEvent) error {
		for i := range events {
			if err := c.printAuditEvent(a, t, &events[i]); err != nil {
				return err
			}
			if n++; n == limit {
				return errors.Join(t.FlushTable(), cli.ErrEnough)
			}
		}
		return t.FlushTable()
	})
	return a.FollowError(err)
}

func (c *AuditCmd) printAuditEvent(a *cli.App, t *cli.Table, e *client.AuditEvent) error {
	if a.Flags.JSON {
		return a.PrintJSON(api.AuditEvent{ID: e.ID, Time: api.TimeOf(e.Time), Node: e.Node, Door: e.Door, Remote: e.Remote,
			RequestID: e.RequestID,
			Principal: e.Principal, Name: e.PrincipalName, Source: e.PrincipalSource, Verb: e.Verb, Method: e.Method,
			Namespace: e.Namespace, Names: e.Names,
			Changed: e.Changed, Failed: e.Failed, Hash: e.Hash, Before: e.Before, After: e.After, Outcome: e.Outcome,
			Reason: e.Reason, Duration: api.Duration(e.Duration)})
	}
	names := strings.Join(e.Names, ", ")
	if more := int64(e.Changed) - int64(len(e.Names)); more > 0 && len(e.Names) > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	revision := ""
	if e.Before+e.After != "" {
		revision = cmp.Or(e.Before, "?") + " → " + cmp.Or(e.After, "?")
	}
	who := cli.OrDash(e.Principal)
	if e.PrincipalName != "" {
		who += " (" + e.PrincipalName + ")"
	}
	outcome := e.Outcome
	if e.Reason != "" {
		outcome += ": " + e.Reason
	}
	return t.AddTableRow(cli.FormatRFC3339(e.Time), who, cli.OrDash(e.Remote), e.Verb, cli.OrDash(e.Namespace),
		cli.OrDash(names),
		cli.OrDash(revision), outcome, e.Duration.Round(100*time.Microsecond).String())
}
