package main

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// doctorCmd checks an installation.
type doctorCmd struct {
	All bool `help:"Show what is in order, too."`
}

func (doctorCmd) Help() string {
	return `Asks one node, which asks the others and the store, and shows what is wrong with its cure: clocks, the store and its settings, nodes
without an answer, timers that are late, certificates that expire, and more. Exits with 1 if something is critical, with 9 if there
are only warnings, and with 0 if all is in order. docs/operations.md has the list of the checks.

Examples:

    rouse doctor
    rouse doctor --all
    rouse doctor --json`
}

// Run makes the checks.
func (c *doctorCmd) Run(a *app) error {
	return a.callServer(func(ctx context.Context, s *client.Client) error {
		got, err := s.Status().Doctor(ctx)
		if err != nil {
			return err
		}
		if err := c.printDiagnosis(a, &got); err != nil {
			return err
		}
		switch got.Worst {
		case rouse.SeverityOK:
			return nil
		case rouse.SeverityCritical:
			return silent(exitFailure)
		}
		return silent(exitWarning)
	})
}

func (c *doctorCmd) printDiagnosis(a *app, got *client.Diagnosis) error {
	if a.flags.JSON {
		nodes := make([]api.StatusNode, len(got.Nodes))
		for i, n := range got.Nodes {
			nodes[i] = api.StatusNode(n)
		}
		return a.printJSON(api.DiagnosisOf(got.Findings, nodes))
	}
	count := map[string]int{}
	t := newTable(a, "SEVERITY", "CHECK", "NODE", "WHAT WAS SEEN")
	t.paint[0] = a.style.paintWord
	for i := range got.Findings {
		f := &got.Findings[i]
		if count[f.Severity]++; f.Severity == rouse.SeverityOK && !c.All {
			continue
		}
		if err := t.addTableRow(f.Severity, f.Check, orDash(f.Node), f.Seen); err != nil {
			return err
		}
		if f.Cure != "" {
			if err := t.addTableRow("", "", "", "→ "+f.Cure+": "+f.Doc); err != nil {
				return err
			}
		}
	}
	if err := t.flushTable(); err != nil {
		return err
	}
	a.printNote("findings: %d critical, %d warnings, %d unknown, %d in order",
		count[rouse.SeverityCritical], count[rouse.SeverityWarning], count[rouse.SeverityUnknown], count[rouse.SeverityOK])
	return nil
}
