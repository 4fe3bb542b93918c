package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/listen"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/setting"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/broker"
)

// Config is the configuration of a node, checked by Check. The tags have the name, the default and the
// meaning of each setting: flags, variables, the file, "rouse config", the tables of docs/configuration.md
// and Defaults are made from them. That page describes each.
type Config struct {
	Listen                string        `name:"listen" default:"127.0.0.1:7411" placeholder:"HOST:PORT" help:"Address of the API, gRPC and HTTP on one port."`
	Admin                 string        `name:"admin" default:"127.0.0.1:7412" placeholder:"HOST:PORT" help:"Address of metrics, health and profiles; empty for none."`
	DaprListen            string        `name:"dapr-listen" default:"" placeholder:"HOST:PORT" help:"Address of the scheduler service for Dapr's sidecars; empty for none."`
	DaprAdvertise         string        `name:"dapr-advertise" default:"" placeholder:"HOST:PORT" help:"Address at which Dapr's sidecars reach this node; empty is the address that it listens on."`
	DaprSentry            string        `name:"dapr-sentry" default:"" placeholder:"HOST:PORT" help:"Address of Dapr's Sentry, which signs this node's certificate for sidecars; empty is none."`
	DaprSentryToken       string        `name:"dapr-sentry-token" default:"" placeholder:"FILE" help:"File with this node's token for Sentry; empty is the pod's token with dapr-sentry-kubernetes, else none."`
	DaprSentryKubernetes  bool          `name:"dapr-sentry-kubernetes" default:"false" help:"The token for Sentry is of a Kubernetes service account."`
	DaprTrustDomain       string        `name:"dapr-trust-domain" default:"localhost" placeholder:"NAME" help:"Trust domain of Dapr's control plane."`
	DaprNamespace         string        `name:"dapr-namespace" default:"default" placeholder:"NAME" help:"Namespace of Dapr's control plane."`
	DaprTrustAnchors      string        `name:"dapr-trust-anchors" default:"" placeholder:"FILE" help:"Trust anchors for the certificates of sidecars and Sentry, in PEM."`
	DaprCert              string        `name:"dapr-cert" default:"" placeholder:"FILE" help:"Certificate of this node for sidecars, in PEM, instead of one from Sentry."`
	DaprKey               string        `name:"dapr-key" default:"" placeholder:"FILE" help:"Key of that certificate."`
	DaprWorkloadAPI       string        `name:"dapr-workload-api" default:"" placeholder:"ADDRESS" help:"SPIFFE's Workload API, such as unix:/run/spire/agent.sock, which provides certificate, key and trust anchors."`
	DaprConnections       int           `name:"dapr-connections" default:"65536" placeholder:"N" help:"Maximum number of concurrent connections of Dapr's sidecars, and of watches; a sidecar has five."`
	Reminders             bool          `name:"reminders" default:"false" help:"Serve the reminder service, for sidecars, with the API."`
	ReminderBucketSize    int           `name:"reminder-bucket-size" default:"100000" placeholder:"N" help:"Number of tokens in a bucket of the reminder service."`
	ReminderHeartbeat     time.Duration `name:"reminder-heartbeat" default:"2s" placeholder:"DURATION" help:"Longest interval between messages of the reminder service and a sidecar."`
	ReminderTimeout       time.Duration `name:"reminder-timeout" default:"30s" placeholder:"DURATION" help:"How long a sidecar may take to answer an execution before it is retried."`
	ReminderMetadata      int           `name:"reminder-metadata" default:"128" placeholder:"BYTES" help:"Maximum size of a reminder's metadata."`
	ReminderCapacity      float64       `name:"reminder-capacity" default:"10000" placeholder:"N" help:"Executions per second at a load factor of 1."`
	Data                  string        `name:"data" default:"./rouse-data" placeholder:"DIR" help:"Directory for the server's data."`
	Store                 string        `name:"store" default:"" placeholder:"URL" help:"Store of the timers: pebble:DIR, sqlite:FILE or mem:; or the URL of a PostgreSQL or Redis that nodes share; empty is pebble in the data directory."`
	Direct                string        `name:"store-direct" default:"" placeholder:"URL" help:"URL of the PostgreSQL itself, for notifications, if the store's URL is of a pooler in transaction mode."`
	Unsafe                bool          `name:"unsafe-store" default:"false" help:"Allow a store whose settings can lose acknowledged timers, such as a Redis without an append-only file."`
	Insecure              Listeners     `name:"insecure" default:"false" placeholder:"LISTENERS" help:"Listeners that other machines may reach without TLS or authentication, of api, admin, dapr and nodes; true is all."`
	TLSCert               string        `name:"tls-cert" default:"" placeholder:"FILE" help:"Certificate of this node, in PEM, for the API, the admin port and other nodes; empty is no TLS."`
	TLSKey                string        `name:"tls-key" default:"" placeholder:"FILE" help:"Key of that certificate."`
	TLSClientCA           string        `name:"tls-client-ca" default:"" placeholder:"FILE" help:"Authorities of the certificates of clients and other nodes, in PEM; empty is none."`
	NodesListen           string        `name:"nodes-listen" default:"" placeholder:"HOST:PORT" help:"Address at which other nodes of the store call this one, for the reminder service; empty is the host of listen, with a free port."`
	NodesAdvertise        string        `name:"nodes-advertise" default:"" placeholder:"HOST:PORT" help:"Address at which other nodes reach nodes-listen; empty is its own, with the host of advertise."`
	NodeNames             Names         `name:"node-names" default:"" placeholder:"NAMES" help:"Names in the certificates of nodes, such as *.rouse.internal; empty is those in tls-cert."`
	Access                string        `name:"access" default:"" placeholder:"KIND" help:"Access control: keys, for callers with API keys and those of principals, or off; empty is keys if admin-key-file or principals is set, else off."`
	AdminKeyFile          string        `name:"admin-key-file" default:"" placeholder:"FILE" help:"File with a key that may do everything, to create the first keys with; rouse key generate makes one."`
	Principals            string        `name:"principals" default:"" placeholder:"FILE" help:"YAML file with rules that give roles to callers with client certificates or signed tokens; empty is none."`
	AuditLog              Names         `name:"audit-log" default:"" placeholder:"PLACES" help:"Where the audit log is written: paths of files, stdout, and store for the store alone; empty is no audit log."`
	AuditRetention        time.Duration `name:"audit-retention" default:"720h" placeholder:"DURATION" help:"How long events of the audit log are kept in the store, for rouse audit; 0 is not at all."`
	AuditFull             string        `name:"audit-full" default:"refuse" placeholder:"RULE" help:"While events cannot be written: refuse calls that need one, or drop events."`
	AuditReads            bool          `name:"audit-reads" default:"false" help:"Log reads, too, that show payloads, headers or answers."`
	AuditFileSize         Bytes         `name:"audit-file-size" default:"64MiB" placeholder:"SIZE" help:"Maximum size of a file of the audit log, before the next one is begun."`
	AuditFiles            int           `name:"audit-files" default:"10" placeholder:"N" help:"Number of files of the audit log that are kept, for each path."`
	Hosts                 Names         `name:"hosts" default:"" placeholder:"NAMES" help:"Allowed names in the Host header of HTTP requests, in addition to localhost and loopback addresses; empty allows any on listeners that are not on loopback."`
	MaxConnections        int           `name:"max-connections" default:"2048" placeholder:"N" help:"Maximum number of concurrent connections to the API."`
	MaxConnectionsAddress int           `name:"max-connections-per-address" default:"512" placeholder:"N" help:"Maximum number of concurrent connections to the API from one address."`
	RequestMemory         Bytes         `name:"request-memory" default:"256MiB" placeholder:"SIZE" help:"Maximum memory of requests to the API in progress."`
	Console               bool          `name:"console" default:"true" help:"Serve the web console at / of the API."`
	AllowPrivate          bool          `name:"allow-private-targets" default:"false" help:"Deliver callbacks to loopback and private addresses."`
	SecretFile            string        `name:"webhook-secret-file" default:"" placeholder:"FILE" help:"Secrets that sign the callbacks of all namespaces in addition to the namespace's keys, one per line, newest first; empty is webhook.secret in the data directory if it exists; none is none."`
	Signatures            Names         `name:"webhook-signatures" default:"v1" placeholder:"SCHEMES" help:"Schemes of the signatures of callbacks: v1 (HMAC) and v1a (ed25519)."`
	SecretKeys            string        `name:"secret-keys" default:"" placeholder:"SOURCE" help:"Keys that seal secrets in the store: file:PATH, env:VARIABLE or exec:COMMAND; empty is secrets.keys in the data directory."`
	Egress                string        `name:"egress" default:"" placeholder:"RULES" help:"Rules for where callbacks may go, such as 'allow namespace=acme host=*.example.com port=443; deny namespace=acme'; the first that applies decides."`
	EgressProxy           string        `name:"egress-proxy" default:"" placeholder:"URL" help:"HTTP proxy that opens the connections of callbacks, by CONNECT; empty is none."`
	DropHeaders           Names         `name:"drop-headers" default:"" placeholder:"NAMES" help:"Headers of timers that are not sent with callbacks; a name that ends with * is all that begin so."`
	Grace                 time.Duration `name:"grace" default:"10s" placeholder:"DURATION" help:"How long deliveries in progress may take to end when the server stops."`
	Ahead                 time.Duration `name:"ahead" default:"10s" placeholder:"DURATION" help:"How long before they are due timers are read into memory."`
	Window                int           `name:"window" default:"250000" placeholder:"N" help:"Maximum number of timers in memory."`
	WindowBytes           Bytes         `name:"window-bytes" default:"256MiB" placeholder:"SIZE" help:"Maximum size of timers in memory."`
	SettleWait            time.Duration `name:"settle-wait" default:"5ms" placeholder:"DURATION" help:"How long the ends of fires may wait to be written together; 0 is not at all."`
	MaxDeliveries         int           `name:"max-deliveries" default:"4096" placeholder:"N" help:"Maximum number of concurrent deliveries."`
	DeliveryReserve       int           `name:"delivery-reserve" default:"20" placeholder:"PERCENT" help:"Part of max-deliveries that one namespace leaves free for others."`
	HostConcurrency       int           `name:"host-concurrency" default:"64" placeholder:"N" help:"Maximum number of concurrent callbacks to one host."`
	AddressConcurrency    int           `name:"address-concurrency" default:"1024" placeholder:"N" help:"Maximum number of concurrent callbacks of one namespace to one IP address, whatever its names."`
	Circuits              Circuits      `name:"circuits" default:"" placeholder:"CIRCUITS" help:"Circuits of callbacks to addresses that keep failing, such as '* open=5s; https://api.example.com/ share=0.8 window=1m; https://old.example.com/ off'."`
	CatchUpRate           float64       `name:"catch-up-rate" default:"200" placeholder:"N" help:"Fires per second to one target that are more than a minute late; 0 is unlimited."`
	Limits                Limits        `name:"limits" default:"" placeholder:"LIMITS" help:"Limits of targets, such as 'https://api.example.com/ rate=10 concurrency=4; stream:mail rate=100'."`
	Shares                Shares        `name:"shares" default:"" placeholder:"SHARES" help:"Shares of namespaces, such as 'acme=4, batch=1'; the others have 1."`
	HistoryAge            time.Duration `name:"history-age" default:"72h" placeholder:"DURATION" help:"How long records of ended occurrences are kept."`
	HistoryMax            int64         `name:"history-max" default:"10000000" placeholder:"N" help:"Maximum number of records."`
	HistoryPerTimer       int           `name:"history-per-timer" default:"200" placeholder:"N" help:"Maximum number of records of one timer; 0 is unlimited."`
	DeadPerTimer          int           `name:"dead-per-timer" default:"1000" placeholder:"N" help:"Maximum number of dead letters of one timer, the newest; 0 is unlimited."`
	NoticesPerTimer       int           `name:"notices-per-timer" default:"1000" placeholder:"N" help:"Maximum number of notices and callbacks of one timer that wait for their targets; 0 is unlimited."`
	MaxOverlap            int           `name:"max-overlap" default:"1000" placeholder:"N" help:"Maximum number of concurrent occurrences of one timer with overlap allow; 0 is unlimited."`
	MinInterval           time.Duration `name:"min-interval" default:"0s" placeholder:"DURATION" help:"Timers that are due more often are refused; 0 is 1s if other machines can reach listen, else 1ms."`
	MaxTimeout            time.Duration `name:"max-timeout" default:"0s" placeholder:"DURATION" help:"Timers whose attempts may take longer are refused, in namespaces without the quota max_timeout; 0 is 10m with access control, else 1h."`
	DeadAge               time.Duration `name:"dead-age" default:"720h" placeholder:"DURATION" help:"How long dead letters are kept; 0 is forever."`
	Node                  string        `name:"node" default:"" placeholder:"NAME" help:"Unique name of this node in its store; empty is the machine's name with the API's port."`
	Advertise             string        `name:"advertise" default:"" placeholder:"HOST:PORT" help:"Address at which clients reach this node's API; empty is the address that it listens on."`
	Heartbeat             string        `name:"heartbeat" default:"" placeholder:"URL" help:"URL that gets a POST again and again while this node fires on time; empty is none."`
	HeartbeatInterval     time.Duration `name:"heartbeat-interval" default:"1m" placeholder:"DURATION" help:"How often."`
	Canary                time.Duration `name:"canary" default:"0s" placeholder:"DURATION" help:"Interval of a timer that fires through the whole path, for the metric rouse_canary_age_seconds; 0 is none."`
	Strategy              string        `name:"strategy" default:"bucket" placeholder:"NAME" help:"How nodes share the timers: bucket, lease or tick."`
	Buckets               int           `name:"buckets" default:"64" placeholder:"N" help:"Number of buckets of a shared store; its first node decides."`
	Lease                 time.Duration `name:"lease" default:"10s" placeholder:"DURATION" help:"Duration of a node's leases without a renewal; then other nodes take over."`
	Hold                  time.Duration `name:"hold" default:"10s" placeholder:"DURATION" help:"How long a timer that a node has claimed without owning its bucket is hidden from other nodes."`
	Poll                  time.Duration `name:"poll" default:"1s" placeholder:"DURATION" help:"Interval at which a node checks for timers that others wrote, or that it can claim."`
	Tick                  time.Duration `name:"tick" default:"1s" placeholder:"DURATION" help:"Interval of the clock of the strategy tick."`
	TickDelay             time.Duration `name:"tick-delay" default:"10m" placeholder:"DURATION" help:"Delay of the second clock of the strategy tick, which counts missed timers."`
	ClaimBatch            int           `name:"claim-batch" default:"4096" placeholder:"N" help:"Maximum number of timers in one claim."`
	Scatter               bool          `name:"scatter" default:"false" help:"Leave timers that are due soon to any node that claims them, instead of the node that wrote them."`
	Claims                Names         `name:"claims" default:"" placeholder:"NAMESPACES" help:"Namespaces whose timers this node claims, with lease and tick; empty is all."`
	Roles                 Names         `name:"roles" default:"" placeholder:"ROLES" help:"Roles of this node, of api, scheduler and executor; empty is all. Clients can reach it only with api. The role pools alone manages pools of workers at brokers, without a store."`
	Leader                string        `name:"leader" default:"store" placeholder:"NAME" help:"How nodes elect the leader, which does the bookkeeping for all: store or kubernetes."`
	LeaderLease           string        `name:"leader-lease" default:"" placeholder:"NAMESPACE/NAME" help:"Kubernetes Lease for the election of the leader."`
	LeaderKubeconfig      string        `name:"leader-kubeconfig" default:"" placeholder:"FILE" help:"Kubeconfig file for that Kubernetes; empty is the service account of the pod."`
	Index                 string        `name:"index" default:"" placeholder:"URL" help:"Redis with an index of the due times of a store in PostgreSQL; empty is none."`
	IndexCriticality      int           `name:"index-criticality" default:"5" placeholder:"N" help:"While that index is away, only timers of at least this criticality fire, 0 to 9."`
	Queue                 string        `name:"queue" default:"" placeholder:"URL" help:"Broker of a queue between schedulers and executors: amqp://, nats:// or redis://; empty is none."`
	QueueName             string        `name:"queue-name" default:"rouse" placeholder:"NAME" help:"Name of that queue at its broker."`

	// The fields below are no settings of the command line: the program sets them.

	Pools   []pool.Setup        `kong:"-"` // of workers, whose requests are timers
	Brokers []broker.Connection `kong:"-"` // that targets name
	// serve a store whose timers were moved to another, or whose sealing keys are lost
	Force bool `kong:"-"`
	// open a store of files that has lost something that it had acknowledged, without what is lost
	AcceptLoss bool   `kong:"-"`
	Version    string `kong:"-"` // shown by the API and in metrics

	Sinks map[string]rouse.Sink `kong:"-"` // of the program, by the schemes of their targets
	Given rouse.Store           `kong:"-"` // the store as a value, in place of Store; the node closes it

	Namespace string       `kong:"-"` // of Open only: that of the node's methods; default "default"
	Log       *slog.Logger `kong:"-"` // of Open only; default none
	Clock     *Clock       `kong:"-"` // the store's clock; nil is the machine's

	embedded bool          // the node was made by Open
	resolver *net.Resolver // of the names of callbacks, in tests; nil: the machine's
}

