package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rousehq/rouse/api/keda"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/internal/certs"
	"github.com/rousehq/rouse/internal/scaler"
)

// ScalerCmd is an external scaler of KEDA.
type ScalerCmd struct {
	Listen       string `help:"Address of the scaler, which KEDA calls." default:"127.0.0.1:7415" placeholder:"HOST:PORT"`
	Prefix       string `help:"The timers of a namespace of Kubernetes are in the namespace of rouse with this before its name." placeholder:"TEXT"`
	AnyNamespace bool   `help:"Triggers may name any namespace of rouse that the key may read."`

	TLSCert   string `name:"tls-cert" help:"Certificate of the scaler, in PEM; without it KEDA calls in plain text." placeholder:"FILE"`
	TLSKey    string `name:"tls-key" help:"Key of that certificate." placeholder:"FILE"`
	TLSCA     string `name:"tls-ca" help:"Authorities of the certificate that KEDA has to present then." placeholder:"FILE"`
	LogLevel  string `help:"Minimum level of the log: debug, info, warn or error." enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat string `help:"Format of the log: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
}

func (ScalerCmd) Help() string {
	return `A ScaledObject of KEDA with a trigger of the type external or external-push names the scaler, which counts the timers that are due, or
come due soon, so that replicas are there in time: docs/kubernetes.md has an example. A workload is scaled by the timers of the namespace
of rouse that has the name of its own. All who reach the address learn how many there are. A server with access control needs a key
with the role reader for the namespaces that may be asked for.

Examples:

    rouse scaler --server rouse.rouse.svc:7411 --key-file key --listen :7415`
}

// Run serves until a signal.
func (c *ScalerCmd) Run(a *cli.App) error {
	var options []grpc.ServerOption
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(a.Ctx)
	defer stop()
	if files := (certs.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA, Required: true,
		CertName: "tls-cert", KeyName: "tls-key", CAName: "tls-ca"}); c.TLSCert != "" || c.TLSKey != "" || c.TLSCA != "" {
		own, err := certs.NewServer(files, daemon.NewLogger(a, c.LogLevel, c.LogFormat))
		if err != nil {
			return err
		}
		running.Go(func() { own.Run(ctx) })
		options = append(options, grpc.Creds(credentials.NewTLS(own.Config())))
	}
	return a.WithClient(func(timers *client.Client) error {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		s := grpc.NewServer(options...)
		keda.RegisterExternalScalerServer(s, scaler.New(timers, scaler.Options{Prefix: c.Prefix, AnyNamespace: c.AnyNamespace}))
		healthv1.RegisterHealthServer(s, health.NewServer())
		a.PrintNote("rouse %s tells KEDA on %s what is due", cli.ProgramVersion(), l.Addr())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		select {
		case err := <-ended:
			return err
		case <-a.Ctx.Done():
			s.Stop()                                                    // streams have no end of their own
			if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // the signal came before it served
				return err
			}
			return nil
		}
	})
}
