// Package bench measures rouse: each scenario runs against a server process, starts one if it is given none,
// and prints its rate next to the raw limit of the same run: the same rows straight into the same kind of
// store in the same batches, or an empty call over the same connection. Arrivals are checked as well: early,
// lost and doubled fires are counted.
//
// On a store that nodes share, one or several server processes run, and the load is spread over them: creates
// go round, and every node has subscribers. The store is a database that is empty before and after, or a
// server that is started for the run.
//
// Load generator, receiver and service share the machine. Rates move with its load, the ratio to the raw
// limit and the CPU time per timer move much less: quote those.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/grpclink"
	"github.com/rousehq/rouse/rousetest/history"
)

// Options configure a scenario. Zero fields have the defaults that their comments name.
type Options struct {
	Server string           // address of a running server, or of several nodes with commas between; empty: start one
	Link   grpclink.Options // how connections to Server are made
	Binary string           // the rouse binary to start; needed without Server
	// of servers that are started, and of the raw limit: pebble (default), sqlite, or as OpenBase takes it
	Store    string
	Strategy string        // how nodes share the timers: bucket (default), lease or tick
	Nodes    int           // servers on one store that nodes share; default 1, and 3 for failover
	Lease    time.Duration // of buckets, and hold of timers, of nodes that share a store; at least 2 s; default 10 s
	Dir      string        // where servers and raw stores keep data; default a temporary directory, removed afterwards
	Duration time.Duration // of the measurement; default 5 s
	Count    int           // timers, where the scenario has a number of them; default the scenario's
	// per second, for lag; default 5,000, 2,000 on a store that nodes share, and 1,000 of Dapr's jobs
	Rate    int
	Size    int             // bytes of a payload; default 150
	Runs    int             // of each load of model; default 3
	Batch   int             // timers in a message of lag; default a 500th of the rate, 1 to 100
	History *history.Writer // of pipeline, lag and burst: the events, for the checker; may be nil
	// a directory for profiles of the servers that are started, while they are measured; may be empty
	Profile  string
	Progress io.Writer // human-readable progress; may be nil

	base  Base     // the store that nodes share, while a scenario runs; nil for one that they do not
	serve []string // flags of serve, in addition to those that all scenarios need
}

func (o Options) withScenarioDefaults() Options {
	o.Store = cmp.Or(o.Store, "pebble")
	o.Strategy = cmp.Or(o.Strategy, "bucket")
	o.Nodes = cmp.Or(o.Nodes, 1)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Duration = cmp.Or(o.Duration, 5*time.Second)
	o.Size = cmp.Or(o.Size, 150)
	o.Progress = cmp.Or(o.Progress, io.Discard)
	return o
}

// checkScenario returns the error in the options of a scenario.
func (o *Options) checkScenario(s *scenario) error {
	shared := o.hasSharedStore()
	switch {
	case s.only == onShared && !shared:
		return errors.New("needs a store that nodes share: give postgres, redis, or the URL of one")
	case s.only == onEmbedded && shared:
		return errors.New("is for a store of the server's own: give pebble or sqlite")
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("%d nodes cannot be started: give 1 to %d", o.Nodes, maxNodes)
	case o.Nodes > 1 && !shared:
		return errors.New("several nodes need a store that nodes share: give postgres, redis, or the URL of one")
	case (s.name == "failover" || s.name == "handover") && o.Nodes < 2:
		return errors.New("one node alone has no other node to take over: give 2 nodes or more")
	}
	return nil
}

// maxNodes is how many servers are started at most: this measures one machine.
const maxNodes = 16

// storeKind is which store the servers have: pebble, sqlite, postgres or redis.
func (o *Options) storeKind() string {
	if k, _ := baseKind(o.Store); k != "" {
		return k
	}
	return o.Store
}

// hasSharedStore reports whether servers are started on a store that nodes share.
func (o *Options) hasSharedStore() bool {
	k, _ := baseKind(o.Store)
	return k != "" && o.Server == ""
}

