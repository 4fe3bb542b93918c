package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/bench"
	"github.com/rousehq/rouse/rousetest/history"
)

// benchCmd measures this binary, or a running server.
type benchCmd struct {
	Scenario string        `arg:"" help:"What to measure: ${scenarios}."`
	Store    string        `help:"Store of the server that is started: pebble or sqlite." default:"pebble" enum:"pebble,sqlite" placeholder:"STORE"`
	Dir      string        `help:"Directory for the data of servers and raw stores; a temporary one if not given." placeholder:"DIR"`
	Duration time.Duration `help:"How long to measure." default:"5s" placeholder:"DURATION"`
	Timers   int           `help:"How many timers; the scenario's own number if not given." placeholder:"N"`
	Rate     int           `help:"Fires per second, of the scenario lag." default:"5000" placeholder:"N"`
	Size     int           `help:"Bytes of a payload." default:"150" placeholder:"N"`
	History  string        `help:"Write what happened to a file that check judges." placeholder:"FILE"`
}

func (benchCmd) Help() string {
	names, about := bench.Scenarios()
	var b strings.Builder
	b.WriteString(`A scenario starts a server of its own, unless --server is given on the command line, and prints its rate beside the raw
limit of the same run. Scenarios:

`)
	for i, name := range names {
		fmt.Fprintf(&b, "    %-14s %s\n", name, about[i])
	}
	b.WriteString(`
Examples:

    rouse bench create-batch
    rouse bench lag --rate 20000 --duration 30s --json
    rouse bench pipeline --store sqlite --history h.jsonl && rouse check h.jsonl`)
	return b.String()
}

// Run measures.
func (c *benchCmd) Run(a *app) (err error) {
	names, _ := bench.Scenarios()
	if !slices.Contains(names, c.Scenario) {
		return rouse.Refuse("scenario", c.Scenario, "is no scenario", meant(c.Scenario, names))
	}
	if c.Duration <= 0 || c.Timers < 0 || c.Rate < 1 || c.Size < 0 {
		return rouse.Refuse("duration", c.Duration.String(), "or a number is out of bounds", "use positive ones")
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	o := bench.Options{Binary: binary, Store: c.Store, Dir: c.Dir, Duration: c.Duration, Count: c.Timers, Rate: c.Rate, Size: c.Size}
	if a.given["server"] { // a variable is not enough to load a server that others use
		o.Server = a.cli.Server
	}
	if !a.cli.Quiet && a.errTTY {
		o.Progress = a.errOut
	}
	if c.History != "" {
		f, err := os.Create(c.History)
		if err != nil {
			return err
		}
		w := history.NewWriter(f)
		o.History = w
		defer func() {
			for _, end := range []func() error{w.Flush, f.Close} {
				if endErr := end(); err == nil {
					err = endErr
				}
			}
		}()
	}
	r, err := bench.Run(a.ctx, c.Scenario, o)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = a.out.Write(append(body, '\n'))
		return err
	}
	printResult(a, r)
	return nil
}
