package timer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// editCmd changes members of a timer's spec.
type editCmd struct {
	Name       string   `arg:"" help:"Name of the timer."`
	Unset      []string `help:"Member that gets its default, such as retry, retry.attempts or labels.team; can be repeated." placeholder:"MEMBER"`
	Patch      string   `help:"JSON merge patch of the spec, as the API has it." placeholder:"JSON"`
	DryRun     bool     `help:"Check, and print what the timer would be."`
	IfRevision uint64   `help:"Only if the timer has this revision." placeholder:"N"`

	flags.SpecFlags `embed:""`
}

func (editCmd) Help() string {
	return `What is given is changed, and everything else stays: labels and headers are added to those that the timer has. If when it is due
does not change, it goes on where it is; otherwise a new generation begins. Without flags the spec is opened in $VISUAL or $EDITOR, and what
was changed there is written, if no other client has changed the timer in the meantime.

Examples:

    rouse edit coffee --retry-attempts 3 --label team=kitchen
    rouse edit coffee --unset labels.team --unset deadline
    rouse edit coffee --patch '{"notify": {"target": "https://chat.example/hook", "format": "slack"}}' --dry-run`
}

// Run edits.
func (c *editCmd) Run(a *cli.App) error {
	patch, err := c.givenPatch(a)
	if err != nil {
		return flags.UseFlagNames(err)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		conditions := []client.Condition{}
		if len(patch) == 0 {
			t, err := s.Get(ctx, a.Flags.Namespace, c.Name)
			if err != nil {
				return cli.AddObjectName("timer", c.Name, err)
			}
			if patch, err = editInEditor(a, &t.Spec); err != nil {
				return err
			}
			conditions = append(conditions, client.IfRevision(t.Revision))
		}
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		if c.DryRun {
			conditions = append(conditions, client.ValidateOnly())
		}
		r, err := s.Patch(ctx, a.Flags.Namespace, c.Name, patch.String(), conditions...)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, flags.UseFlagNames(err))
		}
		return showReplaced(a, &r, func() {
			did := "changed"
			if c.DryRun {
				did = "would change"
			}
			a.PrintLine("%s %s: next due %s", did, r.Key.Name, whenDue(&r.Timer, a.ServerTime()))
		})
	})
}

// givenPatch returns the patch of the flags; an empty one if there are none.
func (c *editCmd) givenPatch(a *cli.App) (api.Patch, error) {
	patch, err := c.BuildPatch(a.In)
	if err != nil {
		return nil, err
	}
	if c.Patch != "" {
		var more api.Patch
		if err := api.Decode([]byte(c.Patch), &more); err != nil {
			return nil, rouse.Under("patch", err)
		}
		for name, value := range more {
			if patch[name] != nil {
				return nil, rouse.Refuse("patch", name, "is given by a flag as well", "give it once")
			}
			patch[name] = value
		}
	}
	for _, path := range c.Unset {
		if err := patch.Remove(path); err != nil {
			return nil, err
		}
	}
	return patch, nil
}

// editInEditor lets the user edit a spec in an editor, and returns the changes.
func editInEditor(a *cli.App, spec *rouse.Spec) (api.Patch, error) {
	editor := strings.Fields(os.Getenv("VISUAL"))
	if len(editor) == 0 {
		editor = strings.Fields(os.Getenv("EDITOR"))
	}
	if len(editor) == 0 {
		return nil, &cli.Usage{Text: "what is to change? give flags, or set EDITOR", Help: a.Command + " --help"}
	}
	was, err := api.PatchTo(spec)
	if err != nil {
		return nil, err
	}
	text := jsontext.Value(was.String())
	if err := text.Indent(); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "rouse-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = fmt.Fprintln(file, string(text))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	run := exec.Command(editor[0], slices.Concat(editor[1:], []string{file.Name()})...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s: %w", editor[0], err)
	}
	edited, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}
	var is api.Patch
	if err := api.Decode(bytes.TrimSpace(edited), &is); err != nil {
		return nil, err
	}
	for name, value := range is { // as was has them
		if err := value.Compact(); err != nil {
			return nil, err
		}
		is[name] = value
	}
	return api.PatchOf(was, is)
}
