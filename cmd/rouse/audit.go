package main

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
)

// auditCmd shows the audit log.
type auditCmd struct {
	Name      string `arg:"" optional:"" help:"Name of what was changed or asked for, such as a timer."`
	Verb      string `help:"Only calls with this verb, such as timers.delete or 'timers.*'." placeholder:"VERB"`
	Principal string `help:"Only calls of this principal, by id or name." placeholder:"ID"`
	Outcome   string `help:"Only calls with this outcome: ok, a code such as forbidden, or refused for all but ok." placeholder:"CODE"`
	From      moment `help:"Only calls at or after this time: RFC 3339, or from now such as -24h." placeholder:"TIME"`
	Until     moment `help:"Only calls before this time." placeholder:"TIME"`
	Oldest    bool   `help:"Oldest first."`
	Limit     int    `help:"Maximum number; 0 is unlimited, the default with --follow." default:"50" placeholder:"N"`
	Follow    bool   `short:"f" help:"Print events as they happen, from now on."`
}

func (auditCmd) Help() string {
	return `Shows who changed what, on all nodes, newest first: of the namespaces in which your credentials have the verb audit.read, or of
those that --namespace matches. Texts with * at the end match all that begin so.

Examples:

    rouse audit coffee --verb timers.delete
    rouse audit --principal ci --from=-24h
    rouse audit --outcome refused --json
    rouse audit -f`
}

// Run prints the events.
func (c *auditCmd) Run(a *app) error {
	if c.Limit < 0 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is negative", "give 0 for all")
	}
	q := client.AuditQuery{Name: c.Name, Verb: c.Verb, Principal: c.Principal, Outcome: c.Outcome,
		From: c.From.toInstant(), Until: c.Until.toInstant(), OldestFirst: c.Oldest}
	if a.given["namespace"] {
		q.Namespace = a.flags.Namespace
	}
	return a.withClient(func(s *client.Client) error {
		if c.Follow {
			return c.followAuditEvents(a, s, q)
		}
		return c.listAuditEvents(a, s, q)
	})
}

var auditColumns = []string{"TIME", "PRINCIPAL", "FROM", "VERB", "NAMESPACE", "NAMES", "REVISION", "OUTCOME", "TOOK"}

func (c *auditCmd) listAuditEvents(a *app, s *client.Client, q client.AuditQuery) error {
	t := newTable(a, auditColumns...)
	n, searched, token := 0, 0, ""
	for {
		page, err := s.Access().Audit(a.ctx, q, token)
		if err != nil {
			return errors.Join(t.flushTable(), err)
		}
		searched += page.Searched
		for i := range page.Events {
			if c.Limit > 0 && n == c.Limit {
				err := t.flushTable()
				a.printNote("there are more: see --limit")
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
		if err := t.flushTable(); err != nil {
			return err
		}
		if n == 0 && !a.flags.JSON {
			a.printNote("no events; searched %s", countThings(int64(searched), "event"))
		}
		return nil
	}
}

func (c *auditCmd) followAuditEvents(a *app, s *client.Client, q client.AuditQuery) error {
	limit := 0
	if a.given["limit"] {
		limit = c.Limit
	}
	t := newTable(a, auditColumns...)
	copy(t.widths, []int{24, 20, 15, 16, 12, 24, 12, 12}) // lines are printed as they arrive
	n := 0
	err := s.Access().FollowAudit(a.ctx, q, func(events []client.AuditEvent) error {
		for i := range events {
			if err := c.printAuditEvent(a, t, &events[i]); err != nil {
				return err
			}
			if n++; n == limit {
				return errors.Join(t.flushTable(), errEnough)
			}
		}
		return t.flushTable()
	})
	return a.followError(err)
}

func (c *auditCmd) printAuditEvent(a *app, t *table, e *client.AuditEvent) error {
	if a.flags.JSON {
		return a.printJSON(api.AuditEvent{ID: e.ID, Time: api.TimeOf(e.Time), Node: e.Node, Door: e.Door, Remote: e.Remote,
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
	who := orDash(e.Principal)
	if e.PrincipalName != "" {
		who += " (" + e.PrincipalName + ")"
	}
	outcome := e.Outcome
	if e.Reason != "" {
		outcome += ": " + e.Reason
	}
	return t.addTableRow(formatRFC3339(e.Time), who, orDash(e.Remote), e.Verb, orDash(e.Namespace), orDash(names),
		orDash(revision), outcome, e.Duration.Round(100*time.Microsecond).String())
}
