package main

import (
	"encoding"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
)

// Config is everything that can be set of a server: its flags, the keys of its file, and, as ROUSE_ and the name in capitals,
// its variables. The tags have each setting's name, default and meaning; docs/configuration.md tells more, and a test
// compares the two.
type Config struct {
	Listen                   string        `name:"listen" default:"127.0.0.1:7411" placeholder:"HOST:PORT" help:"Address of the API, gRPC and HTTP on one port."`
	Admin                    string        `name:"admin" default:"127.0.0.1:7412" placeholder:"HOST:PORT" help:"Address of metrics, health and profiles; empty for none."`
	DaprListen               string        `name:"dapr-listen" default:"" placeholder:"HOST:PORT" help:"Address for Dapr's sidecars, whose scheduler service this server then is; empty for none."`
	DaprAdvertise            string        `name:"dapr-advertise" default:"" placeholder:"HOST:PORT" help:"Where Dapr's sidecars reach this node; empty is where it listens for them."`
	DaprSentry               string        `name:"dapr-sentry" default:"" placeholder:"HOST:PORT" help:"Dapr's Sentry, which signs the certificate by which sidecars know this node; empty is none."`
	DaprSentryToken          string        `name:"dapr-sentry-token" default:"" placeholder:"FILE" help:"Token that proves to Sentry who this node is; empty is that of the pod with dapr-sentry-kubernetes, else none."`
	DaprSentryKube           bool          `name:"dapr-sentry-kubernetes" default:"false" help:"The token for Sentry is that of a service account of Kubernetes."`
	DaprTrustDomain          string        `name:"dapr-trust-domain" default:"localhost" placeholder:"NAME" help:"Trust domain of Dapr's control plane."`
	DaprNamespace            string        `name:"dapr-namespace" default:"default" placeholder:"NAME" help:"Namespace of Dapr's control plane."`
	DaprTrustAnchors         string        `name:"dapr-trust-anchors" default:"" placeholder:"FILE" help:"Trust anchors by which sidecars, and Sentry, are believed, in PEM."`
	DaprCert                 string        `name:"dapr-cert" default:"" placeholder:"FILE" help:"Certificate by which sidecars know this node, in PEM, in place of one from Sentry."`
	DaprKey                  string        `name:"dapr-key" default:"" placeholder:"FILE" help:"Key of that certificate."`
	DaprWorkloadAPI          string        `name:"dapr-workload-api" default:"" placeholder:"ADDRESS" help:"SPIFFE's Workload API, such as unix:/run/spire/agent.sock, which gives certificate, key and trust anchors."`
	DaprConnections          int           `name:"dapr-connections" default:"65536" placeholder:"N" help:"Connections of Dapr's sidecars at a time, and watches, at most; a sidecar has five."`
	Reminders                bool          `name:"reminders" default:"false" help:"Serve the reminder service, for sidecars, with the API."`
	ReminderBucketSize       int           `name:"reminder-bucket-size" default:"100000" placeholder:"N" help:"Tokens of a bucket of the reminder service."`
	ReminderHeartbeat        time.Duration `name:"reminder-heartbeat" default:"2s" placeholder:"DURATION" help:"How often sidecars of the reminder service, and its instances, say something at least."`
	ReminderTimeout          time.Duration `name:"reminder-timeout" default:"30s" placeholder:"DURATION" help:"How long a sidecar may take to answer an execution before it is tried again."`
	ReminderMetadata         int           `name:"reminder-metadata" default:"128" placeholder:"BYTES" help:"Metadata of a reminder, at most."`
	ReminderCapacity         float64       `name:"reminder-capacity" default:"10000" placeholder:"N" help:"Executions a second that are a load factor of 1."`
	Data                     string        `name:"data" default:"./rouse-data" placeholder:"DIR" help:"Directory of everything that the server keeps."`
	Store                    string        `name:"store" default:"" placeholder:"URL" help:"Where timers are kept: pebble:DIR, sqlite:FILE or mem:; or the URL of a PostgreSQL or Redis that nodes share; empty is pebble in the data directory."`
	StoreDirect              string        `name:"store-direct" default:"" placeholder:"URL" help:"URL of the PostgreSQL itself, where the store's leads to a pooler in transaction mode: notifications come from there."`
	UnsafeStore              bool          `name:"unsafe-store" default:"false" help:"Take a store whose settings can lose timers that were acknowledged, such as a Redis without an append-only file."`
	Insecure                 bool          `name:"insecure" default:"false" help:"Serve anybody who can reach an address that is not on loopback, of the API or of the admin port."`
	Hosts                    nameList      `name:"hosts" default:"" placeholder:"NAMES" help:"Names by which clients reach the HTTP listeners, in addition to localhost and addresses of loopback; empty, where others reach a listener, is any."`
	MaxConnections           int           `name:"max-connections" default:"2048" placeholder:"N" help:"Connections to the API at a time, at most."`
	MaxConnectionsPerAddress int           `name:"max-connections-per-address" default:"512" placeholder:"N" help:"Connections to the API from one address at a time, at most."`
	RequestMemory            byteSize      `name:"request-memory" default:"256MiB" placeholder:"SIZE" help:"Bytes of requests to the API that are being received, decoded and handled, at most."`
	AllowPrivateTargets      bool          `name:"allow-private-targets" default:"false" help:"Deliver callbacks to loopback and private addresses."`
	WebhookSecretFile        string        `name:"webhook-secret-file" default:"" placeholder:"FILE" help:"Secrets that sign callbacks, one a line, newest first; empty is webhook.secret in the data directory."`
	Grace                    time.Duration `name:"grace" default:"10s" placeholder:"DURATION" help:"How long deliveries in progress may take to end when the server stops."`
	Ahead                    time.Duration `name:"ahead" default:"10s" placeholder:"DURATION" help:"How far ahead of their time timers are read into memory."`
	Window                   int           `name:"window" default:"250000" placeholder:"N" help:"Timers in memory, at most."`
	WindowBytes              byteSize      `name:"window-bytes" default:"256MiB" placeholder:"SIZE" help:"Bytes of timers in memory, at most."`
	MaxDeliveries            int           `name:"max-deliveries" default:"4096" placeholder:"N" help:"Deliveries at a time, at most."`
	HostConcurrency          int           `name:"host-concurrency" default:"64" placeholder:"N" help:"Callbacks at a time to one host, at most."`
	CatchUpRate              float64       `name:"catch-up-rate" default:"200" placeholder:"N" help:"Fires a second to one target that are more than a minute late; 0 is no limit."`
	Limits                   limitList     `name:"limits" default:"" placeholder:"LIMITS" help:"Limits of targets, such as 'https://api.example.com/ rate=10 concurrency=4; stream:mail rate=100'."`
	Shares                   shareList     `name:"shares" default:"" placeholder:"SHARES" help:"Shares of namespaces, such as 'acme=4, batch=1'; those that are not named have 1."`
	HistoryAge               time.Duration `name:"history-age" default:"72h" placeholder:"DURATION" help:"How long records of ended occurrences are kept."`
	HistoryMax               int64         `name:"history-max" default:"10000000" placeholder:"N" help:"Records that are kept, at most."`
	HistoryPerTimer          int           `name:"history-per-timer" default:"200" placeholder:"N" help:"Records of one timer that are kept, at most; 0 is no bound."`
	DeadPerTimer             int           `name:"dead-per-timer" default:"1000" placeholder:"N" help:"Dead letters of one timer that are kept, the newest; 0 is no bound."`
	MaxOverlap               int           `name:"max-overlap" default:"1000" placeholder:"N" help:"Occurrences of one timer in progress at a time under overlap allow; 0 is no bound."`
	MinInterval              time.Duration `name:"min-interval" default:"0s" placeholder:"DURATION" help:"Timers that come due more often are refused; 0 is 1s where listen can be reached from other machines, else 1ms."`
	DeadAge                  time.Duration `name:"dead-age" default:"720h" placeholder:"DURATION" help:"How long dead letters are kept; 0 is for ever."`
	Node                     string        `name:"node" default:"" placeholder:"NAME" help:"Name of this node among those of its store; empty is made of the machine's name and the API's port."`
	Advertise                string        `name:"advertise" default:"" placeholder:"HOST:PORT" help:"Where clients that know another node reach this one's API; empty is where it listens."`
	Preset                   string        `name:"preset" default:"" placeholder:"NAME" help:"Values for settings that nothing else gives: demo-lease; empty is none."`
	Strategy                 string        `name:"strategy" default:"bucket" placeholder:"NAME" help:"How nodes share the timers: bucket, lease or tick."`
	Buckets                  int           `name:"buckets" default:"64" placeholder:"N" help:"How many buckets the timers of a shared store are in; its first node decides."`
	Lease                    time.Duration `name:"lease" default:"10s" placeholder:"DURATION" help:"How long a node's buckets are its own without a renewal; then others take over."`
	Hold                     time.Duration `name:"hold" default:"10s" placeholder:"DURATION" help:"How long a timer is hidden from other nodes that a node has taken without owning its bucket."`
	Poll                     time.Duration `name:"poll" default:"1s" placeholder:"DURATION" help:"How often a node looks for what others wrote, or for timers to take."`
	Tick                     time.Duration `name:"tick" default:"1s" placeholder:"DURATION" help:"How often the clock of the strategy tick is advanced."`
	TickDelay                time.Duration `name:"tick-delay" default:"10m" placeholder:"DURATION" help:"How far the second clock of the strategy tick is behind, which counts what was missed."`
	ClaimBatch               int           `name:"claim-batch" default:"4096" placeholder:"N" help:"Timers in one claim, at most."`
	Scatter                  bool          `name:"scatter" default:"false" help:"Leave timers that come due soon to whichever node claims them, instead of the one that wrote them."`
	Claims                   nameList      `name:"claims" default:"" placeholder:"NAMESPACES" help:"Namespaces whose timers this node takes, under lease and tick; empty is all."`
	Roles                    nameList      `name:"roles" default:"" placeholder:"ROLES" help:"What this node does, of api, scheduler and executor; empty is everything. Without api no client reaches it."`
	Leader                   string        `name:"leader" default:"store" placeholder:"NAME" help:"Who elects the node that does the bookkeeping for all: store or kubernetes."`
	LeaderLease              string        `name:"leader-lease" default:"" placeholder:"NAMESPACE/NAME" help:"Lease of Kubernetes by which the leader is elected."`
	LeaderKubeconfig         string        `name:"leader-kubeconfig" default:"" placeholder:"FILE" help:"File that leads to that Kubernetes; empty is the service account of the pod."`
	Index                    string        `name:"index" default:"" placeholder:"URL" help:"Redis with an index of the due times of a store in PostgreSQL; empty is none."`
	IndexCriticality         int           `name:"index-criticality" default:"5" placeholder:"N" help:"While that index is away, only timers of at least this criticality fire, 0 to 9."`
	Queue                    string        `name:"queue" default:"" placeholder:"URL" help:"Broker of a queue between schedulers and executors: amqp://, nats:// or redis://; empty is none."`
	Pools                    string        `name:"pools" default:"" placeholder:"FILE" help:"YAML file that describes the pools of workers of this node; empty is none."`
	Brokers                  string        `name:"brokers" default:"" placeholder:"FILE" help:"YAML file that describes the connections to RabbitMQ, NATS and Redis that targets name; empty is none."`
	QueueName                string        `name:"queue-name" default:"rouse" placeholder:"NAME" help:"Name of that queue at its broker."`
	LogLevel                 string        `name:"log-level" default:"info" placeholder:"LEVEL" help:"What is logged: debug, info, warn or error."`
	LogFormat                string        `name:"log-format" default:"text" placeholder:"FORMAT" help:"How it is logged, on stderr: text or json."`
}

