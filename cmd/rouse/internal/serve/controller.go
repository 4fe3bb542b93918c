package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/controller"
	"github.com/rousehq/rouse/internal/kubelink"
)

// ControllerCmd groups the commands for objects of Kubernetes.
type ControllerCmd struct {
	Run  controllerRunCmd  `cmd:"" default:"withargs" help:"Keep timers and calendars as objects of Kubernetes declare them, until a signal."`
	CRDs controllerCRDsCmd `cmd:"" name:"crds" help:"Print the definitions of the objects, for kubectl apply."`
}

func (ControllerCmd) Help() string {
	return `The objects are Timer and Calendar of rouse.dev/v1. Their spec has the members of the API's create call, and their status tells
what became of it, the next and the last fire. docs/kubernetes.md explains them.

Examples:

    rouse controller crds | kubectl apply -f -
    rouse controller --server rouse.rouse.svc:7411 --key-file key`
}

// controllerRunCmd runs a controller until a signal.
type controllerRunCmd struct {
	Kubeconfig string        `help:"File with the API server of Kubernetes and the credentials; default the service account of the pod." placeholder:"FILE"`
	Watch      []string      `help:"Namespaces of Kubernetes whose objects are followed; default all." placeholder:"NAMESPACE"`
	Prefix     string        `help:"The timers of a namespace of Kubernetes are in the namespace of rouse with this before its name." placeholder:"TEXT"`
	Owner      string        `help:"Name of the set of timers, as of rouse apply; each controller and each cluster needs its own." default:"kubernetes" placeholder:"NAME"`
	Prune      bool          `help:"Delete timers of the owner that no object declares: those whose finalizer was removed by hand."`
	Resync     time.Duration `help:"How often each object is compared with its timer." default:"1m" placeholder:"DURATION"`
	Lease      string        `help:"Work only while this process has this Lease; default is to be the only one." placeholder:"NAMESPACE/NAME"`
	Listen     string        `help:"Address of /livez, /readyz and /metrics." default:"127.0.0.1:7414" placeholder:"HOST:PORT"`
	LogLevel   string        `help:"Minimum level of the log: debug, info, warn or error." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat  string        `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
}

func (controllerRunCmd) Help() string {
	return `A namespace of Kubernetes has its timers in the namespace of rouse of the same name, or with --prefix before it: no object can
reach another one. The controller changes only timers with its --owner, and takes over timers that have none. A server with access control
needs a key with the role writer for these namespaces.

Examples:

    rouse controller --server rouse.rouse.svc:7411 --key-file key --lease rouse/controller
    rouse controller --kubeconfig ~/.kube/config --watch shop,billing --prefix test-`
}

// Run runs the controller.
func (c *controllerRunCmd) Run(a *cli.App) error {
	link, err := kubelink.Connect("kubeconfig", c.Kubeconfig)
	if err != nil {
		return err
	}
	defer link.Close()
	link.UserAgent = "rouse/" + cli.ProgramVersion()
	log := daemon.NewLogger(a, c.LogLevel, c.LogFormat)
	registry := prometheus.NewRegistry()
	leads, elect, err := c.newElection(log)
	if err != nil {
		return err
	}
	return a.WithClient(func(s *client.Client) error {
		ctl, err := controller.New(controller.Options{Link: link, Client: s, Namespaces: c.Watch, Prefix: c.Prefix,
			Owner: c.Owner, Prune: c.Prune, Resync: c.Resync,
			Timeout: a.Flags.Timeout, Leads: leads, Log: log, Registry: registry})
		if err != nil {
			return err
		}
		var doors daemon.Ports
		address, err := doors.ServePort("health and metrics", c.Listen, answerFor(ctl, registry), "GET /livez", "GET /readyz",
			"GET /metrics")
		if err != nil {
			return err
		}
		a.PrintNote("rouse %s follows the objects of Kubernetes; health and metrics on http://%s", cli.ProgramVersion(),
			address)
		// The election ends last: work under way is finished as the leader.
		electing, end := context.WithCancel(context.WithoutCancel(a.Ctx))
		var running sync.WaitGroup
		running.Go(func() { elect(electing) })
		ctl.Run(a.Ctx)
		end()
		running.Wait()
		return doors.ClosePorts()
	})
}

// newElection returns a function that reports whether this process leads, and one that takes part in the
// election.
func (c *controllerRunCmd) newElection(log *slog.Logger) (leads func() bool, elect func(ctx context.Context),
	err error) {
	if c.Lease == "" {
		return func() bool { return true }, func(context.Context) {}, nil
	}
	election, err := claim.ElectionBy("kubernetes")
	if err != nil {
		return nil, nil, err
	}
	namespace, name, err := election.Split(c.Lease)
	if err != nil {
		return nil, nil, rouse.Refuse("lease", c.Lease, err.Error(), "give one such as rouse/controller")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("the name of this host: %w", err)
	}
	e, err := election.New(claim.ElectionOptions{Namespace: namespace, Name: name, Kubeconfig: c.Kubeconfig,
		UserAgent: "rouse/" + cli.ProgramVersion(),
		Identity:  host + "#" + rand.Text()[:10],
		Changed:   func(holder string) { log.Info("leader", "controller", holder, "lease", c.Lease) },
		Failed:    func(err error) { log.Warn("the election failed and is retried", "error", err) }})
	if err != nil {
		return nil, nil, err
	}
	return e.Leads, e.Run, nil
}

// answerFor answers for the health and the metrics of a controller. It is ready when it knows all objects;
// other problems are in their status, in the metrics and in the log.
func answerFor(ctl *controller.Controller, registry *prometheus.Registry) http.HandlerFunc {
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			metrics.ServeHTTP(w, r)
			return
		}
		if err := ctl.Ready(); err != nil && r.URL.Path == "/readyz" {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// controllerCRDsCmd prints the definitions of the objects.
type controllerCRDsCmd struct{}

func (controllerCRDsCmd) Help() string {
	return `They are CustomResourceDefinitions in YAML, made from the description of the API: what is too long, unknown or of the wrong type
is refused by the API server of Kubernetes. What only rouse can check, such as a schedule, is told by the status of an object.

Examples:

    rouse controller crds | kubectl apply -f -`
}

// Run prints them.
func (controllerCRDsCmd) Run(a *cli.App) error {
	body, err := controller.Definitions()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(body)
	return err
}
