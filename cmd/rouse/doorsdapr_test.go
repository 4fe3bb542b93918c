package main

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/node/dapr"
)

// daprInput is one of the inputs as a job of Dapr's. The verdict is that of the other doors, unless the
// protocol has a rule of its own.
type daprInput struct {
	input string // what of the input
	job   *schedulerv1.Job
	own   *refusal
}

func cronJob(cron string) *schedulerv1.Job { return &schedulerv1.Job{Schedule: proto.String(cron)} }

func dueJob(due string) *schedulerv1.Job { return &schedulerv1.Job{DueTime: proto.String(due)} }

var (
	plainJob = cronJob("@every 1h")
	// taken is the verdict on names that only Dapr's protocol has. The timer's name is another text, which
	// all doors take.
	taken   = &refusal{}
	slashed = &refusal{"name", "contains '/'"}
)

var daprInputs = []daprInput{
	{"plain", plainJob, nil},
	{"name with a bell", plainJob, nil},
	{"name of a path", plainJob, slashed},
	{"name in dots", plainJob, slashed},
	{"name ..", plainJob, taken},
	{"name with a space", plainJob, taken},
	{"name that turns", plainJob, taken},
	{"name of no width", plainJob, taken},
	{"name of no character", plainJob, taken},
	{"name not NFC", plainJob, taken},
	{"long name", plainJob, taken},

	{"no schedule", &schedulerv1.Job{}, nil},
	{"odd schedule", cronJob("2027-01-31"), &refusal{"schedule", "has 1 fields, and cron has 6 here"}},
	{"odd schedule", dueJob("2027-01-31"), &refusal{"due-time", "is no time and no duration"}},
	{"tabs in cron", cronJob("0 0\t9 *\t* *"), nil},
	{"comma in an instant", dueJob("2097-01-31T09:00:00,5Z"), nil},
	{"part of a millisecond", dueJob("500us"), taken},
	{"too often", cronJob("@every 5ms"), nil},
	{"too often from a time on", &schedulerv1.Job{Schedule: proto.String("@every 5ms"), DueTime: proto.String("2090-01-01T00:00:00Z")}, nil},
	{"cron that never matches", cronJob("0 0 0 30 2 *"), nil},
	{"no zone", cronJob("TZ=Mars/Olympus 0 0 9 * * *"), &refusal{"schedule", "is no time zone"}},
	{"end before start", &schedulerv1.Job{Schedule: plainJob.Schedule, DueTime: proto.String("2091-01-01T00:00:00Z"), Ttl: proto.String("2090-01-01T00:00:00Z")},
		&refusal{"ttl", "ends before due_time, 2091-01-01T00:00:00.000Z"}},
	{"many occurrences", &schedulerv1.Job{Schedule: proto.String("@hourly"), Repeats: proto.Uint32(rouse.MaxOccurrences + 1)}, &refusal{"repeats", "is too many"}},
	{"large payload", &schedulerv1.Job{Schedule: plainJob.Schedule, Data: &anypb.Any{Value: make([]byte, rouse.MaxJob)}}, &refusal{"data", "has 20972"}},
}

// TestDaprsDoorTakesAndRefusesTheSame schedules each input as a job. What is taken is a timer that the other
// doors show.
func TestDaprsDoorTakesAndRefusesTheSame(t *testing.T) {
	d := openDoors(t)
	conn, err := grpc.NewClient(dapr.Of(d.n).Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sidecar, m := schedulerv1.NewSchedulerClient(conn), appJobs("shop")
	for _, in := range daprInputs {
		at := slices.IndexFunc(inputs, func(i input) bool { return i.what == in.input })
		if at < 0 {
			t.Fatalf("there is no input %q", in.input)
		}
		name, want := cmp.Or(inputs[at].name, "n"), *cmp.Or(in.own, &inputs[at].refusal)
		_, err := sidecar.ScheduleJob(t.Context(), &schedulerv1.ScheduleJobRequest{Name: name, Job: in.job, Metadata: m, Overwrite: true})
		got := judged(rousev1.StatusToError(status.Convert(err)))
		if got.field = strings.TrimPrefix(got.field, "job."); got.field != want.field || !strings.HasPrefix(got.wrong, want.wrong) || want.wrong == "" && got.wrong != "" {
			t.Errorf("%s: %q %q, want %q %q", in.input, got.field, got.wrong, want.field, want.wrong)
		}
		if err == nil {
			d.shows(name, m)
		}
	}
}

// shows checks that the timer of a job is there for the other doors, and the job by its own name for Dapr's.
func (d *doors) shows(name string, m *schedulerv1.JobMetadata) {
	d.t.Helper()
	ref, err := job.Of(name, m)
	if err != nil {
		d.t.Fatal(err)
	}
	key := ref.Key()
	if _, v := d.ask("GET", api.TimerPath(key.Namespace, key.Name), nil); v != (refusal{}) {
		d.t.Errorf("HTTP does not show the timer %q of the job %q: %v", key.Name, name, v)
	}
	if _, err := d.grpc.Get(d.t.Context(), key.Namespace, key.Name); err != nil {
		d.t.Errorf("gRPC does not show the timer %q of the job %q: %v", key.Name, name, err)
	}
	if v := d.command("", "get", "--namespace", key.Namespace, "--", key.Name); v != (refusal{}) {
		d.t.Errorf("the command line does not show the timer %q of the job %q: %v", key.Name, name, v)
	}
}
