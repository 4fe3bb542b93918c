package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/scheduler"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/sink/broker"
)

// Config is what a node is made of: plain values, checked by Check. The command line fills it; docs/configuration.md says what
// each setting means. Defaults has the values that a node has when nobody says otherwise.
type Config struct {
	Listen     string // address of the API; "" for none, which only Open takes
	Admin      string // address of metrics, health and profiles; "" for none
	Data       string // directory of everything that the node keeps
	Store      string // "" is pebble in Data; pebble:DIR, sqlite:FILE, mem:, or the URL of a PostgreSQL or Redis
	Direct     string // URL of the PostgreSQL itself, where Store leads to a pooler in transaction mode: notifications come from there
	Force      bool   // serve a store whose timers were moved to another
	AcceptLoss bool   // open a store of files that has lost something that it had acknowledged, without what is lost
	Unsafe     bool   // take a store whose settings can lose what it acknowledged
	Index      string // URL of a Redis that has an index of the due times of a store in PostgreSQL; "" is none
	Insecure   bool   // serve anybody who reaches a Listen or an Admin that is not on loopback

	Hosts                 []string // names in the Host headers of clients, in addition to localhost and addresses of loopback; where others reach a listener, none is any
	MaxConnections        int      // to the API at a time
	MaxConnectionsAddress int      // of them from one address
	RequestMemory         int64    // bytes of requests to the API that are being received, decoded and handled

	DaprListen    string // address for Dapr's sidecars; "" for none
	DaprAdvertise string // where sidecars reach this node; "" is where it listens, or an address of the machine if that is every one

	// Who the node is to Dapr's sidecars, and whom it believes: a certificate in files, one that Dapr's Sentry signs, or one of an
	// agent with SPIFFE's Workload API, which has its trust anchors too; without any, anybody may be anybody, in plain text. The files are
	// in PEM, and read again when they change.
	DaprCert             string
	DaprKey              string
	DaprTrustAnchors     string
	DaprSentry           string // HOST:PORT of Sentry
	DaprSentryToken      string // file of the token for Sentry; "" is the pod's with DaprSentryKubernetes, and otherwise none
	DaprSentryKubernetes bool   // that token is one of a service account
	DaprTrustDomain      string // of Dapr's control plane
	DaprNamespace        string // of Dapr's control plane
	DaprWorkloadAPI      string // unix:PATH or tcp://IP:PORT

	DaprConnections int // connections of sidecars at a time, and watches; others are refused

	Reminders          bool          // serve the reminder service with the API
	ReminderBucketSize int           // tokens of a bucket; the first node that makes one decides for that one
	ReminderHeartbeat  time.Duration // how often sidecars and instances say something at least
	ReminderTimeout    time.Duration // for the answer to an execution
	ReminderMetadata   int           // bytes of a reminder's metadata
	ReminderCapacity   float64       // executions a second that are a load factor of 1

	Pools []Pool // of workers, whose requests are timers

	Brokers []broker.Connection // that targets name

	AllowPrivate bool   // callbacks to loopback and private addresses
	SecretFile   string // webhook secrets, one a line, newest first; "" is webhook.secret in Data, and with Open none at all

	Grace           time.Duration  // for deliveries in progress, and for requests, when the node stops
	Ahead           time.Duration  // how far ahead timers are read into memory
	Window          int            // timers in memory
	WindowBytes     int64          // of timers in memory
	MaxDeliveries   int            // deliveries at a time
	HostConcurrency int            // requests at a time to one host
	CatchUpRate     float64        // fires a second to one target that are more than rouse.CatchUpAfter late; 0 is no limit
	Limits          []Limit        // of targets
	Shares          map[string]int // of namespaces, 1 for those that are not named
	HistoryAge      time.Duration  // records are kept so long
	HistoryMax      int64          // and so many of them
	HistoryPerTimer int            // and so many of one timer; 0 is no bound
	DeadPerTimer    int            // and so many of one timer; 0 is no bound
	MaxOverlap      int            // occurrences of one timer that are in progress at a time under overlap "allow"; 0 is no bound
	MinInterval     time.Duration  // timers that come due more often are refused; 0 is a second where Listen can be reached from other machines, else a millisecond
	DeadAge         time.Duration  // dead letters are kept so long; 0 is for ever

	// Of nodes that share a store:
	Node       string        // the node's name, which no other has; "" is made of the machine's name and the API's port
	Advertise  string        // where clients of other nodes reach the API; "" is where it listens, unless that is every address
	Strategy   string        // bucket, lease or tick
	Buckets    int           // that the timers are shared by; every node of a store has the same
	Lease      time.Duration // how long a bucket is a node's that does not renew; others take over then
	Hold       time.Duration // how long a row is hidden from others that a node has taken without owning its bucket
	Poll       time.Duration // how often a node looks for what others wrote, or for rows to hold
	Tick       time.Duration // of the strategy tick
	TickDelay  time.Duration // how far its second clock is behind, which counts what was missed
	ClaimBatch int           // rows in one claim, at most
	Scatter    bool          // timers that come due soon are left to whoever claims them, instead of kept by the node that wrote them
	Claims     []string      // namespaces whose timers this node claims, under lease and tick; none is all
	Roles      []string      // api, scheduler, executor; none is all of them. Without api nobody reaches the node but operators, by Admin

	Leader           string // who elects the node that does the bookkeeping for all: store or kubernetes
	LeaderLease      string // namespace/name of the Lease of Kubernetes
	LeaderKubeconfig string // file that leads to the Kubernetes; "" is the pod's service account

	IndexCriticality int // while the index is away, only timers of at least this criticality fire

	Queue     string // URL of the broker of the queue between schedulers and executors; "" is none: schedulers deliver
	QueueName string

	Version string // shown by the API and in metrics

	Namespace string       // of Open only: that of the node's methods; default "default"
	Log       *slog.Logger // of Open only; default none
	Clock     *Clock       // the store's clock; nil is the machine's

	embedded bool // the node was made by Open
}