// envName is the variable of a setting.
func envName(setting string) string {
	return "ROUSE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// setting is one field of a Config.
type setting struct {
	name  string
	def   string // the default as text
	help  string
	value reflect.Value
}

// settings returns the fields of c, which can be set through them.
func (c *Config) settings() []setting {
	v := reflect.ValueOf(c).Elem()
	var list []setting
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		list = append(list, setting{tag.Get("name"), tag.Get("default"), tag.Get("help"), v.Field(i)})
	}
	return list
}

// kind says what a setting's value is, for errors.
func (s setting) kind() string {
	switch s.value.Interface().(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case time.Duration:
		return "a duration such as 10s or 72h"
	case byteSize:
		return "a size such as 64MiB"
	case float64:
		return "a number"
	case limitList:
		return "limits such as 'https://api.example.com/ rate=10 concurrency=4'"
	case nameList:
		return "names with commas between"
	case shareList:
		return "shares such as 'acme=4, batch=1'"
	}
	return "a text"
}

// parse sets the value from a text.
func (s setting) parse(text string) error {
	switch p := s.value.Addr().Interface().(type) {
	case *string:
		*p = text
		return nil
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	}
	return s.parseScalar(text)
}

// text prints the value as parse reads it; empty is a switch that is not set.
func (s setting) text() string {
	switch v := s.value.Interface().(type) {
	case time.Duration:
		return short(v)
	}
	return fmt.Sprint(s.value.Interface())
}

