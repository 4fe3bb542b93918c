package bench

import (
	"context"
	"fmt"
	"slices"
)

// Comparison is one scenario with two binaries.
type Comparison struct {
	Scenario string     `json:"scenario"`
	Runs     int        `json:"runs"` // of each binary
	Figures  []Compared `json:"figures"`
	Old      []*Result  `json:"old"`
	New      []*Result  `json:"new"`
}

// Compared is one figure: the medians of the runs, and their ratio.
type Compared struct {
	What string  `json:"what"`
	Unit string  `json:"unit"`
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
}

// figures are compared between two binaries; the first ones hardly depend on other load of the machine.
var figures = []struct {
	what, unit string
	of         func(r *Result) float64
}{
	{"service CPU", "µs a timer", func(r *Result) float64 { return r.ServiceCPU }},
	{"store CPU", "µs a timer", func(r *Result) float64 { return r.StoreCPU }},
	{"bench CPU", "µs a timer", func(r *Result) float64 { return r.BenchCPU }},
	{"service memory", "MiB", func(r *Result) float64 { return float64(r.RSS) / (1 << 20) }},
	{"changes in a commit", "", func(r *Result) float64 { return r.Commit }},
	{"idle CPU", "% of a core", func(r *Result) float64 { return r.IdleCPU }},
	{"lag p50", "ms", func(r *Result) float64 { return r.lagOrZero().P50 }},
	{"lag p99", "ms", func(r *Result) float64 { return r.lagOrZero().P99 }},
	{"lag p99.9", "ms", func(r *Result) float64 { return r.lagOrZero().P999 }},
	{"rate", "a second", func(r *Result) float64 { return r.Rate }},
	{"of the raw limit", "", func(r *Result) float64 { return r.Ratio }},
	{"of the raw limit by CPU time", "", func(r *Result) float64 { return r.CPURatio }},
	{"written to disk", "bytes a timer", func(r *Result) float64 { return r.Disk }},
}

func (r *Result) lagOrZero() Lag {
	if r.Lag == nil {
		return Lag{}
	}
	return *r.Lag
}

// Compare runs a scenario with another binary and with that of the options, in turn, so that both meet the
// same load of the machine. The load generator is the same: this process.
func Compare(ctx context.Context, name string, o Options, old string, runs int) (*Comparison, error) {
	c := &Comparison{Scenario: name, Runs: runs}
	for i := range 2 * runs {
		run, to := o, &c.New
		if i%2 == 0 {
			run.Binary, to = old, &c.Old
		}
		r, err := Run(ctx, name, run)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", run.Binary, err)
		}
		*to = append(*to, r)
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "run %d of %d: service CPU %.2f µs a timer, %.0f a second\n", i+1, 2*runs,
				r.ServiceCPU, r.Rate)
		}
	}
	for _, f := range figures {
		if was, is := medianFigure(c.Old, f.of), medianFigure(c.New, f.of); was != 0 || is != 0 {
			c.Figures = append(c.Figures, Compared{f.what, f.unit, was, is})
		}
	}
	return c, nil
}

// medianFigure is the middle of a figure of some runs, the lower one of two.
func medianFigure(of []*Result, figure func(*Result) float64) float64 {
	values := make([]float64, len(of))
	for i, r := range of {
		values[i] = figure(r)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
