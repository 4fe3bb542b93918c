package serve

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/store"
)

// daprFlags are the flags of Dapr's scheduler with its defaults, so that it can be replaced without other
// changes.
type daprFlags struct {
	Port                      int    `help:"Port for sidecars." default:"50006" placeholder:"PORT"`
	ListenAddress             string `help:"Address for sidecars; default all addresses." placeholder:"HOST"`
	OverrideBroadcastHostPort string `help:"Where sidecars are told to reach this member." placeholder:"HOST:PORT"`
	ID                        string `name:"id" help:"Name of this member, if given." default:"dapr-scheduler-server-0" placeholder:"NAME"`
	HealthzPort               int    `help:"Port of GET /healthz." default:"8080" placeholder:"PORT"`
	HealthzListenAddress      string `help:"Address of GET /healthz; default all addresses." placeholder:"HOST"`
	EnableMetrics             bool   `help:"Serve GET /metrics." default:"true"`
	MetricsPort               int    `help:"Port of GET /metrics." default:"9090" placeholder:"PORT"`
	MetricsListenAddress      string `help:"Address of GET /metrics." default:"0.0.0.0" placeholder:"HOST"`
	LogAsJSON                 bool   `name:"log-as-json" help:"Log as JSON."`
	Mode                      string `help:"Where it runs: standalone or kubernetes." enum:"standalone,kubernetes" default:"standalone" placeholder:"MODE"`

	TLSEnabled       bool   `name:"tls-enabled" help:"Use an identity, and require identities of sidecars; always with --mode kubernetes."`
	SentryAddress    string `help:"Sentry, which signs the certificate; default dapr-sentry.$NAMESPACE.svc:443." placeholder:"HOST:PORT"`
	TrustAnchorsFile string `help:"Trust anchors, in PEM." default:"/var/run/secrets/dapr.io/tls/ca.crt" placeholder:"FILE"`
	TrustDomain      string `help:"Trust domain of Dapr's control plane." default:"localhost" placeholder:"NAME"`

	EtcdInitialCluster []string `help:"Members of the cluster. If there are several, they need a store that they share." placeholder:"ID=URL"`
	EtcdEmbed          bool     `help:"Whether there is a database within; if not, a store is needed." default:"true"`
	EtcdDataDir        string   `help:"Without --data, data are kept in rouse in this directory." placeholder:"DIR"`

	ignoredFlags `embed:""`
}

// ignoredFlags have no meaning here.
type ignoredFlags struct {
	Workers                uint32 `help:"Ignored." placeholder:"N"`
	Kubeconfig             string `help:"Ignored." placeholder:"FILE"`
	IdentityDirectoryWrite string `help:"Ignored: no key is written." placeholder:"DIR"`

	EtcdClientPort           string `help:"Ignored." placeholder:"PORT"`
	EtcdClientPorts          string `help:"Ignored." placeholder:"PORTS"`
	EtcdClientHTTPPorts      string `name:"etcd-client-http-ports" help:"Ignored." placeholder:"PORTS"`
	EtcdClientListenAddress  string `help:"Ignored." placeholder:"HOST"`
	EtcdClientEndpoints      string `help:"Ignored." placeholder:"URLS"`
	EtcdClientUsername       string `help:"Ignored." placeholder:"NAME"`
	EtcdClientPassword       string `help:"Ignored." placeholder:"TEXT"`
	EtcdSpaceQuota           string `help:"Ignored." placeholder:"SIZE"`
	EtcdCompactionMode       string `help:"Ignored." placeholder:"MODE"`
	EtcdCompactionRetention  string `help:"Ignored." placeholder:"N"`
	EtcdSnapshotCount        string `help:"Ignored." placeholder:"N"`
	EtcdMaxSnapshots         string `help:"Ignored." placeholder:"N"`
	EtcdMaxWals              string `help:"Ignored." placeholder:"N"`
	EtcdBackendBatchLimit    string `help:"Ignored." placeholder:"N"`
	EtcdBackendBatchInterval string `help:"Ignored." placeholder:"DURATION"`
	EtcdMaxTxnOps            string `help:"Ignored." placeholder:"N"`
	EtcdMetrics              string `help:"Ignored." placeholder:"LEVEL"`

	EtcdExperimentalBootstrapDefragThresholdMegabytes string `help:"Ignored." placeholder:"N"`
	EtcdInitialElectionTickAdvance                    bool   `help:"Ignored."`
}

