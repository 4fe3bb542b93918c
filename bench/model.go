package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Load is a steady load: fires a second, bytes of a payload, and timers in a message.
type Load struct {
	Rate  int `json:"rate_per_second"`
	Size  int `json:"payload_bytes"`
	Batch int `json:"timers_per_message"`
}

// costTerms returns the counts in a second of the load: milliseconds in which something is due, messages,
// fires, and KiB of payloads.
func (l Load) costTerms() [4]float64 {
	rate := float64(l.Rate)
	return [4]float64{1000 * (1 - math.Exp(-rate/1000)), rate / float64(l.Batch), rate, rate * float64(l.Size) / 1024}
}

// Model predicts the costs of the life of timers: created, fired and settled over streams.
type Model struct {
	Costs  []Cost  `json:"costs"`
	Points []Point `json:"points"`
}

// Cost is one figure of a model: the cost of each millisecond with something due, message, fire and KiB of
// payload.
type Cost struct {
	What    string  `json:"what"`
	Unit    string  `json:"unit"`
	Moment  float64 `json:"per_busy_millisecond"`
	Message float64 `json:"per_message"`
	Fire    float64 `json:"per_fire"`
	KiB     float64 `json:"per_kib"`
}

// Of returns the figure for each fire of a load.
func (c *Cost) Of(l Load) float64 {
	x := l.costTerms()
	return (c.Moment*x[0] + c.Message*x[1] + c.Fire*x[2] + c.KiB*x[3]) / float64(l.Rate)
}

// Point is a load that was measured, with the model's predictions.
type Point struct {
	Load
	Fitted  bool      `json:"fitted"` // the model knows it
	Figures []Predict `json:"figures"`
}

// Predict is one figure of a point, for each fire.
type Predict struct {
	What      string  `json:"what"`
	Unit      string  `json:"unit"`
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
}

// Off is by how much the prediction is wrong: 0.1 if it is a tenth too high.
func (p *Predict) Off() float64 { return p.Predicted/p.Measured - 1 }

// modelled are the figures of a model.
var modelled = []struct {
	what, unit string
	of         func(r *Result) float64
}{
	{"service CPU", "µs", func(r *Result) float64 { return r.ServiceCPU }},
	{"store CPU", "µs", func(r *Result) float64 { return r.StoreCPU }},
	{"written to disk", "bytes", func(r *Result) float64 { return r.Disk }},
	{"network", "bytes", func(r *Result) float64 { return r.Traffic }},
	{"network of the store", "bytes", func(r *Result) float64 { return r.StoreTraffic }},
}

// learned are the loads that a model is fitted to; judged has others, in rate, size and batch, that it has to
// predict.
var (
	learned = []Load{{500, 150, 1}, {2000, 150, 1}, {2000, 150, 20}, {5000, 150, 10}, {5000, 1500, 10}, {10_000, 150, 100},
		{10_000, 600, 20}}
	judged = []Load{{3500, 400, 5}, {8000, 150, 50}, {12_000, 300, 30}}
)

// off is by how much a model may be wrong.
const off = .2

// measureModel measures loads several times, in turn, fits a model to the medians, and judges its predictions
// of loads that it was not fitted to.
func measureModel(ctx context.Context, o Options) (*Result, error) {
	loads := slices.Concat(learned, judged)
	runs := make([][]*Result, len(loads))
	for i := range cmp.Or(o.Runs, 3) {
		for j, l := range loads {
			one := o
			one.Size, one.Batch = l.Size, l.Batch
			r, err := measureFlow(ctx, one, l.Rate)
			if err == nil && o.base != nil {
				err = o.base.clearDatabase(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%+v: %w", l, err)
			}
			runs[j] = append(runs[j], r)
			fmt.Fprintf(o.Progress, "run %d: %d/s of %d bytes, %d in a message: service CPU %.1f µs\n", i+1, l.Rate, l.Size,
				l.Batch, r.ServiceCPU)
		}
	}
	r, m := &Result{}, &Model{}
	for j, l := range loads {
		m.Points = append(m.Points, Point{Load: l, Fitted: j < len(learned)})
		r.Timers += runs[j][0].Timers
	}
	for _, f := range modelled {
		measured := make([]float64, len(loads))
		for j := range loads {
			measured[j] = medianFigure(runs[j], f.of)
		}
		if slices.Min(measured) <= 0 { // it is not measured here
			continue
		}
		c := fitCost(learned, measured)
		c.What, c.Unit = f.what, f.unit
		m.Costs = append(m.Costs, c)
		for j, l := range loads {
			m.Points[j].Figures = append(m.Points[j].Figures, Predict{f.what, f.unit, measured[j], c.Of(l)})
		}
	}
	if len(m.Costs) == 0 {
		return nil, errors.New("nothing is measured: the model needs servers that are started here")
	}
	r.Model = m
	for _, f := range m.Costs {
		worst := 0.
		for _, p := range m.Points {
			for _, q := range p.Figures {
				if !p.Fitted && q.What == f.What {
					worst = max(worst, math.Abs(q.Off()))
				}
			}
		}
		r.addGoal(worst <= off, "%s of other loads predicted within %.0f %% (%.0f %%)", f.What, off*100, worst*100)
	}
	return r, nil
}

// fitCost returns the cost that is nearest to the measured ones for each fire, in proportion to it, without
// negative parts.
func fitCost(loads []Load, measured []float64) (c Cost) {
	used := []int{0, 1, 2, 3}
	for {
		k := solveLeastSquares(loads, measured, used)
		worst := -1
		for i := range k {
			if k[i] < 0 && (worst < 0 || k[i] < k[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			all := [4]float64{}
			for i, u := range used {
				all[u] = k[i]
			}
			return Cost{Moment: all[0], Message: all[1], Fire: all[2], KiB: all[3]}
		}
		used = slices.Delete(used, worst, worst+1)
	}
}

// solveLeastSquares returns the least squares of the relative errors, with some of the terms: the normal
// equations, by Gauss.
func solveLeastSquares(loads []Load, measured []float64, used []int) []float64 {
	n := len(used)
	a := make([][]float64, n) // each row ends with its right side
	for i := range a {
		a[i] = make([]float64, n+1)
	}
	for j, l := range loads {
		x, all := l.costTerms(), measured[j]*float64(l.Rate)
		for i, u := range used {
			for k, v := range used {
				a[i][k] += x[u] / all * x[v] / all
			}
			a[i][n] += x[u] / all
		}
	}
	for i := range a {
		best := i
		for k := i; k < n; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[best][i]) {
				best = k
			}
		}
		a[i], a[best] = a[best], a[i]
		for k := range a {
			if k != i && a[i][i] != 0 {
				by := a[k][i] / a[i][i]
				for m := i; m <= n; m++ {
					a[k][m] -= by * a[i][m]
				}
			}
		}
	}
	out := make([]float64, n)
	for i := range out {
		if a[i][i] != 0 {
			out[i] = a[i][n] / a[i][i]
		}
	}
	return out
}
