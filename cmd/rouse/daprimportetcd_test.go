package main

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rousehq/rouse/api"
	etcdv1 "github.com/rousehq/rouse/api/dapr/etcd/v1"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// fakeEtcd answers Range as etcd does, a few keys at a time.
type fakeEtcd struct {
	etcdv1.UnimplementedKVServer
	t    *testing.T
	keys map[string][]byte
}

func (e *fakeEtcd) Range(_ context.Context, r *etcdv1.RangeRequest) (*etcdv1.RangeResponse, error) {
	if r.Revision != 0 && r.Revision != 7 {
		e.t.Errorf("asked for the revision %d", r.Revision)
	}
	res := &etcdv1.RangeResponse{Header: &etcdv1.ResponseHeader{Revision: 7}}
	var keys []string
	for key := range e.keys {
		if key >= string(r.Key) && key < string(r.RangeEnd) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys[:min(len(keys), 2)] {
		res.Kvs = append(res.Kvs, &etcdv1.KeyValue{Key: []byte(key), Value: e.keys[key]})
	}
	res.More = len(keys) > 2
	return res, nil
}

func (e *fakeEtcd) put(key string, m proto.Message) {
	e.t.Helper()
	value, err := proto.Marshal(m)
	if err != nil {
		e.t.Fatal(err)
	}
	e.keys[key] = value
}

// job puts a job as Dapr's scheduler keeps it, and its counter if it has ticked.
func (e *fakeEtcd) job(key string, m *schedulerv1.JobMetadata, stored *etcdv1.StoredJob, count uint32, last time.Time) {
	e.t.Helper()
	meta, err := anypb.New(m)
	if err != nil {
		e.t.Fatal(err)
	}
	stored.PartitionId, stored.Job.Metadata = 17, meta
	e.put("dapr/jobs/"+key, stored)
	if count > 0 {
		e.put("dapr/counters/"+key, &etcdv1.StoredCounter{JobPartitionId: 17, Count: count, LastTrigger: timestamppb.New(last)})
	}
}

// Jobs of an etcd go on exactly where they are: due times, intervals, counters, ends, data, policies, limits;
// of all apps.
func TestDaprImportFromEtcd(t *testing.T) {
	e := &fakeEtcd{t: t, keys: map[string][]byte{"dapr/leadership/x": nil, "dapr/jobs0": nil}}
	now := time.Now().Truncate(time.Millisecond)
	data, err := anypb.New(wrapperspb.String("data"))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := proto.Marshal(&schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Drop{Drop: &schedulerv1.JobFailurePolicyDrop{}}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	shop := appJobs("shop")
	e.job("app||default||shop||delay", shop, &etcdv1.StoredJob{DueTime: at(time.Hour), Job: &etcdv1.StoredSpec{DueTime: proto.String("90m"), Payload: data, FailurePolicy: policy}}, 0, now)
	e.job("app||default||shop||interval", shop, &etcdv1.StoredJob{Start: at(-150 * time.Minute), Job: &etcdv1.StoredSpec{Schedule: proto.String("@every 1h"), Repeats: proto.Uint32(5)}},
		2, now.Add(-30*time.Minute))
	e.job("app||default||shop||fresh", shop, &etcdv1.StoredJob{Start: at(-20 * time.Minute), Job: &etcdv1.StoredSpec{Schedule: proto.String("@every 1h")}}, 0, now)
	e.job("app||default||shop||from", shop, &etcdv1.StoredJob{DueTime: at(-90 * time.Minute), Expiration: at(10 * time.Hour),
		Job: &etcdv1.StoredSpec{Schedule: proto.String("@every 1h"), DueTime: proto.String("30m"), Ttl: proto.String("690m")}}, 2, now.Add(-30*time.Minute))
	e.job("app||default||shop||used up", shop, &etcdv1.StoredJob{Start: at(-time.Hour), Job: &etcdv1.StoredSpec{Schedule: proto.String("@every 10m"), Repeats: proto.Uint32(3)}},
		3, now.Add(-30*time.Minute))
	e.job("app||default||shop||again", shop, &etcdv1.StoredJob{Start: at(-20 * time.Minute), Job: &etcdv1.StoredSpec{Schedule: proto.String("@every 1h"), Repeats: proto.Uint32(1)}}, 0, now)
	e.put("dapr/counters/app||default||shop||again", &etcdv1.StoredCounter{JobPartitionId: 16, Count: 1, LastTrigger: at(-time.Hour)}) // of the job that it replaced
	keyed := reminders("Cart", "a||b")
	keyed.ConcurrencyKey, keyed.Namespace = proto.String("k"), "prod"
	e.job("actorreminder||prod||Cart||a||b||re||mind", keyed, &etcdv1.StoredJob{DueTime: at(time.Hour), Job: &etcdv1.StoredSpec{DueTime: proto.String("2h")}}, 0, now)
	e.job("actorreminder||default||dapr.internal.default.shop.retentioner||1||r", reminders("dapr.internal.default.shop.retentioner", "1"),
		&etcdv1.StoredJob{DueTime: at(time.Hour), Job: &etcdv1.StoredSpec{DueTime: proto.String("2h")}}, 0, now)
	e.keys["dapr/jobs/app||default||shop||bad"] = []byte("\xff")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdv1.RegisterKVServer(server, e)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })

	to := runStandIn(t, "--listen", "127.0.0.1:0")
	args := []string{"dapr-import", "--etcd", l.Addr().String(), "--server", to.at["api"]}
	if code, out, errOut := rouseCommand(t, append(args, "--app", "shop", "--workflows", "--dry-run")...); code != cli.ExitFailure || !strings.HasPrefix(out, "6 good") {
		t.Errorf("of one app: %d %q %q", code, out, errOut)
	}
	if code, out, errOut := rouseCommand(t, append(args, "--dapr-namespace", "prod", "--dry-run")...); code != cli.ExitFailure || !strings.HasPrefix(out, "1 good") {
		t.Errorf("of one namespace: %d %q %q", code, out, errOut)
	}
	if code, out, errOut := rouseCommand(t, "import", l.Addr().String(), "--from", "dapr-etcd", "--dry-run"); code != cli.ExitFailure || !strings.HasPrefix(out, "7 good") {
		t.Errorf("as rouse import: %d %q %q", code, out, errOut)
	}
	code, out, errOut := rouseCommand(t, args...)
	if code != cli.ExitFailure || out != "7 imported, 0 there already, 1 over, 0 left out, 1 failed\n" || !strings.Contains(errOut, "app||default||shop||bad") || strings.Contains(errOut, "counted again") {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	for name, want := range map[string]struct {
		due    time.Duration
		passed uint64
	}{
		"job/shop/delay":    {time.Hour, 0},
		"job/shop/interval": {30 * time.Minute, 2},
		"job/shop/fresh":    {40 * time.Minute, 0},
		"job/shop/from":     {30 * time.Minute, 2},
		"job/shop/again":    {40 * time.Minute, 0},
		"actor/dapr.internal.default.shop.retentioner/1/r": {time.Hour, 0},
	} {
		_, out, errOut := rouseCommand(t, "get", name, "--namespace", "dapr.default", "--json", "--server", to.at["api"])
		var timer api.Timer
		if err := json.Unmarshal([]byte(out), &timer); err != nil {
			t.Errorf("%s: %v %s", name, err, errOut)
			continue
		}
		if due := timer.Due.Instant().Time(); !due.Equal(now.Add(want.due)) || timer.Passed != want.passed {
			t.Errorf("%s is due in %v, after %d, want %v, after %d", name, due.Sub(now), timer.Passed, want.due, want.passed)
		}
	}
	r, err := to.sidecar.GetJob(t.Context(), &schedulerv1.GetJobRequest{Name: "delay", Metadata: shop})
	if err != nil || r.Job.GetDueTime() != "90m" || !proto.Equal(r.Job.Data, data) || r.Job.FailurePolicy.GetDrop() == nil {
		t.Errorf("the job is %v, %v", r, err)
	}
	if list := to.jobs(keyed); len(list) != 1 || list[0].Name != "re||mind" || list[0].Metadata.GetConcurrencyKey() != "k" {
		t.Errorf("the reminders are %v", list)
	}
}