// Defaults returns the configuration of a node to which nothing else is given, without addresses and places.
func Defaults() Config {
	c := Config{Namespace: "default"}
	for _, s := range setting.Of(&c) {
		if err := s.Parse(s.Default); err != nil {
			panic(err) // a tag above is wrong
		}
	}
	c.Listen, c.Admin, c.Data = "", "", ""
	return c
}

// Check returns everything that is wrong with the configuration.
func (c *Config) Check() error {
	var bad rouse.Invalid
	switch {
	case c.PoolsOnly():
	case c.Listen == "" && (c.embedded || !c.Has("api")):
		if c.Admin != "" && c.embedded {
			bad.Wrong("admin", "%q has no API next to it: give listen too, or neither", c.Admin)
		}
	case c.embedded && !c.Has("api"):
		bad.Wrong("listen", "%q is the address of an API, and roles leaves out api: give both, or neither", c.Listen)
	default:
		if err := c.listenRule().Check("api", "listen", c.Listen, "127.0.0.1:7411"); err != nil &&
			(c.Has("api") || !isAddress(c.Listen)) {
			bad.Add(err)
		}
	}
	if c.Admin != "" {
		bad.Add(c.listenRule().Check("admin", "admin", c.Admin, "127.0.0.1:7412, or nothing"))
	}
	bad.Add(c.checkTLS())
	bad.Add(c.checkNodes())
	bad.Add(c.checkAudit())
	if c.PoolsOnly() {
		bad.Add(c.checkParts())
		return bad.Err()
	}
	if c.Data == "" && !c.embedded {
		bad.Wrong("data", "is empty: name a directory")
	}
	bad.Add(c.checkStore())
	bad.Add(c.checkCallbacks())
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{{"window", int64(c.Window), 1000}, {"window-bytes", int64(c.WindowBytes), 1 << 20},
		{"max-deliveries", int64(c.MaxDeliveries), 1},
		{"host-concurrency", int64(c.HostConcurrency), 1}, {"address-concurrency", int64(c.AddressConcurrency), 1},
		{"history-max", c.HistoryMax, 0}, {"history-per-timer", int64(c.HistoryPerTimer), 0},
		{"dead-per-timer", int64(c.DeadPerTimer), 0}, {"max-overlap", int64(c.MaxOverlap), 0},
		{"notices-per-timer", int64(c.NoticesPerTimer), 0},
		{"min-interval", int64(c.MinInterval), 0}} {
		if n.value < n.least {
			bad.Wrong(n.name, "is %d: give at least %d", n.value, n.least)
		}
	}
	if !(c.CatchUpRate >= 0 && c.CatchUpRate <= 1e9) {
		bad.Wrong("catch-up-rate", "is %v: give fires a second, or 0 for no limit", c.CatchUpRate)
	}
	const years = 10 * 365 * 24 * time.Hour
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"grace", c.Grace, 0, time.Hour}, {"ahead", c.Ahead, time.Second, time.Hour},
		{"history-age", c.HistoryAge, time.Hour, years},
		{"settle-wait", c.SettleWait, 0, time.Second}} {
		if d.value < d.least || d.value > d.most {
			bad.Wrong(d.name, "is %v: give %v to %v", d.value, d.least, d.most)
		}
	}
	if c.DeliveryReserve < 0 || c.DeliveryReserve > 90 {
		bad.Wrong("delivery-reserve", "is %d: give 0 to 90 percent", c.DeliveryReserve)
	}
	if c.MaxTimeout != 0 && (c.MaxTimeout < time.Second || c.MaxTimeout > time.Hour) {
		bad.Wrong("max-timeout", "is %v: give %v to %v, or 0 for the default", c.MaxTimeout, time.Second, time.Hour)
	}
	if c.DeadAge != 0 && (c.DeadAge < time.Hour || c.DeadAge > years) {
		bad.Wrong("dead-age", "is %v: give %v to %v, or 0 for ever", c.DeadAge, time.Hour, years)
	}
	bad.Add(c.checkCluster())
	bad.Add(c.checkLeader())
	bad.Add(c.checkIndex())
	bad.Add(c.checkQueue())
	bad.Add(c.checkAccess())
	bad.Add(c.checkSigns())
	bad.Add(c.checkParts())
	bad.Add(c.checkSinks())
	bad.Add(c.checkBrokers())
	bad.Add(c.checkShares())
	bad.Add(c.checkCircuits())
	return bad.Err()
}

