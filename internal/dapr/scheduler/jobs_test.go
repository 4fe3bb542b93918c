package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/poll"
)

func TestJobIsTriggeredAsItWasScheduled(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		w := h.watch(jobsOf("a"))
		m := app("a")
		m.ConcurrencyKey = proto.String("k")
		began := time.Now()
		h.put(m, "hello", &schedulerv1.Job{DueTime: proto.String("300ms"), Data: data(t, "payload")})
		got := w.next()
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("it came %v early", 300*time.Millisecond-took)
		}
		want := &schedulerv1.WatchJobsResponse{Name: "hello", Id: 1, Data: data(t, "payload"), Metadata: m}
		if !proto.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		w.done(got)
		poll.Until(t, "the job to be gone", func() bool {
			_, err := h.get(m, "hello")
			return err != nil
		})
	})
}

func TestJobIsGivenBackAsItWasWritten(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		j := &schedulerv1.Job{Schedule: proto.String("@every 1h0m"), DueTime: proto.String("100s"), Ttl: proto.String("PT9H"),
			Repeats: proto.Uint32(7), Data: data(t, "x")}
		h.put(app("a"), "x", j)
		got, err := h.get(app("a"), "x")
		if err != nil {
			t.Fatal(err)
		}
		want := proto.Clone(j).(*schedulerv1.Job)
		want.FailurePolicy = &schedulerv1.JobFailurePolicy{Policy: &schedulerv1.JobFailurePolicy_Constant{
			Constant: &schedulerv1.JobFailurePolicyConstant{Interval: durationpb.New(time.Second), MaxRetries: proto.Uint32(3)}}}
		if !proto.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		list, err := h.ListJobs(t.Context(), &schedulerv1.ListJobsRequest{Metadata: app("a")})
		if err != nil || len(list.Jobs) != 1 || !proto.Equal(list.Jobs[0], &schedulerv1.NamedJob{Name: "x", Metadata: app("a"), Job: want}) {
			t.Errorf("the list is %v, %v", list, err)
		}
	})
}

func TestOverwrite(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		h.put(app("a"), "x", due("1h"))
		err := h.schedule(app("a"), "x", due("2h"), false)
		wantCode(t, err, codes.AlreadyExists)
		if text := status.Convert(err).Message(); !strings.Contains(text, "job already exists") {
			t.Errorf("the message is %q", text)
		}
		if err := h.schedule(app("a"), "x", due("nonsense"), true); err == nil {
			t.Error("nonsense is taken")
		}
		if j, err := h.get(app("a"), "x"); err != nil || j.GetDueTime() != "1h" {
			t.Errorf("after what was refused the job is %v, %v", j, err)
		}
		for range 2 {
			if err := h.schedule(app("a"), "x", due("3h"), true); err != nil {
				t.Fatal(err)
			}
		}
		if j, err := h.get(app("a"), "x"); err != nil || j.GetDueTime() != "3h" {
			t.Errorf("after an overwrite the job is %v, %v", j, err)
		}
	})
}

func TestGetAndDeleteOfWhatIsNotThere(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	_, err := h.get(app("a"), "absent")
	wantCode(t, err, codes.NotFound)
	if text := status.Convert(err).Message(); text != "job not found: absent" {
		t.Errorf("the message is %q", text)
	}
	if _, err := h.DeleteJob(t.Context(), &schedulerv1.DeleteJobRequest{Name: "absent", Metadata: app("a")}); err != nil {
		t.Error(err)
	}
	h.put(app("a"), "x", due("1h"))
	if _, err := h.DeleteJob(t.Context(), &schedulerv1.DeleteJobRequest{Name: "x", Metadata: app("a")}); err != nil {
		t.Error(err)
	}
	_, err = h.get(app("a"), "x")
	wantCode(t, err, codes.NotFound)
}

