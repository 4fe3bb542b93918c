package move

import (
	"os"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/internal/foreign/dapr"
)

// ImportRemindersCmd imports the reminders that Dapr's sidecars kept in their state store before Dapr had a
// scheduler.
type ImportRemindersCmd struct {
	File string `arg:"" help:"What was exported from the state store: JSON with a key and a value for each entry; - is stdin."`

	DaprNamespace string   `help:"Namespace of the actors, as Dapr has it." default:"default" placeholder:"NAME"`
	ActorType     []string `help:"Reminders of actors of these types only." placeholder:"TYPE"`
	As            string   `help:"App that requests the reminders." default:"rouse" placeholder:"APP"`
	DryRun        bool     `help:"Print the effect for each reminder, and change nothing; needs no server."`
}

func (ImportRemindersCmd) Help() string {
	return `Before 1.15 Dapr keeps the reminders of actors in lists in the actor state store. This reads those lists, partitioned or not, in JSON
or in protobuf, and the records of when each reminder fired last, and writes actor reminders as Dapr's scheduler has them: sidecars
find them at once. Each goes on where it was: at the time that is next, with the repetitions that are left.

It can be run again: what is there already stays as it is. Stop the old sidecars before the export, so that they do not fire what is
being read. How to export is in reminders-migrate.md.

Examples:

    rouse import-reminders state.jsonl --dry-run
    rouse import-reminders state.jsonl --actor-type Cart --as shop
    rouse import-reminders - --dapr-namespace prod < state.jsonl`
}

// Run imports.
func (c *ImportRemindersCmd) Run(a *cli.App) error {
	in := a.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("file", c.File, "cannot be read: "+cli.BareFileError(err),
				"name a file that was exported from a state store")
		}
		defer f.Close()
		in = f
	}
	state, err := dapr.ReadState(in)
	if err != nil {
		return rouse.Under("file "+c.File, err)
	}
	state.Selection = dapr.Selection{Namespace: c.DaprNamespace, ActorTypes: c.ActorType, As: c.As}
	i := &sourceImport{
		a:        a,
		dryRun:   c.DryRun,
		outcomes: []string{foreign.Imported, foreign.There, foreign.Over, foreign.Stale, foreign.Failed},
		line: func(r *foreign.Resumed, problem *api.Problem) any {
			o := r.Origin
			return reminderLine{o.List, o.ActorType, o.ActorID, o.Name, api.TimeOf(r.Timer.Due), r.Outcome, r.Why, problem}
		},
	}
	return i.importSource(state.Read)
}

// reminderLine is the JSON output for a reminder, or for a list that cannot be read.
type reminderLine struct {
	Key     string       `json:"key,omitzero"` // of the list
	Type    string       `json:"actor_type,omitzero"`
	ID      string       `json:"actor_id,omitzero"`
	Name    string       `json:"name,omitzero"`
	Due     api.Time     `json:"due,omitzero"`
	Outcome string       `json:"outcome"`
	Why     string       `json:"why,omitzero"`
	Problem *api.Problem `json:"problem,omitzero"`
}