// checkSinks checks the schemes of the program's own sinks.
func (c *Config) checkSinks() error {
	var bad rouse.Invalid
	own := append([]string{"http", "https", "func", "canary"}, broker.Schemes()...)
	for _, o := range optional {
		own = append(own, o.scheme)
	}
	for _, scheme := range slices.Sorted(maps.Keys(c.Sinks)) {
		switch {
		case !sink.IsScheme(scheme):
			bad.Wrong("sinks", "%q is no scheme: give lower-case letters, digits, '+', '-' and '.', a letter first", scheme)
		case slices.Contains(own, scheme):
			bad.Wrong("sinks", "%q is a scheme of rouse's own: give another one", scheme)
		case c.Sinks[scheme] == nil:
			bad.Wrong("sinks", "%q has no sink: give one", scheme)
		}
	}
	return bad.Err()
}

// minInterval is the shortest interval of timers, and the beginnings of targets that may have shorter ones:
// a default does not bind the jobs of Dapr's sidecars, whose protocol has intervals from a millisecond.
func (c *Config) minInterval() (least time.Duration, but []string) {
	if c.MinInterval == 0 && c.Listen != "" && !listen.OnLoopback(c.Listen) {
		return sharedInterval, []string{"dapr:"}
	}
	return c.MinInterval, nil
}

