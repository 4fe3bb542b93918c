package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
)

func appJobs(app string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: app, Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}
}

func reminders(typ, id string) *schedulerv1.JobMetadata {
	return &schedulerv1.JobMetadata{Namespace: "default", AppId: "shop", Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: typ, Id: id}}}}
}

// rouseCommand runs one within the test's process.
func rouseCommand(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	files := []*os.File{open("in"), open("out"), open("err")}
	a := cli.NewApp(context.Background(), files[0], files[1], files[2])
	k, err := parseCommand(a, args)
	if err == nil {
		err = k.Run(a)
	}
	code = a.ReportError(err)
	var texts []string
	for _, f := range files {
		f.Close()
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return code, texts[1], texts[2]
}

func (s *standIn) put(m *schedulerv1.JobMetadata, name string, j *schedulerv1.Job) {
	s.t.Helper()
	if _, err := s.sidecar.ScheduleJob(s.t.Context(), &schedulerv1.ScheduleJobRequest{Name: name, Metadata: m, Job: j}); err != nil {
		s.t.Fatal(err)
	}
}

// jobs are those of a list, as they are.
func (s *standIn) jobs(m *schedulerv1.JobMetadata) []*schedulerv1.NamedJob {
	s.t.Helper()
	r, err := s.sidecar.ListJobs(s.t.Context(), &schedulerv1.ListJobsRequest{Metadata: m})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Jobs
}

func sameJobs(a, b []*schedulerv1.NamedJob) bool {
	return slices.EqualFunc(a, b, func(x, y *schedulerv1.NamedJob) bool { return proto.Equal(x, y) })
}

// Jobs of another rouse arrive as they are, once.
func TestDaprImport(t *testing.T) {
	from, to := runStandIn(t), runStandIn(t, "--listen", "127.0.0.1:0")
	from.put(appJobs("shop"), "once", &schedulerv1.Job{DueTime: proto.String("2999-01-01T00:00:00Z")})
	from.put(appJobs("shop"), "cron", &schedulerv1.Job{Schedule: proto.String("TZ=Europe/Berlin @yearly")})
	from.put(appJobs("shop"), "interval", &schedulerv1.Job{Schedule: proto.String("@every 1h"), Repeats: proto.Uint32(5)})
	from.put(appJobs("bills"), "other", &schedulerv1.Job{DueTime: proto.String("1h")})
	keyed := reminders("Cart", "7")
	keyed.ConcurrencyKey = proto.String("k")
	from.put(keyed, "remind", &schedulerv1.Job{DueTime: proto.String("2999-01-01T00:00:00Z")})
	from.put(reminders("dapr.internal.default.shop.workflow", "1"), "start", &schedulerv1.Job{DueTime: proto.String("2999-01-01T00:00:00Z")})
	from.put(reminders("dapr.internal.default.shop.retentioner", "1"), "completed", &schedulerv1.Job{DueTime: proto.String("2999-01-01T00:00:00Z")})

	args := []string{"dapr-import", from.at["dapr"], "--app", "shop", "--workflows", "--actor-type", "Cart", "--server", to.at["api"]}
	code, out, errOut := rouseCommand(t, append(args, "--dry-run")...)
	if code != 0 || out != "6 good, 0 there already, 0 over, 0 left out, 0 failed\n" || len(to.jobs(appJobs("shop"))) != 0 {
		t.Errorf("a dry run: %d %q %q", code, out, errOut)
	}
	code, out, errOut = rouseCommand(t, append(args, "--exact")...)
	if code != 0 || out != "5 imported, 0 there already, 0 over, 1 left out, 0 failed\n" || !strings.Contains(errOut, "dapr.default/job/shop/interval: repeats: ") {
		t.Errorf("what is exact: %d %q %q", code, out, errOut)
	}
	for range 2 {
		code, out, errOut = rouseCommand(t, args...)
		if code != 0 {
			t.Errorf("%d %q %q", code, out, errOut)
		}
	}
	if out != "0 imported, 6 there already, 0 over, 0 left out, 0 failed\n" || errOut != "" {
		t.Errorf("the second run printed %q %q", out, errOut)
	}
	for _, m := range []*schedulerv1.JobMetadata{appJobs("shop"), reminders("Cart", ""), reminders("dapr.internal.default.shop.workflow", ""), reminders("dapr.internal.default.shop.retentioner", "")} {
		if want, got := from.jobs(m), to.jobs(m); !sameJobs(want, got) || len(want) == 0 {
			t.Errorf("there are %v, want %v", got, want)
		}
	}
	if got := to.jobs(appJobs("bills")); len(got) != 0 {
		t.Errorf("%v were not asked for", got)
	}
	code, out, _ = rouseCommand(t, append(args, "--replace", "--json")...)
	if code != 0 || strings.Count(out, `"outcome":"imported"`) != 6 || !strings.Contains(out, `{"namespace":"dapr.default","name":"job/shop/interval","outcome":"imported","unknown":["schedule: `) {
		t.Errorf("%d %s", code, out)
	}
}

// stock lists jobs as Dapr's own scheduler does: it tells neither the apps of reminders nor their concurrency
// keys.
type stock struct {
	schedulerv1.UnimplementedSchedulerServer
	jobs []*schedulerv1.NamedJob
}

func (s *stock) ListJobs(_ context.Context, r *schedulerv1.ListJobsRequest) (*schedulerv1.ListJobsResponse, error) {
	if r.Metadata.GetAppId() == "" || r.Metadata.GetNamespace() == "" {
		return nil, status.Error(codes.InvalidArgument, "missing namespace or appID in request")
	}
	out := &schedulerv1.ListJobsResponse{}
	for _, j := range s.jobs {
		actor, wanted := j.Metadata.Target.GetActor(), r.Metadata.Target.GetActor()
		if (actor == nil) == (wanted == nil) && actor.GetType() == wanted.GetType() && (actor != nil || j.Metadata.AppId == r.Metadata.AppId) {
			out.Jobs = append(out.Jobs, j)
		}
	}
	return out, nil
}

func runStock(t *testing.T, jobs ...*schedulerv1.NamedJob) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	schedulerv1.RegisterSchedulerServer(s, &stock{jobs: jobs})
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); running.Wait() })
	return l.Addr().String()
}

