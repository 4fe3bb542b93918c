package move

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	etcdv1 "github.com/rousehq/rouse/api/dapr/etcd/v1"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/foreign"
	"github.com/rousehq/rouse/internal/foreign/dapr"
)

// DaprImportCmd imports the jobs of another Dapr scheduler.
type DaprImportCmd struct {
	From string `arg:"" optional:"" help:"Address of the scheduler that has the jobs, HOST:PORT."`
	Etcd string `help:"Read all jobs, with their progress, from the scheduler's etcd at this address instead." placeholder:"HOST:PORT"`

	DaprNamespace string   `help:"Namespace of the apps and actors, as Dapr has it." default:"default" placeholder:"NAME"`
	App           []string `help:"Jobs of these apps." placeholder:"APP"`
	ActorType     []string `help:"Reminders of actors of these types." placeholder:"TYPE"`
	Workflows     bool     `help:"Reminders of the workflows of the apps too: of their instances, activities and retention."`
	As            string   `help:"App that requests reminders; default the first --app, or else rouse." placeholder:"APP"`

	Since   cli.Moment `help:"Time up to which that scheduler was on time: recurring jobs fire what was due since then; default now." placeholder:"TIME"`
	Exact   bool       `help:"Exclude jobs whose progress that scheduler does not report."`
	Replace bool       `help:"Replace existing jobs."`
	DryRun  bool       `help:"Print what would be done, and change nothing; needs no server."`

	Cert         string `help:"Certificate of the app that asks, in PEM, for a scheduler with identities." placeholder:"FILE"`
	Key          string `help:"Key of that certificate." placeholder:"FILE"`
	TrustAnchors string `help:"Trust anchors by which the scheduler is believed." placeholder:"FILE"`
}

func (DaprImportCmd) Help() string {
	return `Reads jobs over the protocol of Dapr's scheduler, from a running one or from another rouse, and writes them into the server as
timers that go on from there. Their names, data, schedules and policies are as they were. The protocol does not tell when a job was
scheduled, nor how often it has ticked: the output names what each job loses by that; it counts from now. The scheduler's etcd has it all:
with --etcd, jobs of all namespaces, apps and actors go on exactly where they are, durations, counters and concurrency keys included.
--dapr-namespace, --app and --actor-type then leave out what they do not name.

It can be run again: jobs that are there already stay as they are. Have sidecars connect to the new scheduler first, so that no scheduler fires
what is being read.

Examples:

    rouse dapr-import --etcd 127.0.0.1:2379 --dry-run
    rouse dapr-import 127.0.0.1:50006 --app shop --dry-run
    rouse dapr-import 127.0.0.1:50006 --app shop --app bills --workflows
    rouse dapr-import 127.0.0.1:50006 --dapr-namespace prod --actor-type Cart --as shop --since=-5m
    rouse dapr-import dapr-scheduler:443 --app shop --cert tls.crt --key tls.key --trust-anchors ca.crt`
}