// Defaults returns the configuration of a node of which nobody says anything, without addresses and places.
func Defaults() Config {
	return Config{
		Grace: 10 * time.Second, Ahead: 10 * time.Second, Window: 250_000, WindowBytes: 256 << 20, MaxDeliveries: 4096,
		HostConcurrency: 64, CatchUpRate: 200, HistoryAge: 72 * time.Hour, HistoryMax: 10_000_000, HistoryPerTimer: 200,
		DeadPerTimer: 1000, MaxOverlap: 1000,
		DeadAge: 30 * 24 * time.Hour, Namespace: "default", MaxConnections: 2048, MaxConnectionsAddress: 512, RequestMemory: 256 << 20,
		Strategy: "bucket", Buckets: 64, Lease: 10 * time.Second, Hold: 10 * time.Second, Poll: time.Second, Tick: time.Second,
		TickDelay: 10 * time.Minute, ClaimBatch: 4096, Leader: "store", IndexCriticality: 5, QueueName: "rouse",
		ReminderBucketSize: 100_000, ReminderHeartbeat: 2 * time.Second, ReminderTimeout: 30 * time.Second, ReminderMetadata: 128, ReminderCapacity: 10_000,
		DaprTrustDomain: "localhost", DaprNamespace: "default", DaprConnections: scheduler.MaxConns,
	}
}

// Check returns everything that is wrong with the configuration.
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.Listen == "" && (c.embedded || !c.has("api")):
		if c.Admin != "" && c.embedded {
			bad("admin %q has no API beside it: give listen too, or neither", c.Admin)
		}
	case c.embedded && !c.has("api"):
		bad("listen %q is the address of an API, and roles leaves out api: give both, or neither", c.Listen)
	default:
		if err := server.CheckListener("listen", c.Listen, "127.0.0.1:7411", c.Insecure || !c.has("api")); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Admin != "" {
		if err := server.CheckListener("admin", c.Admin, "127.0.0.1:7412, or nothing", c.Insecure); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, c.checkRequests()...)
	if c.Data == "" && !c.embedded {
		bad("data is empty: name a directory")
	}
	if _, _, err := c.store(); err != nil {
		errs = append(errs, err)
	}
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{{"window", int64(c.Window), 1000}, {"window-bytes", c.WindowBytes, 1 << 20}, {"max-deliveries", int64(c.MaxDeliveries), 1},
		{"host-concurrency", int64(c.HostConcurrency), 1}, {"history-max", c.HistoryMax, 0}, {"history-per-timer", int64(c.HistoryPerTimer), 0},
		{"dead-per-timer", int64(c.DeadPerTimer), 0}, {"max-overlap", int64(c.MaxOverlap), 0}, {"min-interval", int64(c.MinInterval), 0}} {
		if n.value < n.least {
			bad("%s is %d: give at least %d", n.name, n.value, n.least)
		}
	}
	if !(c.CatchUpRate >= 0 && c.CatchUpRate <= 1e9) {
		bad("catch-up-rate is %v: give fires a second, or 0 for no limit", c.CatchUpRate)
	}
	const years = 10 * 365 * 24 * time.Hour
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"grace", c.Grace, 0, time.Hour}, {"ahead", c.Ahead, time.Second, time.Hour}, {"history-age", c.HistoryAge, time.Hour, years}} {
		if d.value < d.least || d.value > d.most {
			bad("%s is %v: give %v to %v", d.name, d.value, d.least, d.most)
		}
	}
	if c.DeadAge != 0 && (c.DeadAge < time.Hour || c.DeadAge > years) {
		bad("dead-age is %v: give %v to %v, or 0 for ever", c.DeadAge, time.Hour, years)
	}
	errs = append(errs, c.checkCluster()...)
	errs = append(errs, c.checkLeader()...)
	errs = append(errs, c.checkIndex()...)
	errs = append(errs, c.checkDapr()...)
	errs = append(errs, c.checkQueue()...)
	errs = append(errs, c.checkReminders()...)
	errs = append(errs, c.checkPools()...)
	if err := c.checkBrokers(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.checkShares()...)...)
}