// maxTimeout is the longest timeout of attempts in namespaces without a quota of it; 0 is any.
func (c *Config) maxTimeout() time.Duration {
	if c.MaxTimeout == 0 && c.AccessOn() {
		return sharedTimeout
	}
	return c.MaxTimeout
}

// sharedTimeout is the longest timeout of attempts with access control, unless max-timeout is set.
const sharedTimeout = 10 * time.Minute

// sharedInterval is the shortest interval of timers where other machines reach the API, unless min-interval
// is set.
const sharedInterval = time.Second

// checkShares checks the limits and the shares.
func (c *Config) checkShares() error {
	var bad rouse.Invalid
	for i := range c.Limits {
		bad.Add(rouse.Under(fmt.Sprintf("limits[%d]", i), c.Limits[i].checkLimit()))
	}
	for _, ns := range slices.Sorted(maps.Keys(c.Shares)) {
		if inv, ok := rouse.CheckNamespace(ns).(*rouse.Invalid); ok {
			inv.Problems[0].Field = "shares"
			bad.Add(inv)
		}
		if n := c.Shares[ns]; n < 1 || n > 1000 {
			bad.Add(rouse.Refuse("shares."+ns, strconv.Itoa(n), "is out of bounds", "give 1 to 1000"))
		}
	}
	if c.embedded {
		bad.Add(rouse.CheckNamespace(c.Namespace))
	}
	return bad.Err()
}

// openListeners opens the listeners that there are to be.
func (c *Config) openListeners() (api, admin net.Listener, err error) {
	if c.Listen != "" && c.Has("api") {
		if api, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, nil, fmt.Errorf("listen for the API: %w", otherAddress("listen", err))
		}
	}
	if c.Admin == "" {
		return api, nil, nil
	}
	if admin, err = net.Listen("tcp", c.Admin); err != nil {
		err = fmt.Errorf("listen for metrics and health: %w", otherAddress("admin", err))
		if api != nil {
			err = errors.Join(err, api.Close())
		}
		return nil, nil, err
	}
	return api, admin, nil
}

// otherAddress adds the cure to the error of an address that is in use.
func otherAddress(setting string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; stop the server that listens there, or give another address with %s", err, setting)
	}
	return err
}
