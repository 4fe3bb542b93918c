package tool

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/bench"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/grpclink"
	"github.com/rousehq/rouse/rousetest/history"
)

// BenchCmd measures this binary, or a running server.
type BenchCmd struct {
	Scenario string        `arg:"" help:"What to measure: ${scenarios}."`
	Store    string        `help:"Store of the servers: pebble or sqlite; postgres or redis, which starts one for the run; or the URL of an empty one, which is emptied again afterwards." default:"pebble" placeholder:"STORE"`
	Strategy string        `help:"How nodes share the timers: bucket, lease or tick." default:"bucket" enum:"bucket,lease,tick" placeholder:"NAME"`
	Nodes    int           `help:"Number of servers on a shared store; default 1, and 3 for failover and handover." placeholder:"N"`
	Lease    time.Duration `help:"Duration of leases and holds, on a shared store." default:"10s" placeholder:"DURATION"`
	Dir      string        `help:"Directory for the data of servers and raw stores; default a temporary one." placeholder:"DIR"`
	Duration time.Duration `help:"How long to measure." default:"5s" placeholder:"DURATION"`
	Timers   int           `help:"Number of timers; the default depends on the scenario." placeholder:"N"`
	Rate     int           `help:"Fires per second, for lag, failover, handover and dapr; default 5000, 2000 on a shared store, and 1000 for dapr." placeholder:"N"`
	Size     int           `help:"Bytes of a payload." default:"150" placeholder:"N"`
	Batch    int           `help:"Timers in a message, for lag; default a 500th of the rate, 1 to 100." placeholder:"N"`
	Against  string        `help:"Another rouse binary: run the scenario with it and with this one in turn, and print medians of both." placeholder:"FILE"`
	Runs     int           `help:"Number of runs of each binary, with --against, and of each load, for model." default:"3" placeholder:"N"`
	Pprof    string        `help:"Directory, which exists, for CPU and allocation profiles of the servers while they are measured (go tool pprof reads them)." placeholder:"DIR"`
	History  string        `help:"Write what happened to a file that check judges." placeholder:"FILE"`
}

func (BenchCmd) Help() string {
	names, about := bench.Scenarios()
	var b strings.Builder
	b.WriteString(`A scenario starts a server of its own, unless --server is given on the command line, and prints its rate next to the raw
limit of the same run. On a store that nodes share, the load is spread over --nodes servers, and a shared PostgreSQL or Redis
is filled and emptied: give it a database of its own. Scenarios:

`)
	for i, name := range names {
		fmt.Fprintf(&b, "    %-14s %s\n", name, about[i])
	}
	b.WriteString(`
Examples:

    rouse bench create-batch
    rouse bench lag --rate 20000 --duration 30s --json
    rouse bench pipeline --against ./rouse-before --runs 5
    rouse bench webhook --pprof .
    rouse bench model --store sqlite
    rouse bench pipeline --store sqlite --history h.jsonl && rouse check h.jsonl
    rouse bench pipeline --store postgres --strategy lease --nodes 3
    rouse bench idle --store redis://127.0.0.1:6379/5`)
	return b.String()
}

// Run measures.
func (c *BenchCmd) Run(a *cli.App) (err error) {
	names, _ := bench.Scenarios()
	if !slices.Contains(names, c.Scenario) {
		return rouse.Refuse("scenario", c.Scenario, "is no scenario", cli.SuggestName(c.Scenario, names))
	}
	if err := bench.CheckStore(c.Store); err != nil {
		return err
	}
	if c.Duration <= 0 || c.Timers < 0 || c.Rate < 0 || c.Size < 0 || c.Batch < 0 || c.Nodes < 0 ||
		c.Lease < 2*time.Second {
		return rouse.Refuse("duration", c.Duration.String(), "or a number is out of bounds",
			"use positive ones, and a lease of 2s or more")
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	o := bench.Options{Binary: binary, Store: c.Store, Strategy: c.Strategy, Nodes: c.Nodes, Lease: c.Lease, Dir: c.Dir,
		Duration: c.Duration,
		Count:    c.Timers, Rate: c.Rate, Size: c.Size, Batch: c.Batch, Runs: c.Runs, Profile: c.Pprof}
	if c.Against != "" && (c.History != "" || c.Pprof != "" || a.Given["server"] || c.Runs < 1) {
		return rouse.Refuse("against", c.Against, "cannot be combined with --history, --pprof, --server or no runs",
			"give --against and --runs alone")
	}
	if a.Given["server"] { // a variable is not enough to load a server that others use
		to, err := a.DialOptions()
		if err != nil {
			return err
		}
		o.Server, o.Link = a.Flags.Server, grpclink.Options{Files: grpclink.Files(to.CA, to.Cert, to.Key), Token: to.Token}
	}
	if !a.Flags.Quiet && a.ErrTTY {
		o.Progress = a.ErrOut
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
	if c.Against != "" {
		compared, err := bench.Compare(a.Ctx, c.Scenario, o, c.Against, c.Runs)
		if err != nil {
			return err
		}
		return a.ShowValue(compared, func() error { return printComparison(a, compared) })
	}
	r, err := bench.Run(a.Ctx, c.Scenario, o)
	if err != nil {
		return err
	}
	return a.ShowValue(r, func() error { return printResult(a, r) })
}