// findIgnoredFlags returns the given flags that have no meaning here.
func findIgnoredFlags(given map[string]bool) (list []string) {
	for name := range given {
		switch name {
		case "workers", "kubeconfig", "identity-directory-write":
			list = append(list, "--"+name)
		case "etcd-initial-cluster", "etcd-embed", "etcd-data-dir":
		default:
			if strings.HasPrefix(name, "etcd-") {
				list = append(list, "--"+name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// adaptSettings applies these flags to settings that are not given in rouse's own form.
func (f *daprFlags) adaptSettings(in *config.Loaded, given map[string]bool) {
	set := func(name, text string) {
		if in.Source[name] == "default" {
			_ = config.FindSetting(in.ConfigSettings(), name).Parse(text) // they are settings, and such values
			in.Source[name] = cli.DaprScheduler
		}
	}
	set("dapr-listen", net.JoinHostPort(f.ListenAddress, strconv.Itoa(f.Port)))
	set("dapr-advertise", f.OverrideBroadcastHostPort)
	if given["id"] {
		set("node", f.ID)
	}
	if f.LogAsJSON {
		set("log-format", "json")
	}
	if f.EtcdDataDir != "" {
		set("data", filepath.Join(f.EtcdDataDir, "rouse"))
	}
	f.adaptIdentity(in, set)
	set("admin", "")
	set("grace", "2s") // a sidecar that does not respond delays the shutdown only briefly
	if in.Source["listen"] == "default" {
		set("roles", "scheduler,executor")
		set("listen", "")
	}
	set("insecure", "dapr") // sidecars connect from other machines; the other listeners keep their rules
}

// adaptIdentity sets the node's identity towards sidecars, if mTLS is enabled. Settings override Sentry.
func (f *daprFlags) adaptIdentity(in *config.Loaded, set func(name, text string)) {
	if !f.TLSEnabled && f.Mode != "kubernetes" {
		return
	}
	if in.DaprWorkloadAPI != "" {
		return
	}
	namespace := cmp.Or(os.Getenv("NAMESPACE"), "default")
	set("dapr-trust-anchors", f.TrustAnchorsFile)
	if in.DaprCert != "" {
		return
	}
	set("dapr-sentry", cmp.Or(f.SentryAddress, "dapr-sentry."+namespace+".svc:443"))
	token := os.Getenv("DAPR_SENTRY_TOKEN_FILE") // a token of another issuer than Kubernetes, also in a pod
	set("dapr-sentry-token", token)
	set("dapr-sentry-kubernetes", strconv.FormatBool(f.Mode == "kubernetes" && token == ""))
	set("dapr-trust-domain", f.TrustDomain)
	set("dapr-namespace", namespace)
}

// checkSharedStore refuses a cluster whose members would each have their own jobs.
func (f *daprFlags) checkSharedStore(in *config.Loaded) error {
	kind, err := store.KindOf(in.Store)
	const cure = "give the URL of a PostgreSQL or Redis, the same to every member: --store postgres://…"
	switch {
	case err == nil && kind.Shared:
	case len(f.EtcdInitialCluster) > 1:
		return rouse.Refuse("store", cli.RedactPasswords(in.Store),
			fmt.Sprintf("is this member's own, and --etcd-initial-cluster names %d members", len(f.EtcdInitialCluster)), cure)
	case !f.EtcdEmbed:
		return rouse.Refuse("store", cli.RedactPasswords(in.Store),
			"is this member's own, and --etcd-embed=false asks for one that is not; an etcd cannot be one", cure)
	}
	return nil
}
