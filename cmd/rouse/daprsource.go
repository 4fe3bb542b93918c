package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/identity"
)

// sourceFlags are the credentials for a scheduler that requires mTLS.
type sourceFlags struct {
	Cert         string `help:"Certificate of the app that asks, in PEM, for a scheduler with identities." placeholder:"FILE"`
	Key          string `help:"Key of that certificate." placeholder:"FILE"`
	TrustAnchors string `help:"Trust anchors by which the scheduler is believed." placeholder:"FILE"`
}

// daprSource is the scheduler to read from.
type daprSource struct{ client schedulerv1.SchedulerClient }

// maxDaprList bounds a list, which arrives in one message.
const maxDaprList = 1 << 30

// dial creates a client of the scheduler. It connects with the first call.
func (c *daprImportCmd) dial(a *app) (s daprSource, end func(), err error) {
	if _, _, err := net.SplitHostPort(c.From); err != nil {
		return s, nil, rouse.Refuse("from", c.From, "is no address of a scheduler", "give HOST:PORT, such as 127.0.0.1:50006")
	}
	creds := insecure.NewCredentials()
	if c.Cert != "" || c.Key != "" || c.TrustAnchors != "" {
		if creds, err = c.credentials(); err != nil {
			return s, nil, err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+c.From, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxDaprList)))
	if err != nil {
		return s, nil, err
	}
	return daprSource{schedulerv1.NewSchedulerClient(conn)}, func() { _ = conn.Close() }, nil
}

// credentials returns the credentials of the calling app. Schedulers have one name in every namespace and
// trust domain.
func (f *sourceFlags) credentials() (credentials.TransportCredentials, error) {
	if f.Cert == "" || f.Key == "" || f.TrustAnchors == "" {
		return nil, &usage{text: "--cert, --key and --trust-anchors go together: give all three, or none", help: "rouse dapr-import --help"}
	}
	i, err := identity.FromFiles(identity.Files{Certificate: f.Cert, Key: f.Key, TrustAnchors: f.TrustAnchors})
	if err != nil {
		return nil, rouse.Refuse("cert", f.Cert, "is no identity: "+err.Error(), "give the files of the app's certificate")
	}
	return i.Dialer(func(server identity.ID) error {
		if server.App != daprScheduler {
			return fmt.Errorf("the server is %s, which is no %s", server, daprScheduler)
		}
		return nil
	}), nil
}

// list returns the jobs of a group.
func (s daprSource) list(a *app, g daprGroup) ([]*schedulerv1.NamedJob, error) {
	ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
	defer cancel()
	r, err := s.client.ListJobs(ctx, &schedulerv1.ListJobsRequest{Metadata: g.metadata})
	if err == nil {
		return r.Jobs, nil
	}
	a.dialled = "" // the unavailable server is not rouse's
	why := rousev1.StatusToError(status.Convert(err))
	if why == nil {
		why = errors.New(err.Error())
	}
	return nil, fmt.Errorf("list the jobs of %s: %w", g.what, why)
}
