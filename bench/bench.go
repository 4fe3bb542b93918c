// Package bench measures rouse: each scenario runs against a server process, starts one if it is given none, and prints its
// rate beside the raw limit of the same run: the same rows straight into the same kind of store in the same batches, or an
// empty call over the same connection. What arrives is judged as well: early, lost and doubled fires are counted.
//
// Load generator, receiver and service share the machine. Rates move with its load, the ratio to the raw limit and the CPU
// time per timer move much less: quote those.
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
)

// Options say how a scenario runs. Zero fields have the defaults that their comments name.
type Options struct {
	Server   string          // address of a running server; empty: start one
	Binary   string          // the rouse binary to start; needed without Server
	Store    string          // pebble (default) or sqlite, of a server that is started, and of the raw limit
	Dir      string          // where servers and raw stores keep data; default a temporary directory, removed afterwards
	Duration time.Duration   // of what is measured; default 5 s
	Count    int             // timers, where the scenario has a number of them; default the scenario's
	Rate     int             // per second, for lag; default 5,000
	Size     int             // bytes of a payload; default 150
	History  *history.Writer // of pipeline, lag and burst: what happened, for the checker; may be nil
	Progress io.Writer       // human-readable progress; may be nil
}

func (o Options) withDefaults() Options {
	if o.Store == "" {
		o.Store = "pebble"
	}
	if o.Duration == 0 {
		o.Duration = 5 * time.Second
	}
	if o.Size == 0 {
		o.Size = 150
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// Result is what a scenario measured. Fields that a scenario does not measure are absent.
type Result struct {
	Scenario string  `json:"scenario"`
	Store    string  `json:"store,omitempty"`
	Timers   int64   `json:"timers,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"rate_per_second,omitempty"`
	Raw      *Raw    `json:"raw,omitempty"`
	Ratio    float64 `json:"ratio_to_raw,omitempty"`
	Lag      *Lag    `json:"lag,omitempty"`
	Early    *int64  `json:"early,omitempty"`
	Lost     *int64  `json:"lost,omitempty"`
	Doubled  *int64  `json:"doubled,omitempty"`

	ServiceCPU float64 `json:"service_cpu_us_per_timer,omitempty"` // of the server process, if it was started here
	BenchCPU   float64 `json:"bench_cpu_us_per_timer,omitempty"`   // of load generator and receiver
	RSS        int64   `json:"service_rss_bytes,omitempty"`        // the most that was seen
	IdleCPU    float64 `json:"idle_cpu_percent_of_a_core,omitempty"`
	Restart    float64 `json:"restart_to_first_fire_seconds,omitempty"`

	Wheel *Wheel   `json:"wheel,omitempty"`
	Goals []Goal   `json:"goals,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Raw is the limit that a rate is compared with.
type Raw struct {
	What string  `json:"what"`
	Rate float64 `json:"rate_per_second"`
}

// Goal is one figure of the goals in docs/performance.md, and whether this run reached it.
type Goal struct {
	What    string `json:"what"`
	Reached bool   `json:"reached"`
}

func (r *Result) goal(reached bool, format string, args ...any) {
	r.Goals = append(r.Goals, Goal{fmt.Sprintf(format, args...), reached})
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// scenario measures one thing.
type scenario struct {
	name  string
	about string
	run   func(ctx context.Context, o Options) (*Result, error)
}

var scenarios = []scenario{
	{"create-batch", "durable creates, batches of 100 over a gRPC stream", createBatch},
	{"create-single", "durable creates, single gRPC calls, 64 in flight", createSingle},
	{"pipeline", "create, fire and settle over gRPC streams, sustained", pipeline},
	{"burst", "a million timers due in one second, streamed and acknowledged", burst},
	{"webhook", "one HTTP POST each: 10,000 due in one second, then sustained", webhook},
	{"lag", "how late fires are at a steady rate", lag},
	{"pending", "ten million pending timers: memory, and a restart", pending},
	{"wheel", "the timing wheel alone, ten million entries", wheelAlone},
	{"idle", "a server with nothing to do", idle},
}

// Scenarios returns the names that Run takes, each with what it measures.
func Scenarios() (names, about []string) {
	for _, s := range scenarios {
		names, about = append(names, s.name), append(about, s.about)
	}
	return names, about
}

// Run measures one scenario.
func Run(ctx context.Context, name string, o Options) (*Result, error) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no scenario %q", name)
	}
	o = o.withDefaults()
	r, err := scenarios[i].run(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", name, err)
	}
	r.Scenario = name
	if r.Store == "" && name != "wheel" {
		r.Store = o.Store
		if o.Server != "" {
			r.Store = "of " + o.Server
		}
	}
	return r, nil
}
