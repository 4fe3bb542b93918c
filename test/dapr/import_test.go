package dapr

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// schedulerAt returns a client of a scheduler, which may not be running yet.
func schedulerAt(t *testing.T, port string) schedulerv1.SchedulerClient {
	t.Helper()
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return schedulerv1.NewSchedulerClient(conn)
}

// triggers receives the next n triggers of an app and answers each with success.
func triggers(t *testing.T, from schedulerv1.SchedulerClient, app string, n int) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := from.WatchJobs(ctx)
	if err == nil {
		err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{
			Initial: &schedulerv1.WatchJobsRequestInitial{AppId: app, Namespace: "default"}}})
	}
	for err == nil && len(names) < n {
		var m *schedulerv1.WatchJobsResponse
		if m, err = stream.Recv(); err == nil {
			names = append(names, m.Name)
			err = stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Result{Result: &schedulerv1.WatchJobsRequestResult{Id: m.Id}}})
		}
	}
	if err != nil {
		t.Fatalf("after %q: %v", names, err)
	}
	time.Sleep(time.Second) // the last answer must arrive before the stream ends
	return names
}

// Jobs that are read from the etcd of Dapr's own scheduler continue exactly: counters, due times, intervals,
// limits, data and policies.
func TestImportFromTheEtcdOfDaprsScheduler(t *testing.T) {
	old, etcd, api, moved := port(t), port(t), port(t), port(t)
	start(t, "scheduler", "--id", "s", "--listen-address", "127.0.0.1", "--port", old, "--healthz-port", port(t), "--metrics-port", port(t),
		"--etcd-initial-cluster", "s=http://127.0.0.1:"+port(t), "--etcd-client-port", etcd, "--etcd-data-dir", t.TempDir(),
		"--identity-directory-write", t.TempDir())
	start(t, "rouse", "serve", "--listen", "127.0.0.1:"+api, "--admin", "", "--data", t.TempDir(), "--dapr-listen", "127.0.0.1:"+moved)
	from, to := schedulerAt(t, old), schedulerAt(t, moved)

	job := &schedulerv1.JobTargetMetadata{Type: &schedulerv1.JobTargetMetadata_Job{Job: &schedulerv1.TargetJob{}}}
	cart := &schedulerv1.JobTargetMetadata{Type: &schedulerv1.JobTargetMetadata_Actor{Actor: &schedulerv1.TargetActorReminder{Type: "Cart", Id: "7"}}}
	shop := &schedulerv1.JobMetadata{Namespace: "default", AppId: "shop", Target: job}
	reminders := &schedulerv1.JobMetadata{Namespace: "prod", AppId: "shop", Target: cart, ConcurrencyKey: proto.String("k")}
	data, err := anypb.New(wrapperspb.String("data"))
	if err != nil {
		t.Fatal(err)
	}
	drop := &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Drop{Drop: &schedulerv1.JobFailurePolicyDrop{}}}
	put := func(m *schedulerv1.JobMetadata, name string, j *schedulerv1.Job) {
		t.Helper()
		eventually(t, "the scheduler takes "+name, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := from.ScheduleJob(ctx, &schedulerv1.ScheduleJobRequest{Name: name, Metadata: m, Job: j, Overwrite: true})
			return err == nil
		})
	}
	began := time.Now()
	put(shop, "delay", &schedulerv1.Job{DueTime: proto.String("90m"), Data: data, FailurePolicy: drop})
	put(shop, "interval", &schedulerv1.Job{Schedule: proto.String("@every 1h"), Repeats: proto.Uint32(5)})
	put(shop, "cron", &schedulerv1.Job{Schedule: proto.String("TZ=Europe/Berlin @yearly"), Ttl: proto.String("90000h")})
	put(reminders, "remind me", &schedulerv1.Job{DueTime: proto.String("2h"), Schedule: proto.String("@every 10m")})
	scheduled := time.Now()
	put(shop, "tick", &schedulerv1.Job{Schedule: proto.String("@every 2s"), Repeats: proto.Uint32(6)})
	triggers(t, from, "shop", 2)

	rouse := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(programs(t), "rouse"), append([]string{"--server", "127.0.0.1:" + api}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rouse %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := rouse("dapr-import", "--etcd", "127.0.0.1:"+etcd); !strings.HasSuffix(out, "5 imported, 0 there already, 0 over, 0 left out, 0 failed\n") {
		t.Errorf("the import reports %s", out)
	}
	for name, want := range map[string]struct {
		after  time.Duration
		passed uint64
	}{
		"dapr.default job/shop/delay":        {90 * time.Minute, 0},
		"dapr.default job/shop/interval":     {time.Hour, 0},
		`dapr.prod actor/Cart/7/remind\20me`: {2 * time.Hour, 0},
		"dapr.default job/shop/tick":         {6 * time.Second, 2},
	} {
		namespace, name, _ := strings.Cut(name, " ")
		var got struct {
			Due    time.Time
			Passed uint64
		}
		if err := json.Unmarshal([]byte(rouse("get", "--json", "--namespace", namespace, "--", name)), &got); err != nil {
			t.Fatal(err)
		}
		first, last := began.Add(want.after).Add(-time.Second), scheduled.Add(want.after).Add(patience)
		if got.Passed != want.passed || got.Due.Before(first) || got.Due.After(last) {
			t.Errorf("%s has passed %d and is due at %v, want %d, and %v to %v", name, got.Passed, got.Due, want.passed, first, last)
		}
	}
	r, err := to.GetJob(t.Context(), &schedulerv1.GetJobRequest{Name: "delay", Metadata: shop})
	if err != nil || r.Job.GetDueTime() != "90m" || !proto.Equal(r.Job.Data, data) || r.Job.FailurePolicy.GetDrop() == nil {
		t.Errorf("the job is %v, %v", r, err)
	}
	list, err := to.ListJobs(t.Context(), &schedulerv1.ListJobsRequest{Metadata: reminders})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "remind me" || list.Jobs[0].Metadata.GetConcurrencyKey() != "k" {
		t.Errorf("the reminders are %v, %v", list, err)
	}
	if got := fmt.Sprint(triggers(t, to, "shop", 4)); got != "[tick tick tick tick]" {
		t.Errorf("the triggers that were left are %s", got)
	}
	eventually(t, "the job that has ticked six times is gone", func() bool {
		_, err := to.GetJob(t.Context(), &schedulerv1.GetJobRequest{Name: "tick", Metadata: shop})
		return err != nil
	})
	if out := rouse("dapr-import", "--etcd", "127.0.0.1:"+etcd, "--app", "shop", "--dapr-namespace", "default"); !strings.Contains(out, "3 there already") {
		t.Errorf("the second import reports %s", out)
	}
}
