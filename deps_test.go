package rouse_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floor in a rule stands for the mechanisms that parts share. They know the words, the standard library and
// each other at most, so that every part may use them: what two parts need has its place there, not in each
// of them. Their reasons begin with "a mechanism:".
const floor = "the mechanisms"

// rules list which packages of the module a package may import, with the reason. A package that no rule names
// is new: decide first where it belongs. A rule for a directory covers what is below it. A
// package that is allowed allows those below it, unless it is written with "=".
var rules = []struct {
	pkg, reason string
	may         []string
}{
	{".", "the words import nothing of ours, so that everything can import them; the codec of their bodies is a leaf that knows bytes only", []string{"internal/codec"}},
	{"internal/wheel", "pure: knows instants only", []string{"."}},
	{"internal/batch", "pure: knows errors only", []string{"."}},
	{"internal/access/rules", "roles of callers that others have authenticated, by their names and claims", []string{".", "internal/access", "internal/certs"}},
	{"internal/access/token", "authenticates callers by signed tokens; fetches the keys of issuers", []string{".", "internal/access", "internal/access/rules", "internal/certs"}},
	{"internal/access", "a mechanism: who may do what; knows the words, the notes of a store, and the rule for sharing only", []string{".", "internal/audit", "internal/note", "internal/throttle"}},
	{"internal/audit", "a mechanism: what callers did; knows the words, files and the rule for sharing only", []string{".", "internal/private", "internal/throttle"}},
	{"internal/backoff", "a mechanism: waits between tries; knows time only", nil},
	{"internal/boottime", "a mechanism: time with suspensions of the machine; knows time only", nil},
	{"internal/certs", "a mechanism: reads TLS certificates from files that may change", []string{"."}},
	{"internal/codec", "a mechanism: reads and writes numbers and texts; knows bytes only", nil},
	{"internal/hub", "a mechanism: passes fires to subscribers over streams; knows the words only", []string{".", "internal/notify"}},
	{"internal/listen", "a mechanism: which addresses may be listened on", []string{"."}},
	{"internal/note", "a mechanism: names and values in rows of any store", []string{"."}},
	{"internal/secret", "a mechanism: sealed secrets and signing keys, in what the nodes of a store share", []string{".", "internal/access", "internal/audit", "internal/note", "internal/private"}},
	{"internal/signing", "signs callbacks with the keys of their namespaces and the secrets of a file", []string{floor, ".", "internal/private", "sink/webhook"}},
	{"internal/notify", "a mechanism: knows channels only", nil},
	{"internal/limit", "a mechanism: the named limits of namespaces, in what the nodes of a store share", []string{".", "internal/access", "internal/backoff", "internal/note"}},
	{"internal/quota", "a mechanism: what namespaces may have and do; shares rates through what nodes of a store share", []string{".", "internal/access", "internal/backoff", "internal/note", "internal/throttle"}},
	{"internal/recent", "a mechanism: counts what happened lately, in fixed memory; knows the words only", []string{"."}},
	{"internal/scratch", "a mechanism: knows slices only", nil},
	{"internal/throttle", "a mechanism: knows numbers, times and addresses only", nil},
	{"internal/foreign", "files of other schedulers to specs, and back; and imports of timers that go on from where they are, through the API", []string{".", "api", "client", "internal/declare", "schedule"}},
	{"internal/foreign/dapr", "what Dapr has scheduled to timers", []string{".", "api/dapr", "api/rouse/v1", "internal/dapr/job", "internal/foreign", "schedule"}},
	{"internal/poll", "a mechanism of tests: waits until a condition holds; knows time only", nil},
	{"test/unset", "a mechanism of tests: finds fields that are not set; knows no type", nil},
	{"test/cutstore", "a store for tests of nodes that crash", []string{".", "store/mem"}},
	{"internal/oracletest", "tests only: compares schedules with the answers of other libraries", []string{"."}},
	{"internal/hub/hubtest", "the other ends of streams, for tests of what serves them", []string{".", "api/rouse/v1", "sink/sinktest"}},
	{"schedule", "pure: text to times", []string{"."}},
	{"internal/claim", "strategies are gates over any store", []string{floor, "."}},
	{"internal/kubelink", "a mechanism of what speaks to Kubernetes: knows requests, credentials and pauses only", []string{".", "internal/backoff"}},
	{"internal/claim/kubelease", "elects by a Lease of Kubernetes", []string{floor, "internal/claim", "internal/kubelink"}},
	{"internal/setting", "reads and prints the fields of a structure by their tags", []string{"."}},
	{"internal/schedulecache", "keeps compiled schedules and the days of calendars; knows a store's rows only", []string{"."}},
	{"internal/timers", "the operations on timers with all their checks, over the engine that fires them", []string{floor, ".", "internal/engine", "internal/schedulecache"}},
	{"internal/doctor", "checks a node, its store and the nodes next to it, which it is given", []string{floor, ".", "internal/claim", "internal/parts", "internal/timers"}},
	{"internal/heartbeat", "signs of life of a node that it is given", []string{floor, ".", "internal/timers"}},
	{"internal/parts", "between a node and its parts: what it calls, and what it gives them", []string{floor, ".", "internal/claim", "internal/engine"}},
	{"internal/engine", "drives whatever store, strategy and sink it is given; the wheel and the group commit are its own tools", []string{floor, ".", "internal/wheel", "internal/batch", "internal/schedulecache"}},
	{"store/storetest", "one contract for every store", []string{".", "internal/poll"}},
	{"store", "a store adapts one technology, registers itself in the table of kinds, and knows no other part", []string{floor, ".", "=store", "internal/private", "internal/witness"}},
	{"internal/storekit", "a mechanism: what stores do alike; knows the words only", []string{"."}},
	{"internal/private", "a mechanism of what keeps files: knows files only", nil},
	{"internal/witness", "a mechanism of stores with files: knows files only", nil},
	{"test/issuer", "tests only: an issuer at which people sign in", nil},
	{"test/servers", "starts the real servers that tests use", nil},
	{"internal/amqplink", "a mechanism of what speaks to RabbitMQ: knows connections only", nil},
	{"internal/grpclink", "a mechanism of clients: knows targets and connections of gRPC only", []string{floor, "."}},
	{"internal/natslink", "a mechanism of what speaks to NATS: knows connections only", []string{floor}},
	{"internal/redislink", "a mechanism of what speaks to Redis: knows connections only", []string{"internal/certs"}},
	{"internal/queue/jetstream", "a queue in NATS", []string{floor, ".", "internal/natslink", "internal/queue"}},
	{"internal/queue/redisstream", "a queue in Redis", []string{floor, ".", "internal/redislink", "internal/queue"}},
	{"internal/queue/amqp", "a queue in RabbitMQ", []string{floor, ".", "internal/amqplink", "internal/queue"}},
	{"internal/queue", "carries messages from schedulers to executors; adapts one technology each", []string{floor, ".", "internal/queue"}},
	{"internal/relay", "a sink that hands fires to a queue, and the executor at its other end", []string{floor, ".", "internal/queue"}},
	{"internal/migrate", "copies a store into another, whatever both are", []string{"."}},
	{"store/redis", "a store in Redis", []string{floor, ".", "=store", "internal/redislink"}},
	{"store/front", "two stores in one: SQL as the truth, Redis as its index of due times", []string{floor, ".", "=store", "store/postgres", "store/redis"}},
	{"transact", "checks specs as the API does, and hands them to the store's functions in the caller's transaction", []string{".", "api", "schedule"}},
	{"sink/sinktest", "one contract for every sink", []string{"."}},
	{"sink/stream", "speaks the stream part of the gRPC API", []string{floor, ".", "api/rouse/v1"}},
	{"sink/cloudevent", "pure: the form of fires as events", []string{"."}},
	{"sink/webhook", "speaks HTTP, and sends fires as events; shares addresses", []string{".", "internal/throttle", "sink/cloudevent"}},
	{"sink/broker/amqp", "publishes events to RabbitMQ", []string{floor, ".", "internal/amqplink", "sink/broker", "sink/cloudevent"}},
	{"sink/broker/nats", "publishes events to NATS", []string{floor, ".", "internal/natslink", "sink/broker", "sink/cloudevent"}},
	{"sink/broker/redis", "publishes events to Redis", []string{floor, ".", "internal/redislink", "sink/broker", "sink/cloudevent"}},
	{"sink/broker", "publishes events to brokers, each by one technology", []string{floor, "internal/poll", ".", "sink/broker", "sink/cloudevent"}},
	{"sink", "a sink adapts one technology and knows no other part", []string{"."}},
	{"api", "the forms that the words have on the wire", []string{"."}},
	{"internal/dapr/job", "pure: jobs of Dapr's protocol to timers, and back", []string{".", "api/dapr/scheduler/v1"}},
	{"internal/dapr/watch", "a sink that speaks the stream part of Dapr's protocol", []string{floor, ".", "api/dapr/scheduler/v1", "internal/dapr/job"}},
	{"internal/dapr/scheduler", "serves Dapr's protocol over an engine that it is given", []string{".", "internal/access", "internal/audit", "api/dapr/scheduler/v1", "api/rouse/v1", "internal/dapr", "internal/timers"}},
	{"internal/reminder/allocation", "pure: ids, token buckets, and who has which", nil},
	{"internal/reminder/state", "what the reminder service keeps in the store next to its timers", []string{floor, ".", "internal/reminder/allocation"}},
	{"internal/reminder/convert", "pure: reminders to timers, and back", []string{".", "api/reminder/v1", "schedule"}},
	{"internal/reminder/call", "a sink that speaks the stream part of the reminder service's protocol", []string{floor, ".", "api/reminder/v1", "internal/reminder/allocation", "internal/reminder/convert"}},
	{"internal/reminder", "serves reminders and actors over an engine that it is given", []string{floor, ".", "api/reminder/v1", "api/rouse/v1", "internal/reminder", "internal/timers"}},
	{"internal/dapr/identity", "who a peer is by its certificate, and where certificates come from; knows nothing of timers", []string{floor, "api/dapr/sentry/v1", "api/spiffe/v1", "internal/dapr/identity"}},
	{"test/dapr", "tests only: runs Dapr's own sidecar against the real binary", []string{"test/harness", "test/servers"}},
	{"internal/pool", "manages groups of workers over any transport, with any driver", []string{floor, ".", "internal/pool"}},
	{"internal/pool/target", "the form of targets of pools, which every node knows", []string{".", "=internal/pool"}},
	{"internal/pool/driver/docker", "starts workers as containers, and knows of pools how they write keys", []string{floor, ".", "internal/pool", "internal/pool/driver"}},
	{"internal/pool/driver/kubernetes", "starts workers as pods of workloads", []string{floor, ".", "internal/kubelink", "internal/pool", "internal/pool/driver"}},
	{"internal/pool/driver", "starts workers by one technology each, and knows nothing of requests", []string{floor, ".", "internal/pool/driver"}},
	{"internal/pool/amqp", "requests of pools in RabbitMQ", []string{floor, ".", "internal/amqplink", "internal/pool"}},
	{"internal/pool/local", "requests of pools on rouse's own store: workers take them from the streams of their keys", []string{".", "internal/pool", "sink/stream", "api/rouse/v1"}},
	{"client/reminder", "speaks the reminder service's protocol", []string{floor, ".", "internal/grpclink", "api/reminder/v1", "api/rouse/v1"}},
	{"internal/book", "the pages of the documentation as a web site; knows files and HTTP only", nil},
	{"internal/console", "the files of the web console; knows HTTP only", nil},
	{"client", "speaks the gRPC API", []string{floor, ".", "api/rouse/v1", "internal/grpclink"}},
	{"internal/declare", "makes timers as they are declared, through the API", []string{".", "api", "client", "schedule"}},
	{"internal/scaler", "tells KEDA how many timers are due", []string{".", "api/keda", "api/rouse/v1"}},
	{"internal/controller", "keeps timers as objects of Kubernetes declare them", []string{floor, ".", "api", "client", "internal/declare", "internal/kubelink"}},
	{"internal/server/openapitest", "tests only: checks answers against the description of the API", []string{"api"}},
	{"internal/transport", "the connections of a server, and the memory of what arrives on them; knows no operation", []string{floor, ".", "api"}},
	{"internal/server", "serves an engine that it is given", []string{floor, ".", "api", "api/rouse/v1", "internal/timers", "internal/transport"}},
	{"rousetest/receiver", "verifies the signatures that the webhook sink makes", []string{".", "sink/webhook"}},
	{"rousetest/history", "judges what was written down; knows the words, not the parts", []string{"."}},
	{"rousetest", "a whole rouse for tests: a node on a clock of its own, its client and a receiver", []string{".", "client", "node", "rousetest", "sink", "store/sqlite"}},
	{"examples", "what users write: they have the front doors only", []string{".", "client", "node"}},
	{"internal/backup", "takes the copies of stores out and in: each kind of store tells what a checkpoint looks like", []string{".", "=store", "internal/private"}},
	{"node", "puts the parts together, and links no technology but the embedded stores that are always there, and no door", []string{floor, ".", "api", "=internal/pool", "internal/pool/target", "=internal/claim", "internal/doctor", "internal/engine", "internal/heartbeat", "internal/setting", "internal/signing", "internal/timers", "schedule", "=store", "store/mem", "store/pebble", "=sink", "=sink/broker", "sink/function", "sink/webhook", "=internal/queue", "internal/relay", "internal/migrate", "internal/parts", "internal/private"}},
	{"node/api", "adds the API to a node", []string{".", "node", "internal/backup", "internal/console", "internal/grpclink", "internal/secret", "internal/server", "internal/setting", "schedule", "sink/stream", "sink/webhook", "internal/parts", "internal/timers"}},
	{"node/dapr", "adds Dapr's protocol to a node", []string{floor, ".", "node", "internal/dapr", "internal/setting", "internal/parts", "internal/timers"}},
	{"node/reminder", "adds the reminder service to a node", []string{".", "api/reminder/v1", "internal/engine", "internal/reminder", "internal/server", "internal/setting", "node", "internal/parts", "internal/timers"}},
	{"node/pool", "adds pools of workers to a node", []string{floor, ".", "api/rouse/v1", "internal/engine", "internal/pool", "internal/server", "internal/setting", "node", "internal/parts", "internal/timers"}},
	{"node/trace", "adds OpenTelemetry traces to a node: the only place that knows OpenTelemetry", []string{".", "node", "internal/engine", "internal/parts", "internal/timers"}},
	{"node/principals", "adds callers with certificates and tokens to a node", []string{".", "internal/access", "internal/parts", "internal/timers", "node"}},
	{"node/all", "links every part of a node, and every kind of store, broker, queue and election", []string{"node", "store", "sink/broker", "internal/queue", "internal/claim/kubelease"}},
	{"bench", "measures a node through its client, and the raw limits beneath it", []string{".", "api/rouse/v1", "api/dapr", "api/reminder/v1", "client", "internal/grpclink", "node", "store", "rousetest", "internal/wheel", "schedule"}},
	{"docs", "the pages, as files in the program; its tests run their commands with the real binary and real servers", nil},
	{"test/matrix", "tests only: sends all combinations of requests to a whole rouse, and checks the results", []string{"."}},
	{"test/harness", "what tests of the real binary have in common; knows no server but rouse's", []string{".", "internal/poll", "test/servers", "client", "rousetest"}},
	{"test/crash", "kills the real binary", []string{".", "client", "rousetest", "test/harness", "test/servers"}},
	{"test/conformance", "tests only: runs the clients of all languages against the real binary", []string{".", "api", "api/rouse/v1", "client", "internal/poll", "sink/webhook", "test/harness", "test/servers"}},
	{"test/console", "tests only: drives the web console and the documentation in a real browser", []string{".", "client", "docs", "internal/book", "node", "internal/access", "rousetest", "test/harness", "test/issuer", "test/servers"}},
	{"test/cluster", "runs nodes of the real binary on one store, and fails what can fail", []string{".", "client", "rousetest", "test/harness", "test/servers"}},
	{"cmd/rouse/internal/cli", "what commands share: input, output, errors, and the connection to a server; knows no command", []string{floor, ".", "api", "api/rouse/v1", "client", "internal/grpclink"}},
	{"cmd/rouse/internal/flags", "flags that describe or select timers; knows no command", []string{".", "api", "client", "cmd/rouse/internal/cli", "internal/setting"}},
	{"cmd/rouse/internal/config", "what can be set of a server; knows no command", []string{floor, ".", "cmd/rouse/internal/cli", "internal/pool", "internal/setting", "node", "schedule", "sink/broker"}},
	{"cmd/rouse/internal/daemon", "what commands share that serve until a signal; knows none of them", []string{floor, "cmd/rouse/internal/cli", "internal/server", "node"}},
	{"cmd/rouse/internal/timer", "commands for timers; folders of commands do not know each other", []string{".", "api", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/flags", "internal/setting", "internal/timers", "schedule"}},
	{"cmd/rouse/internal/move", "commands that take timers from one place to another", []string{".", "api", "api/dapr", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/flags", "internal/backup", "internal/dapr/identity", "internal/declare", "internal/foreign", "internal/migrate", "internal/pool/target", "internal/private", "node", "store"}},
	{"cmd/rouse/internal/pool", "commands for pools of workers", []string{floor, ".", "api", "api/rouse/v1", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/config", "cmd/rouse/internal/daemon", "internal/pool", "node", "internal/grpclink"}},
	{"cmd/rouse/internal/admin", "commands by which a server is looked after", []string{floor, ".", "api", "api/reminder/v1", "api/rouse/v1", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/config", "cmd/rouse/internal/flags", "internal/private", "node", "store"}},
	{"cmd/rouse/internal/serve", "commands that are servers", []string{floor, ".", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/config", "cmd/rouse/internal/daemon", "api/keda", "internal/certs", "internal/claim", "internal/controller", "internal/kubelink", "internal/scaler", "internal/setting", "node", "store"}},
	{"cmd/rouse/internal/tool", "commands that help to work with rouse", []string{floor, ".", "api", "bench", "client", "cmd/rouse/internal/cli", "cmd/rouse/internal/daemon", "docs", "internal/book", "rousetest/history", "sink/webhook", "internal/grpclink"}},
	{"cmd/rouse", "the program: the only place that knows every command", []string{floor, ".", "bench", "client", "cmd/rouse/internal", "internal/server", "node"}},
}

// links are programs and the modules of others that they link, with the reason. A program that uses a part
// must not pay for the parts that it does not use: what is new here is a decision, and belongs in
// docs/library.md.
var links = []struct {
	pkg     string
	modules map[string]string
	ours    []string // packages of this module; nil: not compared
}{
	{"client", rpc, nil},
	{"examples/embed", map[string]string{
		"github.com/cockroachdb/pebble/v2":   "the store",
		"github.com/RaduBerinde/":            "of Pebble",
		"github.com/cockroachdb/":            "of Pebble: errors, redaction, containers",
		"github.com/DataDog/zstd":            "of Pebble: compression",
		"github.com/getsentry/sentry-go":     "of Pebble's errors",
		"github.com/gogo/protobuf":           "of Pebble's errors",
		"github.com/golang/snappy":           "of Pebble: compression",
		"github.com/klauspost/compress":      "of Pebble: compression",
		"github.com/kr/":                     "of Pebble's errors",
		"github.com/minio/minlz":             "of Pebble: compression",
		"github.com/pkg/errors":              "of Pebble's errors",
		"github.com/rogpeppe/go-internal":    "of Pebble's errors",
		"golang.org/x/exp":                   "of Pebble",
		"golang.org/x/net":                   "forms of headers and host names, of callbacks",
		"golang.org/x/oauth2":                "tokens of callbacks, small",
		"golang.org/x/sys":                   "of Pebble, and of Prometheus",
		"golang.org/x/text":                  "normal forms of names",
		"github.com/beorn7/perks":            "of Prometheus",
		"github.com/cespare/xxhash/v2":       "of Prometheus, and of Pebble",
		"github.com/munnerz/goautoneg":       "of Prometheus",
		"github.com/prometheus/":             "the node's metrics",
		"google.golang.org/protobuf":         "of Prometheus",
		"github.com/go-json-experiment/json": "JSON of the API",
	}, []string{"api", "examples/embed", "internal/access", "internal/audit", "internal/backoff", "internal/batch", "internal/boottime", "internal/certs", "internal/claim", "internal/codec", "internal/doctor", "internal/engine", "internal/heartbeat", "internal/limit", "internal/listen",
		"internal/migrate", "internal/note", "internal/notify", "internal/parts", "internal/pool", "internal/pool/driver", "internal/pool/target", "internal/private", "internal/queue", "internal/quota",
		"internal/recent", "internal/relay", "internal/schedulecache", "internal/scratch", "internal/secret", "internal/setting", "internal/signing", "internal/storekit", "internal/throttle", "internal/timers", "internal/wheel", "internal/witness",
		"node", "schedule", "sink", "sink/broker", "sink/cloudevent", "sink/function", "sink/webhook", "store", "store/mem", "store/pebble"}},
}

// rpc lists the modules that a client of the API needs.
var rpc = map[string]string{
	"golang.org/x/net":            "of gRPC: HTTP/2",
	"golang.org/x/sys":            "of gRPC",
	"golang.org/x/text":           "of gRPC, and normal forms of names",
	"google.golang.org/genproto/": "of gRPC: details of errors",
	"google.golang.org/grpc":      "the API",
	"google.golang.org/protobuf":  "the API",
}

// TestProgramsLinkWhatTheyUse compares the modules that programs link with those that are allowed, both ways.
func TestProgramsLinkWhatTheyUse(t *testing.T) {
	for _, l := range links {
		var linked, ours []string
		for line := range strings.Lines(output(t, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{end}}{{.ImportPath}}", "./"+l.pkg)) {
			switch words := strings.Fields(line); {
			case len(words) == 1: // of the standard library
			case words[0] != module:
				linked = append(linked, words[0])
			case words[1] != module:
				ours = append(ours, inModule(words[1]))
			}
		}
		slices.Sort(linked)
		slices.Sort(ours)
		if l.ours != nil && !slices.Equal(ours, l.ours) {
			in := func(of []string) func(string) bool { return func(p string) bool { return slices.Contains(of, p) } }
			t.Errorf("%s links %q, which the list does not have, and no longer %q: a part that only some programs use is a package that they import",
				l.pkg, slices.DeleteFunc(slices.Clone(ours), in(l.ours)), slices.DeleteFunc(slices.Clone(l.ours), in(ours)))
		}
		used := map[string]bool{}
		for _, m := range slices.Compact(linked) {
			best := ""
			for allowed := range l.modules {
				if (m == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(m, allowed)) && len(allowed) > len(best) {
					best = allowed
				}
			}
			if used[best] = true; best == "" {
				t.Errorf("%s links %s: register its package by an import that only programs which use it have, or add it to the list with the reason", l.pkg, m)
			}
		}
		for m := range l.modules {
			if !used[m] {
				t.Errorf("%s no longer links %s: remove it from the list", l.pkg, m)
			}
		}
	}
}

const module = "github.com/rousehq/rouse"

// TestImportsRunOneWay checks the imports of every package against the planned layers: words, parts, node and
// server, cmd.
func TestImportsRunOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		names := strings.Fields(line)
		pkg := inModule(names[0])
		rule := -1
		for i, r := range rules {
			if (pkg == r.pkg || r.pkg != "." && strings.HasPrefix(pkg, r.pkg+"/")) && (rule < 0 || len(r.pkg) > len(rules[rule].pkg)) {
				rule = i
			}
		}
		if rule < 0 {
			t.Errorf("%s has no rule", pkg)
			continue
		}
		for _, name := range names[1:] {
			if name != module && !strings.HasPrefix(name, module+"/") {
				continue
			}
			if imp := inModule(name); !allowed(imp, rules[rule].may) {
				t.Errorf("%s imports %s, but: %s", pkg, imp, rules[rule].reason)
			}
		}
	}
}

func inModule(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func allowed(imp string, may []string) bool {
	for _, m := range may {
		if m == floor && isMechanism(imp) {
			return true
		}
		if exact, ok := strings.CutPrefix(m, "="); ok {
			if imp == exact {
				return true
			}
			continue
		}
		if imp == m || m != "." && m != "api" && strings.HasPrefix(imp, m+"/") {
			return true
		}
	}
	return false
}

func isMechanism(pkg string) bool {
	for _, r := range rules {
		if r.pkg == pkg {
			return strings.HasPrefix(r.reason, "a mechanism:")
		}
	}
	return false
}

// TestOneLinkToRabbitMQ holds that connections to RabbitMQ are made in one place, where each has its time
// limits.
func TestOneLinkToRabbitMQ(t *testing.T) {
	out, err := exec.Command("git", "grep", "-lE", `amqp091\.(Dial|DialConfig|DialTLS|Open)\(`, "--", "*.go", ":!*_test.go", ":!examples", ":!test").Output()
	if err != nil {
		t.Fatal(err)
	}
	if files := strings.Fields(string(out)); len(files) != 1 || files[0] != "internal/amqplink/conn.go" {
		t.Errorf("connections to RabbitMQ are opened in %v: use internal/amqplink", files)
	}
}

// TestDependenciesHaveReasons: each module that is required directly has its reason in go.mod.
func TestDependenciesHaveReasons(t *testing.T) {
	body, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(body), "require (\n")
	list, _, _ = strings.Cut(list, "\n)\n")
	for line := range strings.Lines(list) {
		if _, reason, _ := strings.Cut(line, "//"); strings.TrimSpace(reason) == "" || strings.TrimSpace(reason) == "indirect" {
			t.Errorf("go.mod requires %q without a reason: write one after //", strings.TrimSpace(line))
		}
	}
}