// A reminder's owner does not depend on the app that asks.
func TestRemindersBelongToTheirActor(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	h.put(actor("T", "1"), "x", due("1h"))
	other := actor("T", "1")
	other.AppId = "another"
	if _, err := h.get(other, "x"); err != nil {
		t.Error(err)
	}
	wantCode(t, h.schedule(other, "x", due("1h"), false), codes.AlreadyExists)
	elsewhere := actor("T", "1")
	elsewhere.Namespace = "elsewhere"
	_, err := h.get(elsewhere, "x")
	wantCode(t, err, codes.NotFound)
}

// Names that the protocol's first server confused.
func TestNamesDoNotCollide(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	long := strings.Repeat("é", 100)
	jobs := []struct {
		m    *schedulerv1.JobMetadata
		name string
	}{{app("a||b"), "c"}, {app("a"), "b||c"}, {app("a"), ""}, {app("a"), " "}, {app("a"), "  "}, {app("a"), "."}, {app("a"), ".."}, {app("a"), "%20"},
		{app("a"), "@x|y"}, {app(long), long + "1"}, {app(long), long + "2"}, {actor("a", "b||c"), "d"}, {actor("a", "b"), "c||d"}, {actor("a||b", "c"), "d"},
		{actor("", ""), ""}, {app("actor"), "x"}}
	for i, j := range jobs {
		h.put(j.m, j.name, due(fmt.Sprint(i+1, "h")))
	}
	for i, j := range jobs {
		if got, err := h.get(j.m, j.name); err != nil || got.GetDueTime() != fmt.Sprint(i+1, "h") {
			t.Errorf("%v %q is %v, %v", j.m, j.name, got, err)
		}
	}
	if got := h.list(app("a")); !slices.Equal(got, []string{"", " ", "  ", "%20", ".", "..", "@x|y", "b||c"}) {
		t.Errorf("the list of app a is %q", got)
	}
	if got := h.list(app(long)); !slices.Equal(got, []string{long + "1", long + "2"}) {
		t.Errorf("the list of the long app is %q", got)
	}
}

func TestRefusals(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	noApp := app("")
	nowhere := app("a")
	nowhere.Namespace = ""
	nothing := app("a")
	nothing.Target = &schedulerv1.JobTargetMetadata{}
	for name, c := range map[string]struct {
		m    *schedulerv1.JobMetadata
		name string
		job  *schedulerv1.Job
	}{
		"no metadata":                         {nil, "x", due("1h")},
		"no app":                              {noApp, "x", due("1h")},
		"no namespace":                        {nowhere, "x", due("1h")},
		"no target":                           {nothing, "x", due("1h")},
		"a slash":                             {app("a"), "x/y", due("1h")},
		"too long":                            {app("a"), strings.Repeat("x", 512), due("1h")},
		"no time":                             {app("a"), "x", &schedulerv1.Job{}},
		"no job, which ended the process":     {app("a"), "x", nil},
		"never, which fired all the time":     {app("a"), "x", every("0 0 0 30 2 *")},
		"backwards, which fired all the time": {app("a"), "x", every("@every -1s")},
		// daprd answers HTTP 500 to these, because they have no code of their own.
		"a zone alone, which panicked": {app("a"), "x", every("TZ=UTC")},
		"a zone that is none":          {app("a"), "x", every("CRON_TZ=Not/AZone 0 0 9 * * *")},
		"a zone of an interval":        {app("a"), "x", every("CRON_TZ=Europe/Rome @every 1h")},
	} {
		code := codes.InvalidArgument
		if strings.Contains(name, "zone") {
			code = codes.Unknown
		}
		wantCode(t, h.schedule(c.m, c.name, c.job, false), code)
		err := h.schedule(c.m, c.name, c.job, true)
		wantCode(t, err, code)
		if name == "no target" && !strings.Contains(err.Error(), "unknown job type") { // Dapr's own tests check this text
			t.Errorf("%s: %v", name, err)
		}
		if got := h.list(app("a")); len(got) != 0 {
			t.Fatalf("%s: there is %q", name, got)
		}
	}
	for _, m := range []*schedulerv1.JobMetadata{nil, noApp, nowhere, nothing} {
		_, err := h.get(m, "x")
		wantCode(t, err, codes.InvalidArgument)
		_, err = h.DeleteJob(t.Context(), &schedulerv1.DeleteJobRequest{Name: "x", Metadata: m})
		wantCode(t, err, codes.InvalidArgument)
		_, err = h.ListJobs(t.Context(), &schedulerv1.ListJobsRequest{Metadata: m})
		wantCode(t, err, codes.InvalidArgument)
		_, err = h.DeleteByMetadata(t.Context(), &schedulerv1.DeleteByMetadataRequest{Metadata: m})
		wantCode(t, err, codes.InvalidArgument)
		_, err = h.DeleteByNamePrefix(t.Context(), &schedulerv1.DeleteByNamePrefixRequest{Metadata: m})
		wantCode(t, err, codes.InvalidArgument)
	}
	for _, n := range []int{rouse.MaxJob, maxMessage} {
		j := due("1h")
		j.Data = &anypb.Any{Value: make([]byte, n)}
		wantCode(t, h.schedule(app("a"), "x", j, false), codes.ResourceExhausted)
	}
}

