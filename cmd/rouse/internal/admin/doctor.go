package admin

import (
	"context"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// DoctorCmd checks an installation.
type DoctorCmd struct {
	All bool `help:"Show what is in order, too."`
}

func (DoctorCmd) Help() string {
	return `Asks one node, which asks the others and the store, and shows what is wrong with its cure: clocks, the store and its settings, nodes
without an answer, timers that are late, certificates that expire, and more. Exits with 1 if something is critical, with 9 if there
are only warnings, and with 0 if all is in order. docs/operations.md has the list of the checks.

Examples:

    rouse doctor
    rouse doctor --all
    rouse doctor --json`
}

// Run makes the checks.
func (c *DoctorCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
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
			return cli.Silent(cli.ExitFailure)
		}
		return cli.Silent(cli.ExitWarning)
	})
}

func (c *DoctorCmd) printDiagnosis(a *cli.App, got *client.Diagnosis) error {
	if a.Flags.JSON {
		nodes := make([]api.StatusNode, len(got.Nodes))
		for i, n := range got.Nodes {
			nodes[i] = api.StatusNode(n)
		}
		return a.PrintJSON(api.DiagnosisOf(got.Findings, nodes))
	}
	count := map[string]int{}
	t := cli.NewTable(a, "SEVERITY", "CHECK", "NODE", "WHAT WAS SEEN")
	t.Paint[0] = a.Style.PaintWord
	for i := range got.Findings {
		f := &got.Findings[i]
		if count[f.Severity]++; f.Severity == rouse.SeverityOK && !c.All {
			continue
		}
		if err := t.AddTableRow(f.Severity, f.Check, cli.OrDash(f.Node), f.Seen); err != nil {
			return err
		}
		if f.Cure != "" {
			if err := t.AddTableRow("", "", "", "→ "+f.Cure+": "+f.Doc); err != nil {
				return err
			}
		}
	}
	if err := t.FlushTable(); err != nil {
		return err
	}
	a.PrintNote("findings: %d critical, %d warnings, %d unknown, %d in order",
		count[rouse.SeverityCritical], count[rouse.SeverityWarning], count[rouse.SeverityUnknown], count[rouse.SeverityOK])
	return nil
}
