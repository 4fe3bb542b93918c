package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/node/dapr"
	"github.com/rousehq/rouse/store/mem"
)

// dapred is a node with access control and an audit log that serves Dapr's sidecars.
type dapred struct {
	*logged
	ca *identitytest.CA
}

func serveDapr(t *testing.T) *dapred {
	t.Helper()
	ca := identitytest.NewCA(t)
	cert, key := ca.Issue(t.TempDir(), "spiffe://localhost/ns/dapr-system/dapr-scheduler")
	return &dapred{serveLogged(t, mem.New(), func(c *node.Config) {
		c.DaprListen, c.DaprCert, c.DaprKey, c.DaprTrustAnchors = "127.0.0.1:0", cert, key, ca.AnchorsFile
	}), ca}
}

// as connects with the certificate of a SPIFFE id.
func (d *dapred) as(id string) *grpc.ClientConn {
	d.t.Helper()
	cert, key := d.ca.Issue(d.t.TempDir(), id)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		d.t.Fatal(err)
	}
	conn, err := grpc.NewClient(dapr.Of(d.n).Addr(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

// daprCall is how the test makes a call of Dapr's protocol. It is written by hand.
type daprCall struct {
	of      func(m *schedulerv1.JobMetadata) proto.Message // for the jobs of an app
	silent  bool                                           // it has no event
	anybody bool                                           // it is about no app: every sidecar may make it
}

var daprCalls = map[string]daprCall{
	"ScheduleJob": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.ScheduleJobRequest{Name: "x", Metadata: m, Overwrite: true, Job: &schedulerv1.Job{DueTime: proto.String("1h")}}
	}},
	"GetJob": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.GetJobRequest{Name: "x", Metadata: m}
	}, silent: true},
	"ListJobs": {of: func(m *schedulerv1.JobMetadata) proto.Message { return &schedulerv1.ListJobsRequest{Metadata: m} }, silent: true},
	"DeleteJob": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.DeleteJobRequest{Name: "y", Metadata: m}
	}},
	"DeleteByMetadata": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.DeleteByMetadataRequest{Metadata: m}
	}},
	"DeleteByNamePrefix": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.DeleteByNamePrefixRequest{NamePrefix: "y", Metadata: m}
	}},
	"WatchJobs": {of: func(m *schedulerv1.JobMetadata) proto.Message {
		return &schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: m.GetAppId(), Namespace: m.GetNamespace()}}}
	}},
	"WatchHosts": {of: func(*schedulerv1.JobMetadata) proto.Message { return &schedulerv1.WatchHostsRequest{} }, silent: true, anybody: true},
}

// call makes a call for the jobs of an app, and returns the code of its answer. A stream is open once its
// header or a message has come.
func (d *dapred) daprCall(conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in proto.Message, key string) codes.Code {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	out := dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		return status.Code(conn.Invoke(ctx, method, in, out))
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, method)
	if err == nil {
		err = stream.SendMsg(in)
	}
	if err == nil || errors.Is(err, io.EOF) {
		var header metadata.MD
		if header, err = stream.Header(); err == nil && header == nil { // it has ended
			err = stream.RecvMsg(out)
		}
	}
	return status.Code(err)
}

