package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/serve"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/identity/identitytest"
)

// standIn is a running stand-in of Dapr's scheduler.
type standIn struct {
	t       *testing.T
	at      map[string]string // addresses by name
	signal  func()
	ended   <-chan error
	sidecar schedulerv1.SchedulerClient
}

// runStandIn starts one within the test's process, on free ports of loopback.
func runStandIn(t *testing.T, flags ...string) *standIn {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "addresses")
	ctx, cancel := context.WithCancelCause(context.Background())
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := cli.NewApp(ctx, null, null, null)
	k, err := parseCommand(a, append([]string{"dapr-scheduler", "--listen-address", "127.0.0.1", "--port", "0", "--healthz-listen-address", "127.0.0.1", "--healthz-port", "0",
		"--metrics-listen-address", "127.0.0.1", "--metrics-port", "0", "--store", "mem:", "--data", dir, "--address-file", file}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		defer null.Close()
		ended <- k.Run(a)
	})
	s := &standIn{t: t, at: map[string]string{}, ended: ended, signal: func() { cancel(&cli.Interrupted{Signal: syscall.SIGTERM}) }}
	t.Cleanup(func() { s.signal(); running.Wait() })
	s.until("the stand-in listens", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the stand-in has ended: %v", err)
		default:
		}
		body, err := os.ReadFile(file)
		return err == nil && len(body) > 0
	})
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		name, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.at[name] = addr
	}
	conn, err := grpc.NewClient(s.at["dapr"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.sidecar = schedulerv1.NewSchedulerClient(conn)
	return s
}

func (s *standIn) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(scriptPatience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited %v until %s", scriptPatience, what)
		}
	}
}

// health returns the status of GET /healthz; 0 if there is no response.
func (s *standIn) health() (code int, text string) {
	s.t.Helper()
	r, err := http.Get("http://" + s.at["healthz"] + "/healthz")
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, strings.TrimSpace(string(body))
}