// checkRequests looks at what bounds requests.
func (c *Config) checkRequests() (errs []error) {
	for _, n := range []struct {
		name        string
		value       int64
		least, most int64
	}{{"max-connections", int64(c.MaxConnections), 1, 1 << 20}, {"max-connections-per-address", int64(c.MaxConnectionsAddress), 1, 1 << 20},
		{"request-memory", c.RequestMemory, 16 << 20, 1 << 40}} {
		if n.value < n.least || n.value > n.most {
			errs = append(errs, fmt.Errorf("%s is %d: give %d to %d", n.name, n.value, n.least, n.most))
		}
	}
	return errs
}

// minInterval is the shortest interval of timers, and the beginnings of targets that may have shorter ones: what is not set does not bind
// the jobs of Dapr's sidecars, whose protocol has intervals from a millisecond.
func (c *Config) minInterval() (least time.Duration, but []string) {
	if c.MinInterval == 0 && c.Listen != "" && !server.OnLoopback(c.Listen) {
		return sharedInterval, []string{"dapr:"}
	}
	return c.MinInterval, nil
}

// sharedInterval is the shortest interval of timers where other machines reach the API, unless min-interval is set.
const sharedInterval = time.Second

// checkShares looks at what limits and weighs.
func (c *Config) checkShares() (errs []error) {
	var problems []rouse.Problem
	for i := range c.Limits {
		problems = append(problems, c.Limits[i].check(fmt.Sprintf("limits[%d]", i))...)
	}
	for _, ns := range slices.Sorted(maps.Keys(c.Shares)) {
		if inv, ok := rouse.CheckNamespace(ns).(*rouse.Invalid); ok {
			inv.Problems[0].Field = "shares"
			problems = append(problems, inv.Problems...)
		}
		if n := c.Shares[ns]; n < 1 || n > 1000 {
			problems = append(problems, rouse.Problem{Field: "shares." + ns, Value: strconv.Itoa(n), Wrong: "is out of bounds", Cure: "give 1 to 1000"})
		}
	}
	if c.embedded {
		if inv, ok := rouse.CheckNamespace(c.Namespace).(*rouse.Invalid); ok {
			problems = append(problems, inv.Problems...)
		}
	}
	if len(problems) > 0 {
		errs = append(errs, &rouse.Invalid{Problems: problems})
	}
	return errs
}

// secretFile is where the webhook secrets are; "" if nothing is to be signed.
func (c *Config) secretFile() string {
	if c.SecretFile == "" && c.Data != "" {
		return filepath.Join(c.Data, "webhook.secret")
	}
	return c.SecretFile
}

// listen opens the listeners that there are to be.
func (c *Config) listen() (api, admin net.Listener, err error) {
	if c.Listen != "" && c.has("api") {
		if api, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, nil, fmt.Errorf("listen for the API: %w", err)
		}
	}
	if c.Admin == "" {
		return api, nil, nil
	}
	if admin, err = net.Listen("tcp", c.Admin); err != nil {
		err = fmt.Errorf("listen for metrics and health: %w", err)
		if api != nil {
			err = errors.Join(err, api.Close())
		}
		return nil, nil, err
	}
	return api, admin, nil
}