func TestDaprImportFromDapr(t *testing.T) {
	bare := reminders("Cart", "7")
	bare.AppId = ""
	addr := runStock(t,
		&schedulerv1.NamedJob{Name: "remind", Metadata: bare, Job: &schedulerv1.Job{DueTime: proto.String("2999-01-01T00:00:00Z")}},
		&schedulerv1.NamedJob{Name: "sub-second", Metadata: bare, Job: &schedulerv1.Job{Schedule: proto.String("@every 1ms")}},
		&schedulerv1.NamedJob{Name: "past", Metadata: appJobs("shop"), Job: &schedulerv1.Job{Schedule: proto.String("@hourly"), Ttl: proto.String("2020-01-01T00:00:00Z")}},
		&schedulerv1.NamedJob{Name: "never", Metadata: appJobs("shop"), Job: &schedulerv1.Job{Schedule: proto.String("0 0 0 30 2 *")}})
	to := runStandIn(t, "--listen", "127.0.0.1:0")
	code, out, errOut := rouseCommand(t, "dapr-import", addr, "--app", "shop", "--actor-type", "Cart", "--server", to.at["api"])
	if code != cli.ExitFailure || out != "2 imported, 0 there already, 1 over, 0 left out, 1 failed\n" ||
		!strings.Contains(errOut, "dapr.default/job/shop/never: ") || !strings.Contains(errOut, "concurrency keys") {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	got := to.jobs(reminders("Cart", "7"))
	if len(got) != 2 || got[0].Name != "remind" || got[0].Metadata.AppId != "shop" || got[0].Job.FailurePolicy == nil {
		t.Errorf("there are %v", got)
	}
}

func TestDaprImportWithIdentities(t *testing.T) {
	ca := identitytest.NewCA(t)
	server, serverKey := ca.Issue(t.TempDir(), "spiffe://cluster.local/ns/dapr-system/dapr-scheduler")
	from := runStandIn(t, "--dapr-cert", server, "--dapr-key", serverKey, "--dapr-trust-anchors", ca.AnchorsFile)
	shop, shopKey := ca.Issue(t.TempDir(), "spiffe://cluster.local/ns/default/shop")
	other, otherKey := ca.Issue(t.TempDir(), "spiffe://cluster.local/ns/default/other")
	try := func(cert, key string, more ...string) (int, string, string) {
		return rouseCommand(t, append([]string{"dapr-import", from.at["dapr"], "--app", "shop", "--dry-run", "--cert", cert, "--key", key}, more...)...)
	}
	if code, out, errOut := try(shop, shopKey, "--trust-anchors", ca.AnchorsFile); code != 0 || !strings.HasPrefix(out, "0 good") {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	if code, out, errOut := try(other, otherKey, "--trust-anchors", ca.AnchorsFile); code == 0 || !strings.Contains(errOut, "identity does not match") {
		t.Errorf("as another: %d %q %q", code, out, errOut)
	}
	if code, _, errOut := try(other, otherKey, "--trust-anchors", identitytest.NewCA(t).AnchorsFile); code != cli.ExitUsage || !strings.Contains(errOut, "is no identity") {
		t.Errorf("with other trust anchors: %d %q", code, errOut)
	}
	if code, _, errOut := try(shop, shopKey); code != cli.ExitUsage || !strings.Contains(errOut, "go together") {
		t.Errorf("without trust anchors: %d %q", code, errOut)
	}
}

func TestDaprImportThatCannotBe(t *testing.T) {
	for want, args := range map[string][]string{
		"whose jobs":                {"127.0.0.1:1"},
		"where are the jobs":        {"--app", "shop"},
		"or from its etcd":          {"127.0.0.1:1", "--etcd", "127.0.0.1:1"},
		"no address of an etcd":     {"--etcd", "nowhere"},
		"read the etcd":             {"--etcd", "127.0.0.1:1", "--dry-run"},
		"do not go with --etcd":     {"--etcd", "127.0.0.1:1", "--since=-5m"},
		"is no address":             {"nowhere", "--app", "shop"},
		"list the jobs of app shop": {"127.0.0.1:1", "--app", "shop", "--dry-run"},
		"is a server running at":    {runStock(t), "--app", "shop", "--server", "127.0.0.1:1"},
	} {
		code, out, errOut := rouseCommand(t, append([]string{"dapr-import"}, args...)...)
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%q: %d %q %q", args, code, out, errOut)
		}
	}
}
