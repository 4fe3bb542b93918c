package tool

import (
	"fmt"
	"strconv"

	"github.com/rousehq/rouse/bench"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// printResult prints the figures of a scenario; those that it did not measure are left out.
func printResult(a *cli.App, r *bench.Result) error {
	store := r.Store
	if r.Nodes > 0 {
		store = fmt.Sprintf("%s, strategy %s, %s", r.Store, r.Strategy, cli.CountThings(int64(r.Nodes), "node"))
	}
	pairs := []string{"scenario", r.Scenario, "store", store}
	add := func(name, format string, value float64) {
		if value != 0 {
			pairs = append(pairs, name, fmt.Sprintf(format, value))
		}
	}
	count := func(name string, n *int64) {
		if n != nil {
			pairs = append(pairs, name, strconv.FormatInt(*n, 10))
		}
	}
	add("timers", "%.0f", float64(r.Timers))
	add("time", "%.2f s", r.Seconds)
	add("rate", "%.0f/s", r.Rate)
	if r.Raw != nil {
		pairs = append(pairs, "raw limit", rawText(*r.Raw))
	}
	for _, raw := range r.Raws {
		if raw != *r.Raw {
			pairs = append(pairs, "other limit", rawText(raw))
		}
	}
	add("of the raw limit", "%.0f %%", r.Ratio*100)
	add("by CPU time", "%.0f %%", r.CPURatio*100)
	for _, late := range []struct {
		what string
		of   *bench.Lag
	}{{"lag", r.Lag}, {"latency", r.Latency}} {
		if l := late.of; l != nil {
			pairs = append(pairs, late.what, fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms", l.P50, l.P99,
				l.P999, l.Max))
		}
	}
	count("early", r.Early)
	count("lost", r.Lost)
	count("doubled", r.Doubled)
	add("service CPU", "%.2f µs a timer", r.ServiceCPU)
	add("store CPU", "%.2f µs a timer", r.StoreCPU)
	add("bench CPU", "%.2f µs a timer", r.BenchCPU)
	add("service memory", "%.0f MiB", float64(r.RSS)/(1<<20))
	add("written to disk", "%.0f bytes a timer", r.Disk)
	add("network", "%.0f bytes a timer", r.Traffic)
	add("network of the store", "%.0f bytes a timer", r.StoreTraffic)
	add("changes in a commit", "%.0f", r.Commit)
	add("queries", "%.2f a second and node", r.Queries)
	add("idle CPU", "%.2f %% of a core", r.IdleCPU)
	add("restart to first fire", "%.2f s", r.Restart)
	for _, lost := range []struct {
		how string
		*bench.Failover
	}{{"killed", r.Failover}, {"hung", r.Hung}} {
		if f := lost.Failover; f != nil {
			pairs = append(pairs, lost.how,
				fmt.Sprintf(
					"silence p50 %.2f s, p99 %.2f s, max %.2f s of %d timers of that node (lease %.0f s); of others at most %.2f s; they are due once a second",
					f.P50, f.P99, f.Max, f.Timers, f.Lease, f.Others))
		}
	}
	for _, q := range r.Answers {
		pairs = append(pairs, q.What, fmt.Sprintf("%.3f s", q.Seconds))
	}
	add("kept on disk", "%.0f bytes a timer", r.Kept)
	if h := r.Handover; h != nil {
		pairs = append(pairs, "a node stops", fmt.Sprintf("timers are late by p99 %.2f s, max %.2f s", h.LeavingP99,
			h.LeavingMax),
			"it starts", fmt.Sprintf("timers are late by p99 %.2f s, max %.2f s", h.JoiningP99, h.JoiningMax))
	}
	if w := r.Wheel; w != nil {
		pairs = append(pairs, "wheel", fmt.Sprintf("%d entries of %.1f bytes, insert %.2f µs, expire %.2f µs", w.Entries,
			w.Bytes, w.Insert, w.Expire))
	}
	cli.PrintFacts(a.Out, a.Style, pairs...)
	if r.Model != nil {
		if err := printModel(a, r.Model); err != nil {
			return err
		}
	}
	for _, g := range r.Goals {
		mark := a.Style.Green("reached")
		if !g.Reached {
			mark = a.Style.Red("not reached")
		}
		fmt.Fprintf(a.Out, "goal %s: %s\n", mark, cli.CleanText(g.What))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(a.Out, "note: %s\n", cli.CleanText(n))
	}
	return nil
}

// printModel shows the costs of a model, and how well it predicts.
func printModel(a *cli.App, m *bench.Model) error {
	t := cli.NewTable(a, "COST", "UNIT", "A BUSY MS", "A MESSAGE", "A FIRE", "A KIB OF PAYLOAD")
	for _, c := range m.Costs {
		if err := t.AddTableRow(c.What, c.Unit, fmt.Sprintf("%.1f", c.Moment), fmt.Sprintf("%.1f", c.Message),
			fmt.Sprintf("%.2f", c.Fire), fmt.Sprintf("%.2f", c.KiB)); err != nil {
			return err
		}
	}
	if err := t.FlushTable(); err != nil {
		return err
	}
	t = cli.NewTable(a, "RATE", "PAYLOAD", "MESSAGE", "FIGURE OF A FIRE", "MEASURED", "PREDICTED", "OFF", "")
	for _, p := range m.Points {
		known := "fitted to"
		if !p.Fitted {
			known = "predicted"
		}
		for _, f := range p.Figures {
			if err := t.AddTableRow(fmt.Sprint(p.Rate), fmt.Sprint(p.Size), fmt.Sprint(p.Batch), f.What,
				fmt.Sprintf("%.1f %s", f.Measured, f.Unit),
				fmt.Sprintf("%.1f %s", f.Predicted, f.Unit), fmt.Sprintf("%+.0f %%", f.Off()*100), known); err != nil {
				return err
			}
		}
	}
	return t.FlushTable()
}

// printComparison shows the medians of two binaries side by side.
func printComparison(a *cli.App, c *bench.Comparison) error {
	t := cli.NewTable(a, "FIGURE", "BEFORE", "NOW", "RATIO", "UNIT")
	for _, f := range c.Figures {
		ratio := "-"
		if f.Old != 0 {
			ratio = fmt.Sprintf("%.2f", f.New/f.Old)
		}
		if err := t.AddTableRow(f.What, fmt.Sprintf("%.2f", f.Old), fmt.Sprintf("%.2f", f.New), ratio, f.Unit); err != nil {
			return err
		}
	}
	return t.FlushTable()
}

func rawText(r bench.Raw) string {
	cpu := ""
	if r.CPU > 0 {
		cpu = fmt.Sprintf(", CPU %.2f µs", r.CPU)
	}
	if r.StoreCPU > 0 {
		cpu += fmt.Sprintf(", store CPU %.2f µs", r.StoreCPU)
	}
	return fmt.Sprintf("%.0f/s%s (%s)", r.Rate, cpu, r.What)
}