// secretFile is where the webhook secrets are.
func (c *Config) secretFile() string {
	if c.WebhookSecretFile != "" {
		return c.WebhookSecretFile
	}
	return filepath.Join(c.Data, "webhook.secret")
}

// node returns what the configuration means for a node.
func (c *Config) node() node.Config {
	return node.Config{
		Listen: c.Listen, Admin: c.Admin, DaprListen: c.DaprListen, DaprAdvertise: c.DaprAdvertise,
		DaprCert: c.DaprCert, DaprKey: c.DaprKey, DaprTrustAnchors: c.DaprTrustAnchors, DaprSentry: c.DaprSentry, DaprSentryToken: c.DaprSentryToken,
		DaprSentryKubernetes: c.DaprSentryKube, DaprTrustDomain: c.DaprTrustDomain, DaprNamespace: c.DaprNamespace, DaprWorkloadAPI: c.DaprWorkloadAPI, DaprConnections: c.DaprConnections, Data: c.Data, Store: c.Store, Insecure: c.Insecure, AllowPrivate: c.AllowPrivateTargets,
		Hosts: c.Hosts, MaxConnections: c.MaxConnections, MaxConnectionsAddress: c.MaxConnectionsPerAddress, RequestMemory: int64(c.RequestMemory),
		SecretFile: c.WebhookSecretFile, Grace: c.Grace, Ahead: c.Ahead, Window: c.Window, WindowBytes: int64(c.WindowBytes),
		MaxDeliveries: c.MaxDeliveries, HostConcurrency: c.HostConcurrency, CatchUpRate: c.CatchUpRate, Limits: c.Limits, Shares: c.Shares,
		HistoryAge: c.HistoryAge, HistoryMax: c.HistoryMax, HistoryPerTimer: c.HistoryPerTimer, DeadAge: c.DeadAge, DeadPerTimer: c.DeadPerTimer, MaxOverlap: c.MaxOverlap, MinInterval: c.MinInterval, Version: version(),
		Direct: c.StoreDirect, Unsafe: c.UnsafeStore, Node: c.Node, Advertise: c.Advertise, Strategy: c.Strategy, Buckets: c.Buckets, Lease: c.Lease, Hold: c.Hold, Poll: c.Poll, Tick: c.Tick,
		TickDelay: c.TickDelay, ClaimBatch: c.ClaimBatch, Scatter: c.Scatter, Claims: c.Claims, Roles: c.Roles,
		Leader: c.Leader, LeaderLease: c.LeaderLease, LeaderKubeconfig: c.LeaderKubeconfig, Index: c.Index, IndexCriticality: c.IndexCriticality, Queue: c.Queue, QueueName: c.QueueName,
		Reminders: c.Reminders, ReminderBucketSize: c.ReminderBucketSize, ReminderHeartbeat: c.ReminderHeartbeat, ReminderTimeout: c.ReminderTimeout,
		ReminderMetadata: c.ReminderMetadata, ReminderCapacity: c.ReminderCapacity,
	}
}