func jobsOf(namespace, app string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: namespace, AppId: app, Target: &schedulerv1.JobTargetMetadata{Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

// TestEveryCallOfSidecarsIsDecidedAndHasItsEvent makes each call of Dapr's protocol with certificates and
// keys that may and may not. Each that changes something, or is a watch, has exactly one event, the others
// none.
func TestEveryCallOfSidecarsIsDecidedAndHasItsEvent(t *testing.T) {
	d := serveDapr(t)
	const me = "spiffe://localhost/ns/shop/orders"
	own := d.as(me)
	sidecars := d.key("sidecar", "dapr.shop")
	if err := d.client(d.admin).Access().PutRole(t.Context(), client.Role{Name: "scheduling", Verbs: []string{"dapr.use"}}); err != nil {
		t.Fatal(err)
	}
	custom := d.key("scheduling", "dapr.*")
	unknown := access.GenerateKey()
	const yes, no, who, bad = codes.OK, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument
	callers := []struct {
		name           string
		conn           *grpc.ClientConn
		key            string
		namespace, app string
		want, anybody  codes.Code
		reason         string
	}{
		{"its own jobs", own, "", "shop", "orders", yes, yes, ""},
		{"the jobs of another app", own, "", "shop", "bills", no, yes, "scope"},
		{"the jobs of an app of its name in another namespace", own, "", "default", "orders", no, yes, "scope"},
		{"the jobs of no app", own, "", "shop", "", bad, yes, ""},
		{"the jobs of no namespace", own, "", "", "orders", bad, yes, ""},
		{"a certificate of another namespace", d.as("spiffe://localhost/ns/other/orders"), "", "shop", "orders", no, yes, "scope"},
		{"a certificate of no app", d.as("spiffe://localhost/orders"), "", "shop", "orders", who, who, "no_credentials"},
		{"a key of sidecars", own, sidecars, "shop", "orders", yes, yes, ""},
		{"a key with a role of one's own", own, custom, "shop", "orders", yes, yes, ""},
		{"a key, and the jobs of another app", own, custom, "shop", "bills", no, yes, "scope"},
		{"a key of another namespace", own, d.key("sidecar", "dapr.other"), "shop", "orders", no, yes, "scope"},
		{"a key of some targets", own, d.key("sidecar", "dapr.shop", "dapr:job/bills"), "shop", "orders", no, yes, "scope"},
		{"a key without the verb", own, d.key("operator", "*"), "shop", "orders", no, no, "verb"},
		{"a key that does not exist", own, unknown, "shop", "orders", who, who, "unknown"},
		{"a key that is none", own, "x", "shop", "orders", who, who, "malformed"},
	}
	d.events()
	methods := schedulerv1.File_dapr_scheduler_v1_scheduler_proto.Services().ByName("Scheduler").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		call, ok := daprCalls[string(m.Name())]
		if !ok {
			t.Errorf("the test does not know %s", m.Name())
			continue
		}
		for _, c := range callers {
			want, events := c.want, 1
			if call.anybody {
				want = c.anybody
			}
			if call.silent {
				events = 0
			}
			if got := d.daprCall(c.conn, m, call.of(jobsOf(c.namespace, c.app)), c.key); got != want {
				t.Errorf("%s with %s: %v, want %v", m.Name(), c.name, got, want)
			}
			list := d.settled(events)
			if len(list) != events {
				t.Errorf("%s with %s has %d events, want %d: %+v", m.Name(), c.name, len(list), events, list)
				continue
			}
			if events == 0 {
				continue
			}
			outcome := map[codes.Code]string{yes: "ok", no: "forbidden", who: "unauthenticated", bad: "invalid"}[want]
			e := list[0]
			principal := "certificate:" + me
			switch {
			case want == who:
				principal = ""
			case c.key != "":
				principal = "key:" + c.key[3:15]
			case c.conn != own:
				principal = "certificate:spiffe://localhost/ns/other/orders"
			}
			if e.Outcome != outcome || e.Reason != c.reason || e.Principal != principal || e.Door != "dapr" || e.Verb != "dapr.use" || e.Remote != "127.0.0.1" || e.Method != "/dapr.proto.scheduler.v1.Scheduler/"+string(m.Name()) {
				t.Errorf("%s with %s: the event is %+v", m.Name(), c.name, e)
			}
			if m.Name() == "ScheduleJob" && want == yes && (e.Namespace != "dapr.shop" || !slices.Equal(e.Names, []string{"job/orders/x"}) || e.After == "") {
				t.Errorf("%s with %s: the event is %+v", m.Name(), c.name, e)
			}
		}
	}
	for name := range daprCalls {
		if methods.ByName(protoreflect.Name(name)) == nil {
			t.Errorf("the test makes %s, which the protocol does not have", name)
		}
	}
}

// TestWatchesEndWithTheirKey: a key that is revoked ends the watches that it has opened.
func TestWatchesEndWithTheirKey(t *testing.T) {
	d := serveDapr(t)
	key := d.key("sidecar", "dapr.shop")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
	stream, err := schedulerv1.NewSchedulerClient(d.as("spiffe://localhost/ns/shop/orders")).WatchJobs(ctx)
	if err == nil {
		err = stream.Send(daprCalls["WatchJobs"].of(jobsOf("shop", "orders")).(*schedulerv1.WatchJobsRequest))
	}
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.client(d.admin).Access().RevokeKey(t.Context(), key[3:15]); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestAnAppDeletesItsOwnJobsOnly: a prefix of apps does not reach those of others.
func TestAnAppDeletesItsOwnJobsOnly(t *testing.T) {
	d := serveDapr(t)
	apps := map[string]schedulerv1.SchedulerClient{}
	for _, app := range []string{"o", "orders"} {
		apps[app] = schedulerv1.NewSchedulerClient(d.as("spiffe://localhost/ns/shop/" + app))
		if _, err := apps[app].ScheduleJob(t.Context(), daprCalls["ScheduleJob"].of(jobsOf("shop", app)).(*schedulerv1.ScheduleJobRequest)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := apps["o"].DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: jobsOf("shop", "o"), IdPrefixMatch: proto.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	for app, want := range map[string]codes.Code{"o": codes.NotFound, "orders": codes.OK} {
		if _, err := apps[app].GetJob(t.Context(), &schedulerv1.GetJobRequest{Name: "x", Metadata: jobsOf("shop", app)}); status.Code(err) != want {
			t.Errorf("the job of %s: %v", app, err)
		}
	}
}
