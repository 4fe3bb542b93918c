package tool

import (
	"io"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/rousetest/history"
)

// CheckCmd checks a history.
type CheckCmd struct {
	File string `arg:"" help:"A history in JSON Lines; - is stdin."`
}

func (CheckCmd) Help() string {
	return `Prints each violation on a line of its own, and a summary of the history to stderr. Exits with 0 if nothing was
violated, 1 if something was, and 2 if the history cannot be judged. docs/history.md has the format and the rules.

Examples:

    rouse bench pipeline --history h.jsonl && rouse check h.jsonl
    rouse check h.jsonl --json`
}

// verdict is the JSON output.
type verdict struct {
	OK         bool        `json:"ok"`
	Violations []violation `json:"violations"`
	Stats      stats       `json:"stats"`
}

type violation struct {
	Rule   string `json:"rule"`
	Timer  string `json:"timer"`
	Gen    uint64 `json:"gen,omitzero"`
	Due    string `json:"due,omitzero"`
	Detail string `json:"detail"`
}

type stats struct {
	Events   int      `json:"events"`
	Fires    int      `json:"fires"`
	Musts    int      `json:"must"`
	Dups     int      `json:"dups"`
	Early    int      `json:"early"`
	Lateness lateness `json:"lateness_ms"`
}

type lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Run checks the file.
func (c *CheckCmd) Run(a *cli.App) error {
	in := a.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("history", c.File, "cannot be read: "+cli.BareFileError(err), "name a file of JSON Lines")
		}
		defer f.Close()
		in = f
	}
	r, err := checkHistory(in)
	if err != nil {
		return rouse.Refuse("history", c.File, "cannot be judged: "+err.Error(), "write it as docs/history.md describes")
	}
	if err := a.ShowValue(verdictOf(r), func() error {
		for _, v := range r.Violations {
			a.PrintLine("%s", v.String())
		}
		a.PrintNote("%s", r.Stats.String())
		if r.OK() && r.Stats.Musts == 0 {
			a.PrintNote("nothing had to arrive: this pass proves nothing")
		}
		return nil
	}); err != nil {
		return err
	}
	if !r.OK() {
		return cli.Silent(cli.ExitFailure)
	}
	return nil
}

func checkHistory(in io.Reader) (*history.Report, error) {
	h, err := history.Read(in)
	if err != nil {
		return nil, err
	}
	r := history.Check(h)
	return &r, nil
}

func verdictOf(r *history.Report) verdict {
	s := r.Stats
	v := verdict{OK: r.OK(), Violations: []violation{},
		Stats: stats{Events: s.Events, Fires: s.Fires, Musts: s.Musts, Dups: s.Dups,
			Early: s.Early, Lateness: lateness{inMillis(s.Lateness.P50), inMillis(s.Lateness.P99), inMillis(s.Lateness.P999),
				inMillis(s.Lateness.Max)}}}
	for _, x := range r.Violations {
		v.Violations = append(v.Violations, violation{x.Rule, x.Timer, x.Gen, x.Due.String(), x.Detail})
	}
	return v
}

func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