// validate returns all that is wrong with the values, each problem under the name of its setting.
func (c *Config) validate() []rouse.Problem {
	var problems []rouse.Problem
	one := func(name, value string, offered ...string) {
		for _, o := range offered {
			if value == o {
				return
			}
		}
		problems = append(problems, rouse.Problem{Field: name, Value: value, Wrong: "is not offered", Cure: "give one of " + strings.Join(offered, ", ")})
	}
	one("log-level", c.LogLevel, "debug", "info", "warn", "error")
	one("log-format", c.LogFormat, "text", "json")
	n := c.node()
	var err error
	if n.Pools, err = c.pools(); err != nil {
		problems = append(problems, rouse.Problem{Field: "pools", Value: c.Pools, Wrong: err.Error()})
	}
	if n.Brokers, err = c.brokers(); err != nil {
		problems = append(problems, problemsOf(err)...)
	}
	return append(problems, problemsOf(n.Check())...)
}

// problemsOf splits what a node says of its configuration: errors that begin with the name of a setting.
func problemsOf(err error) []rouse.Problem {
	if err == nil {
		return nil
	}
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		return inv.Problems
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []rouse.Problem
		for _, e := range many.Unwrap() {
			problems = append(problems, problemsOf(e)...)
		}
		return problems
	}
	field, wrong, _ := strings.Cut(err.Error(), " ")
	return []rouse.Problem{{Field: field, Wrong: wrong}}
}