// Result holds the figures of a scenario. Fields that a scenario does not measure are absent.
type Result struct {
	Scenario string  `json:"scenario"`
	Store    string  `json:"store,omitempty"`
	Strategy string  `json:"strategy,omitempty"` // where it was chosen here
	Nodes    int     `json:"nodes,omitempty"`    // on a store that they share
	Timers   int64   `json:"timers,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Rate     float64 `json:"rate_per_second,omitempty"`
	Raw      *Raw    `json:"raw,omitempty"`        // the highest of the raw limits
	Raws     []Raw   `json:"raw_limits,omitempty"` // all that were measured, if there are several
	Ratio    float64 `json:"ratio_to_raw,omitempty"`
	// CPU time of the raw limit to that of all processes here: hardly depends on other load
	CPURatio float64 `json:"cpu_ratio_to_raw,omitempty"`
	Latency  *Lag    `json:"latency,omitempty"` // of calls
	Lag      *Lag    `json:"lag,omitempty"`
	Early    *int64  `json:"early,omitempty"`
	Lost     *int64  `json:"lost,omitempty"`
	Doubled  *int64  `json:"doubled,omitempty"`

	// of the server processes, if they were started here
	ServiceCPU float64 `json:"service_cpu_us_per_timer,omitempty"`
	// of the processes of a store that nodes share, where that is known
	StoreCPU float64 `json:"store_cpu_us_per_timer,omitempty"`
	BenchCPU float64 `json:"bench_cpu_us_per_timer,omitempty"` // of load generator and receiver
	// the peaks of all nodes together; where there is a restart, that after it
	RSS     int64   `json:"service_rss_bytes,omitempty"`
	Disk    float64 `json:"disk_bytes_per_timer,omitempty"`    // that service and store wrote
	Traffic float64 `json:"network_bytes_per_timer,omitempty"` // between load generator and service, both ways
	// between service and a store that nodes share, both ways
	StoreTraffic float64 `json:"store_network_bytes_per_timer,omitempty"`
	// on the average, in the batches that the servers wrote
	Commit  float64 `json:"changes_per_commit,omitempty"`
	IdleCPU float64 `json:"idle_cpu_percent_of_a_core,omitempty"`
	Queries float64 `json:"idle_queries_per_second,omitempty"` // that each node asks a store that nodes share
	Restart float64 `json:"restart_to_first_fire_seconds,omitempty"`

	Failover *Failover `json:"failover,omitempty"` // of a node that was killed
	Hung     *Failover `json:"hung,omitempty"`     // of one that was stopped with its connections open, and may go on
	Handover *Handover `json:"handover,omitempty"`
	Wheel    *Wheel    `json:"wheel,omitempty"`
	Model    *Model    `json:"model,omitempty"`
	Kept     float64   `json:"disk_bytes_kept_per_timer,omitempty"`
	Answers  []Answer  `json:"answers,omitempty"`
	Goals    []Goal    `json:"goals,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Answer is how long the server took to answer a question about many timers.
type Answer struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// Raw is the limit that a rate is compared with.
type Raw struct {
	What     string  `json:"what"`
	Rate     float64 `json:"rate_per_second"`
	CPU      float64 `json:"cpu_us_per_timer,omitempty"`       // of this process, and of a service that is called
	StoreCPU float64 `json:"store_cpu_us_per_timer,omitempty"` // of the processes of a store that nodes share
}

// Goal is one figure of the goals in docs/performance.md, and whether this run reached it.
type Goal struct {
	What    string `json:"what"`
	Reached bool   `json:"reached"`
}

func (r *Result) addGoal(reached bool, format string, args ...any) {
	r.Goals = append(r.Goals, Goal{fmt.Sprintf(format, args...), reached})
}

// setRawLimits writes the raw limits into r, and how much of the highest of them was reached.
func (r *Result) setRawLimits(raws []Raw) {
	best := slices.MaxFunc(raws, func(a, b Raw) int { return cmp.Compare(a.Rate, b.Rate) })
	r.Raw, r.Ratio, r.CPURatio = &best, r.Rate/best.Rate, (best.CPU+best.StoreCPU)/(r.ServiceCPU+r.StoreCPU+r.BenchCPU)
	if len(raws) > 1 {
		r.Raws = raws
	}
}

func (r *Result) addResultNote(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// scenario measures one thing.
type scenario struct {
	name  string
	about string
	run   func(ctx context.Context, o Options) (*Result, error)
	only  int // the stores that it is for
}

// The stores that a scenario is for.
const (
	onAny = iota
	onEmbedded
	onShared
	onNone // it has no server
)

var scenarios = []scenario{
	{"create-batch", "durable creates, batches of 100 over a gRPC stream", createBatch, onAny},
	{"create-single", "durable creates, single gRPC calls, 64 in flight", createSingle, onAny},
	{"pipeline", "create, fire and settle over gRPC streams, sustained", measurePipeline, onAny},
	{"burst", "a million timers due in one second, streamed and acknowledged; 100,000 on a shared store",
		measureBurst, onAny},
	{"webhook", "one HTTP POST each: 10,000 due in one second, then sustained", measureWebhook, onAny},
	{"lag", "how late fires are at a steady rate", measureLag, onAny},
	{"model", "the costs of steady loads, and whether they predict other loads", measureModel, onAny},
	{"pending", "ten million pending timers: memory, and a restart", measurePending, onEmbedded},
	{"dapr", "through Dapr's protocol: 100,000 pending jobs, a restart, and how late triggers are at a steady rate",
		measureDapr, onEmbedded},
	{"reminders", "four million pending reminders of the reminder service: memory, and a restart", measureReminders,
		onEmbedded},
	{"wheel", "the timing wheel alone, ten million entries", wheelAlone, onNone},
	{"idle", "a server with nothing to do, and what it asks a shared store", measureIdle, onAny},
	{"failover",
		"kill -9, and then SIGSTOP, of one of three nodes on a shared store: how long until others fire its timers",
		measureFailover, onShared},
	{"handover", "one of three nodes on a shared store stops and starts in order: how late timers are during that",
		measureHandover, onShared},
}

// Scenarios returns the names that Run takes, each with a description.
func Scenarios() (names, about []string) {
	for _, s := range scenarios {
		names, about = append(names, s.name), append(about, s.about)
	}
	return names, about
}

// Run measures one scenario.
func Run(ctx context.Context, name string, o Options) (r *Result, err error) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no scenario %q", name)
	}
	s := &scenarios[i]
	defer func() {
		if err != nil {
			r, err = nil, fmt.Errorf("bench %s: %w", name, err)
		}
	}()
	if name == "failover" || name == "handover" {
		o.Nodes = cmp.Or(o.Nodes, 3)
	}
	o = o.withScenarioDefaults()
	if err := o.checkScenario(s); err != nil {
		return nil, err
	}
	if s.only != onNone && o.hasSharedStore() {
		if o.base, err = OpenBase(ctx, o.Store, o.Dir); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, o.base.Close()) }()
	}
	if r, err = s.run(ctx, o); err != nil {
		return nil, err
	}
	r.Scenario = name
	switch {
	case s.only == onNone:
	case o.Server != "":
		r.Store = "of " + o.Server
	default:
		r.Store, r.Strategy = o.storeKind(), o.Strategy
		if o.base != nil {
			r.Nodes = o.Nodes
			r.addResultNote("%s", o.base.About())
		}
	}
	return r, nil
}