// Run imports.
func (c *DaprImportCmd) Run(a *cli.App) error {
	i := &sourceImport{
		a:        a,
		dryRun:   c.DryRun,
		mode:     client.CreateOnly,
		outcomes: []string{foreign.Imported, foreign.There, foreign.Over, foreign.LeftOut, foreign.Failed},
		line: func(r *foreign.Resumed, problem *api.Problem) any {
			return daprJob{r.Timer.Key.Namespace, r.Timer.Key.Name, r.Outcome, r.Notes, problem}
		},
	}
	if c.Replace {
		i.mode = client.CreateOrReplace
	}
	selection := dapr.Selection{
		Namespace:  c.DaprNamespace,
		Apps:       c.App,
		ActorTypes: c.ActorType,
		Workflows:  c.Workflows,
		As:         cmp.Or(slices.Concat([]string{c.As}, c.App, []string{"rouse"})...),
		Exact:      c.Exact,
	}
	switch {
	case c.Etcd != "" && c.From != "":
		return &cli.Usage{Text: "jobs are read from a scheduler or from its etcd: give HOST:PORT or --etcd",
			Help: "rouse dapr-import --help"}
	case c.Etcd != "" && (c.Since != cli.Moment{} || c.Cert != "" || c.Key != "" || c.TrustAnchors != ""):
		return &cli.Usage{Text: "--since, --cert, --key and --trust-anchors do not go with --etcd: it tells how far each job is, in plain text", Help: "rouse dapr-import --help"}
	case c.Etcd != "":
		conn, err := dialEtcd(c.Etcd)
		if err != nil {
			return err
		}
		defer conn.Close()
		if !a.Given["dapr-namespace"] {
			selection.Namespace = ""
		}
		return i.importSource((&dapr.Etcd{Selection: selection, KV: etcdv1.NewKVClient(conn), Timeout: a.Flags.Timeout}).Read)
	case c.From == "":
		return &cli.Usage{Text: "where are the jobs? give the scheduler's HOST:PORT, or --etcd",
			Help: "rouse dapr-import --help"}
	case len(c.App)+len(c.ActorType) == 0:
		return &cli.Usage{Text: "whose jobs? the protocol has no list of all: give --app or --actor-type",
			Help: "rouse dapr-import --help"}
	}
	conn, err := c.dialScheduler()
	if err != nil {
		return err
	}
	defer conn.Close()
	return i.importSource((&dapr.Scheduler{Selection: selection, Client: schedulerv1.NewSchedulerClient(conn),
		Timeout: a.Flags.Timeout, Since: c.Since.ToInstant()}).Read)
}

// daprJob is the JSON output for a job.
type daprJob struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"` // of its timer
	Outcome   string       `json:"outcome"`
	Unknown   []string     `json:"unknown,omitzero"`
	Problem   *api.Problem `json:"problem,omitzero"`
}

// maxDaprList bounds a list, which arrives in one message.
const maxDaprList = 1 << 30

// dialScheduler creates a connection to the scheduler, which connects with the first call.
func (c *DaprImportCmd) dialScheduler() (conn *grpc.ClientConn, err error) {
	if _, _, err := net.SplitHostPort(c.From); err != nil {
		return nil, rouse.Refuse("from", c.From, "is no address of a scheduler", "give HOST:PORT, such as 127.0.0.1:50006")
	}
	creds := insecure.NewCredentials()
	if c.Cert != "" || c.Key != "" || c.TrustAnchors != "" {
		if creds, err = c.callerCredentials(); err != nil {
			return nil, err
		}
	}
	return dialSource(c.From, creds)
}

func dialEtcd(address string) (*grpc.ClientConn, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, rouse.Refuse("etcd", address, "is no address of an etcd", "give HOST:PORT, such as 127.0.0.1:2379")
	}
	return dialSource(address, insecure.NewCredentials())
}

func dialSource(address string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxDaprList)))
}

// callerCredentials returns the credentials of the calling app. Schedulers have one name in every namespace
// and trust domain.
func (c *DaprImportCmd) callerCredentials() (credentials.TransportCredentials, error) {
	if c.Cert == "" || c.Key == "" || c.TrustAnchors == "" {
		return nil, &cli.Usage{Text: "--cert, --key and --trust-anchors go together: give all three, or none",
			Help: "rouse dapr-import --help"}
	}
	i, err := identity.FromFiles(identity.Files{Certificate: c.Cert, Key: c.Key, TrustAnchors: c.TrustAnchors})
	if err != nil {
		return nil, rouse.Refuse("cert", c.Cert, "is no identity: "+err.Error(), "give the files of the app's certificate")
	}
	return i.Dialer(func(server identity.ID) error {
		if server.App != cli.DaprScheduler {
			return fmt.Errorf("the server is %s, which is no %s", server, cli.DaprScheduler)
		}
		return nil
	}), nil
}