// Refusing a watch affects neither other watches nor the server.
func TestWatchOfNothingIsRefusedAlone(t *testing.T) {
	onStores(t, func(t *testing.T, h *harness) {
		good := h.watch(jobsOf("a"))
		stream, err := h.WatchJobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&schedulerv1.WatchJobsRequest{WatchJobRequestType: &schedulerv1.WatchJobsRequest_Initial{Initial: actorsOf()}}); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantCode(t, err, codes.InvalidArgument)
		h.put(app("a"), "x", due("1ms"))
		good.want("x")
	})
}

// Unanswered triggers of a stopped server are sent again by the next one.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	h := open(t, openPebble(t, dir))
	w := h.watch(jobsOf("a"))
	h.put(app("a"), "answered", due("1ms"))
	w.want("answered")
	poll.Until(t, "the answer to count", func() bool { return len(h.list(app("a"))) == 0 })
	h.put(app("a"), "unanswered", due("1ms"))
	h.put(app("b"), "staged", due("1ms"))
	h.put(app("a"), "later", due("1h"))
	if m := w.next(); m.Name != "unanswered" {
		t.Fatalf("got %s", m.Name)
	}
	h.stop()

	h = open(t, openPebble(t, dir))
	h.watch(jobsOf("a")).want("unanswered")
	h.watch(jobsOf("b")).want("staged")
	poll.Until(t, "the answer to count", func() bool { return slices.Equal(h.list(app("a")), []string{"later"}) })
}

// A recurring job is sent to each of an app's watches in turn.
func TestTriggersGoRound(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	ws := []*watcher{h.watch(jobsOf("a")), h.watch(jobsOf("a")), h.watch(jobsOf("a"))}
	h.put(app("a"), "x", every("@every 100ms"))
	for range 2 {
		for _, w := range ws {
			w.want("x")
		}
	}
}

func TestWatchThatIsCutGivesItsTriggersToAnother(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	w := h.watch(actorsOf("T"))
	for _, name := range names(50) {
		h.put(actor("T", "1"), name, due("1ms"))
	}
	for range 50 {
		w.next()
	}
	other := h.watch(actorsOf("T"))
	w.cut()
	came := map[string]int{}
	for range 50 {
		m := other.next()
		came[m.Name]++
		other.done(m)
	}
	if len(came) != 50 {
		t.Errorf("%d different ones came", len(came))
	}
	poll.Until(t, "all to be gone", func() bool { return len(h.list(actor("T", ""))) == 0 })
}

// A call ends at its deadline, even if the store does not answer.
func TestDeadlineOfACall(t *testing.T) {
	h := open(t, openPebble(t, t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := h.ScheduleJob(ctx, &schedulerv1.ScheduleJobRequest{Name: "x", Job: due("1h"), Metadata: app("a")})
	wantCode(t, err, codes.DeadlineExceeded)
}