// stuck opens a watch that has a trigger, and does not answer it. answer does.
func (s *standIn) stuck() (answer func()) {
	s.t.Helper()
	stream, err := s.sidecar.WatchJobs(s.t.Context())
	if err == nil {
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: "a", Namespace: "default"}}})
	}
	if err == nil {
		_, err = s.sidecar.ScheduleJob(s.t.Context(), &schedulerv1.ScheduleJobRequest{Name: "x", Job: &schedulerv1.Job{DueTime: proto.String("0s")},
			Metadata: &schedulerv1.JobMetadata{Namespace: "default", AppId: "a", Target: &schedulerv1.JobTargetMetadata{
				Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{
			Result: &schedulerv1.WatchJobsRequestResult{Id: m.Id}}}); err != nil {
			s.t.Error(err)
		}
	}
}

// While it waits for sidecars, it is not ready for new ones.
func TestStandInIsUnreadyBeforeItDrains(t *testing.T) {
	s := runStandIn(t, "--grace", "1h")
	s.until("it is ready", func() bool { code, text := s.health(); return code == http.StatusOK && text == "" })
	answer := s.stuck()
	s.signal()
	s.until("it reports that it is stopping", func() bool {
		code, text := s.health()
		return code == http.StatusServiceUnavailable && text == "the server is stopping"
	})
	select {
	case err := <-s.ended:
		t.Fatalf("it has ended, with %v, before the sidecar has answered", err)
	default:
	}
	answer()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if code, _ := s.health(); code != 0 {
		t.Errorf("there is a response with %d after it has ended", code)
	}
}

// A sidecar that does not answer does not keep it from ending, and well.
func TestStandInEndsThoughAStreamIsStuck(t *testing.T) {
	s := runStandIn(t)
	s.stuck()
	s.signal()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// The chart's annotations name no path of the metrics, so they are at / too.
func TestStandInHasMetricsAtTheRoot(t *testing.T) {
	s := runStandIn(t)
	for path, want := range map[string]int{"/": http.StatusOK, "/metrics": http.StatusOK, "/other": http.StatusNotFound} {
		r, err := http.Get("http://" + s.at["metrics"] + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != want || strings.Contains(string(body), "dapr_scheduler_sidecars_connected") != (want == http.StatusOK) {
			t.Errorf("GET %s: %d, %v", path, r.StatusCode, err)
		}
	}
}

// The program is Dapr's scheduler where it has that name, as in the images that Dapr's chart runs.
func TestProgramCalledScheduler(t *testing.T) {
	for line, want := range map[string]string{
		"rouse list":          "list",
		"/scheduler --port 1": "dapr-scheduler --port 1",
		"./scheduler.exe --log-level info --id a": "dapr-scheduler --log-level info --id a",
		"/usr/bin/myscheduler x":                  "x",
		"":                                        "",
	} {
		if got := strings.Join(programArguments(strings.Fields(line)), " "); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}

// scrape returns the response to GET /metrics.
func (s *standIn) scrape() string {
	s.t.Helper()
	r, err := http.Get("http://" + s.at["metrics"] + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("%d, %v", r.StatusCode, err)
	}
	return string(body)
}

// The names, labels and buckets are those of Dapr's scheduler.
func TestStandInHasTheMetricsOfDapr(t *testing.T) {
	s := runStandIn(t)
	answer := s.stuck()
	for _, line := range []string{
		"dapr_scheduler_sidecars_connected 1",
		`dapr_scheduler_jobs_created_total{type="job"} 1`, `dapr_scheduler_jobs_created_total{type="actor"} 0`,
		`dapr_scheduler_jobs_created_failed_total{type="job"} 0`, `dapr_scheduler_jobs_deleted_total{type="actor"} 0`,
		"dapr_scheduler_jobs_bulk_deleted_total 0", `dapr_scheduler_jobs_triggered_total{type="job"} 0`,
		`dapr_scheduler_jobs_failed_total{type="job"} 0`, `dapr_scheduler_jobs_undelivered_total{type="job"} 0`,
		`dapr_scheduler_sidecar_errors_total{reason="auth_failed"} 0`, `dapr_scheduler_sidecar_errors_total{reason="send_failed"} 0`,
		`dapr_scheduler_sidecar_errors_total{reason="recv_failed"} 0`,
	} {
		if !strings.Contains(s.scrape(), "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	answer()
	s.until("the answer is counted", func() bool { return strings.Contains(s.scrape(), `dapr_scheduler_jobs_triggered_total{type="job"} 1`) })
	text := s.scrape()
	for _, le := range []string{"0", "100", "500", "1000", "5000", "10000", "+Inf"} {
		if !strings.Contains(text, fmt.Sprintf("dapr_scheduler_trigger_latency_bucket{type=%q,le=%q} ", "job", le)) {
			t.Errorf("the latency has no bucket %s", le)
		}
	}
	s.until("the latency has counted the trigger", func() bool { return strings.Contains(s.scrape(), `dapr_scheduler_trigger_latency_count{type="job"} 1`) })

	// A limit that is full.
	actors := &schedulerv1.JobMetadata{Namespace: "default", AppId: "a", Target: &schedulerv1.JobTargetMetadata{
		Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: "T", Id: "i"}}}}
	stream, err := s.sidecar.WatchJobs(t.Context())
	if err == nil {
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: "a", Namespace: "default", ActorTypes: []string{"T"}, ConcurrencyLimits: []*schedulerv1.ConcurrencyLimit{
				{MaxConcurrent: 1, Target: &schedulerv1.ConcurrencyLimit_Actor{Actor: &schedulerv1.ConcurrencyLimitActor{Type: "T"}}}}}}})
	}
	if err == nil {
		_, err = stream.Header()
	}
	for _, name := range []string{"x", "y"} {
		if err == nil {
			_, err = s.sidecar.ScheduleJob(t.Context(), &schedulerv1.ScheduleJobRequest{Name: name, Metadata: actors, Job: &schedulerv1.Job{DueTime: proto.String("0s")}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`dapr_scheduler_concurrency_inflight{concurrency_key="T"} 1`, `dapr_scheduler_concurrency_pending{concurrency_key="T"} 1`,
		`dapr_scheduler_concurrency_throttled_total{concurrency_key="T"} 1`} {
		s.until("there is "+line, func() bool { return strings.Contains(s.scrape(), line) })
	}
}

// With Sentry the stand-in is ready when it has a certificate, and then speaks with those that it believes
// only.
func TestStandInGetsItsIdentityFromSentry(t *testing.T) {
	ca := identitytest.NewCA(t)
	t.Setenv("NAMESPACE", "dapr-system")
	sentry := identitytest.StartSentry(t, ca, "spiffe://cluster.local/ns/dapr-system/dapr-sentry")
	sentry.Set(time.Hour, status.Error(codes.Unavailable, "away"), "")
	s := runStandIn(t, "--tls-enabled", "--sentry-address", sentry.Addr, "--trust-anchors-file", ca.AnchorsFile, "--trust-domain=cluster.local")
	s.until("Sentry was asked", func() bool { return len(sentry.Asked()) > 0 })
	if code, text := s.health(); code != http.StatusServiceUnavailable || !strings.Contains(text, "no certificate yet") {
		t.Errorf("its health is %d %q without a certificate", code, text)
	}
	sentry.Set(time.Hour, nil, "")
	s.until("it is ready", func() bool { code, _ := s.health(); return code == http.StatusOK })

	cert, key := ca.Issue(t.TempDir(), "spiffe://public/ns/default/a")
	i, err := identity.FromFiles(identity.Files{Certificate: cert, Key: key, TrustAnchors: ca.AnchorsFile})
	if err != nil {
		t.Fatal(err)
	}
	want := identity.ID{TrustDomain: "cluster.local", Namespace: "dapr-system", App: "dapr-scheduler"}
	conn, err := grpc.NewClient(s.at["dapr"], grpc.WithTransportCredentials(i.Dialer(identity.Only(want))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	put := func(c schedulerv1.SchedulerClient, app string) error {
		_, err := c.ScheduleJob(t.Context(), &schedulerv1.ScheduleJobRequest{Name: "x", Job: &schedulerv1.Job{DueTime: proto.String("1h")},
			Metadata: &schedulerv1.JobMetadata{Namespace: "default", AppId: app, Target: &schedulerv1.JobTargetMetadata{
				Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}}})
		return err
	}
	if err := put(schedulerv1.NewSchedulerClient(conn), "a"); err != nil {
		t.Error(err)
	}
	if err := put(schedulerv1.NewSchedulerClient(conn), "b"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v as another app", err)
	}
	if err := put(s.sidecar, "a"); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v in plain text", err)
	}
	s.until("the refused one is counted", func() bool {
		return strings.Contains(s.scrape(), `dapr_scheduler_sidecar_errors_total{reason="auth_failed"} 1`)
	})
}

// Without Sentry's first certificate it ends as well as with it.
func TestStandInEndsWithoutACertificate(t *testing.T) {
	ca := identitytest.NewCA(t)
	s := runStandIn(t, "--tls-enabled", "--sentry-address", "127.0.0.1:1", "--trust-anchors-file", ca.AnchorsFile)
	s.signal()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// The flags of Dapr's scheduler become settings, but where those are given.
func TestStandInSettings(t *testing.T) {
	t.Setenv("NAMESPACE", "dapr-system")
	t.Setenv("DAPR_SENTRY_TOKEN_FILE", "token")
	t.Chdir(t.TempDir())
	for args, want := range map[string]map[string]string{
		"": {"dapr-listen": ":50006", "listen": "", "admin": "", "roles": "scheduler,executor", "insecure": "dapr", "grace": "2s", "node": "", "data": "./rouse-data",
			"dapr-sentry": "", "dapr-trust-anchors": "", "log-format": "text", "dapr-advertise": ""},
		"--port=1 --listen-address ::1 --id a-0 --override-broadcast-host-port h:2 --etcd-data-dir e --log-as-json": {
			"dapr-listen": "[::1]:1", "node": "a-0", "dapr-advertise": "h:2", "data": "e/rouse", "log-format": "json"},
		"--port=1 --dapr-listen 127.0.0.1:2 --id a --node b --etcd-data-dir e --data d --admin 127.0.0.1:3 --listen 127.0.0.1:4 --grace 5s": {
			"dapr-listen": "127.0.0.1:2", "node": "b", "data": "d", "admin": "127.0.0.1:3", "listen": "127.0.0.1:4", "roles": "", "insecure": "dapr", "grace": "5s"},
		"--admin :9000 --insecure=dapr,admin": {"admin": ":9000", "insecure": "dapr, admin"},
		"--tls-enabled": {"dapr-sentry": "dapr-sentry.dapr-system.svc:443", "dapr-trust-anchors": "/var/run/secrets/dapr.io/tls/ca.crt", "dapr-trust-domain": "localhost",
			"dapr-namespace": "dapr-system", "dapr-sentry-token": "token", "dapr-sentry-kubernetes": "false"},
		"--mode kubernetes --sentry-address s:1 --trust-anchors-file f --trust-domain td": {"dapr-sentry": "s:1", "dapr-trust-anchors": "f", "dapr-trust-domain": "td",
			"dapr-sentry-kubernetes": "false", "dapr-sentry-token": "token"},
		"--tls-enabled --dapr-workload-api unix:/a":                       {"dapr-sentry": "", "dapr-trust-anchors": ""},
		"--tls-enabled --trust-anchors-file f --dapr-cert c --dapr-key k": {"dapr-sentry": "", "dapr-trust-anchors": "f", "dapr-cert": "c"},
	} {
		a := cli.NewApp(context.Background(), os.Stdin, os.Stdout, os.Stderr)
		c, err := parseCommand(a, append([]string{"dapr-scheduler"}, strings.Fields(args)...))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		in, err := c.(*serve.DaprSchedulerCmd).LoadSettings(a)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		for _, s := range in.ConfigSettings() {
			if text, ok := want[s.Name]; ok && s.Text() != text {
				t.Errorf("%s: %s is %q, want %q", args, s.Name, s.Text(), text)
			}
		}
	}
}

// What sidecars may reach without identities opens no other listener to other machines.
func TestStandInOpensNothingElse(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, of := range map[string]string{"--admin :9000": "admin", "--listen :7411": "listen"} {
		a := cli.NewApp(context.Background(), os.Stdin, os.Stdout, os.Stderr)
		c, err := parseCommand(a, append([]string{"dapr-scheduler"}, strings.Fields(args)...))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if _, err := c.(*serve.DaprSchedulerCmd).LoadSettings(a); err == nil || !strings.Contains(err.Error(), of+": ") || !strings.Contains(err.Error(), "other machines") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
