package scheduler

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/store/mem"
)

// identityOf returns an identity with a SPIFFE id that a CA has signed.
func identityOf(t *testing.T, ca *identitytest.CA, id string) *identity.Identity {
	t.Helper()
	cert, key := ca.Issue(t.TempDir(), id)
	i, err := identity.FromFiles(identity.Files{Certificate: cert, Key: key, TrustAnchors: ca.AnchorsFile})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// as returns a client of the harness with an identity.
func (h *harness) as(i *identity.Identity) *harness {
	h.t.Helper()
	server := identity.Only(identity.ID{TrustDomain: "cluster.local", Namespace: "dapr-system", App: "dapr-scheduler"})
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(i.Dialer(server)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return &harness{SchedulerClient: schedulerv1.NewSchedulerClient(conn), t: h.t}
}

// everything makes each call for an app of the namespace default and returns the results.
func (h *harness) everything(id string) map[string]error {
	ctx, m := h.t.Context(), app(id)
	a := actor("T", "i")
	a.AppId = id
	_, get := h.GetJob(ctx, &schedulerv1.GetJobRequest{Name: "there", Metadata: m})
	_, list := h.ListJobs(ctx, &schedulerv1.ListJobsRequest{Metadata: a})
	_, del := h.DeleteJob(ctx, &schedulerv1.DeleteJobRequest{Name: "x", Metadata: m})
	_, all := h.DeleteByMetadata(ctx, &schedulerv1.DeleteByMetadataRequest{Metadata: a})
	_, prefix := h.DeleteByNamePrefix(ctx, &schedulerv1.DeleteByNamePrefixRequest{NamePrefix: "x", Metadata: m})
	watch := func() error {
		stream, err := h.WatchJobs(ctx)
		if err != nil {
			return err
		}
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: jobsOf(id)}})
		if err != nil {
			return err
		}
		if _, err := stream.Header(); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		if _, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	return map[string]error{"schedule": h.schedule(m, "there", due("1h"), true), "get": get, "list": list, "delete": del, "delete all": all,
		"delete by prefix": prefix, "watch": watch()}
}

func TestACallIsForWhoMakesIt(t *testing.T) {
	ca := identitytest.NewCA(t)
	h := open(t, mem.New(), func(o *Options) {
		o.Identity = identityOf(t, ca, "spiffe://cluster.local/ns/dapr-system/dapr-scheduler")
	})
	orders := h.as(identityOf(t, ca, "spiffe://shops/ns/default/orders"))
	orders.put(app("orders"), "there", due("1h"))
	for what, err := range orders.everything("orders") {
		if err != nil {
			t.Errorf("%s as itself: %v", what, err)
		}
	}
	if _, err := orders.get(app("orders"), "there"); err != nil {
		t.Error(err)
	}
	refused := h.server.Counts().Unauthorized
	if refused != 0 {
		t.Errorf("%d were refused", refused)
	}
	for name, other := range map[string]*harness{
		"another app":       h.as(identityOf(t, ca, "spiffe://cluster.local/ns/default/bills")),
		"another namespace": h.as(identityOf(t, ca, "spiffe://cluster.local/ns/other/orders")),
	} {
		for what, err := range other.everything("orders") {
			if status.Code(err) != codes.PermissionDenied || status.Convert(err).Message() != "identity does not match request" {
				t.Errorf("%s as %s: %v", what, name, err)
			}
		}
	}
	for what, err := range h.as(identityOf(t, ca, "spiffe://cluster.local/orders")).everything("orders") {
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s as a caller without an app: %v", what, err)
		}
	}
	if got := h.server.Counts().Unauthorized - refused; got != 3*7 {
		t.Errorf("%d were refused, want 21", got)
	}
	if _, err := orders.get(app("orders"), "there"); err != nil {
		t.Errorf("what was refused has had an effect: %v", err)
	}
	// Every authenticated client may read the addresses of the members.
	hosts, err := h.as(identityOf(t, ca, "spiffe://cluster.local/anybody")).WatchHosts(t.Context(), &schedulerv1.WatchHostsRequest{})
	if err == nil {
		_, err = hosts.Recv()
	}
	if err != nil {
		t.Error(err)
	}
	conn, err := grpc.NewClient(h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	plain := &harness{SchedulerClient: schedulerv1.NewSchedulerClient(conn), t: t}
	for what, err := range plain.everything("orders") {
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s in plain text: %v", what, err)
		}
	}
}

func TestCounts(t *testing.T) {
	h := open(t, mem.New())
	h.put(app("a"), "x", due("1h"))
	wantCode(t, h.schedule(app("a"), "x", due("1h"), false), codes.AlreadyExists)
	wantCode(t, h.schedule(app("a"), "y", due("never"), false), codes.InvalidArgument)
	wantCode(t, h.schedule(app("a"), "/", due("1h"), false), codes.InvalidArgument) // no job at all
	h.put(actor("T", "i"), "x", due("1h"))
	wantCode(t, h.schedule(&schedulerv1.JobMetadata{AppId: "a"}, "x", due("1h"), false), codes.InvalidArgument)
	for _, name := range []string{"x", "none"} {
		if _, err := h.DeleteJob(t.Context(), &schedulerv1.DeleteJobRequest{Name: name, Metadata: app("a")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: actor("T", "")}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.DeleteByNamePrefix(t.Context(), &schedulerv1.DeleteByNamePrefixRequest{Metadata: app("a")}); err != nil {
		t.Fatal(err)
	}
	want := Counts{Jobs: Calls{Created: 1, CreateFailed: 2, Deleted: 2}, Actors: Calls{Created: 1}, BulkDeleted: 2, Unauthorized: 1, Conns: 1}
	if got := h.server.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
