package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

func goodSpec() *rousev1.Spec {
	return &rousev1.Spec{Schedule: "@every 5m", Target: "https://example.com/", Payload: []byte("hi")}
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Fatalf("%v, want %v: %v", got, code, err)
	}
}

// must fails the test on an error and returns the value.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestGRPCTimers(t *testing.T) {
	f := newFake()
	c := serve(t, Options{Timers: f}).timers()
	ctx := t.Context()
	timer := must[*rousev1.Timer](t)
	made := timer(c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec()}))
	if made.Namespace != "default" || made.Generation != 1 || made.State != "scheduled" || made.DueMs != int64(epoch.Add(time.Hour)) {
		t.Errorf("created %v", made)
	}
	if got := timer(c.Create(ctx, &rousev1.CreateRequest{Spec: goodSpec()})); len(got.Name) != 20 {
		t.Errorf("made up %q", got.Name)
	}
	_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec()})
	wantCode(t, err, codes.AlreadyExists)
	_, err = c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec(), ExpectedRevision: 9})
	wantCode(t, err, codes.Aborted)
	timer(c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec(), ExpectedRevision: 1}))
	timer(c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec(), Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE}))
	_, err = c.Create(ctx, &rousev1.CreateRequest{Name: "b", Spec: goodSpec(), Mode: rousev1.Mode_MODE_REPLACE_ONLY})
	wantCode(t, err, codes.NotFound)
	if got := timer(c.Get(ctx, &rousev1.GetRequest{Name: "a"})); got.Generation != 4 {
		t.Errorf("got %v", got)
	}
	if got := timer(c.Pause(ctx, &rousev1.PauseRequest{Name: "a", Reason: "why"})); got.State != "paused" || got.PauseReason != "why" {
		t.Errorf("paused %v", got)
	}
	if got := timer(c.Resume(ctx, &rousev1.ResumeRequest{Name: "a"})); got.State != "scheduled" {
		t.Errorf("resumed %v", got)
	}
	if got := must[*rousev1.RunResponse](t)(c.Run(ctx, &rousev1.RunRequest{Name: "a"})); len(got.FireId) != 26 || got.DueMs != int64(f.rows[rouse.Key{Namespace: "default", Name: "a"}].Runs[0]) {
		t.Errorf("ran %v", got)
	}
	page := must[*rousev1.ListResponse](t)(c.List(ctx, &rousev1.ListRequest{PageSize: 1}))
	if len(page.Timers) != 1 || page.NextPageToken == "" {
		t.Errorf("page %v", page)
	}
	page = must[*rousev1.ListResponse](t)(c.List(ctx, &rousev1.ListRequest{PageSize: 1, PageToken: page.NextPageToken}))
	if len(page.Timers) != 1 || page.NextPageToken != "" {
		t.Errorf("last page %v", page)
	}
	if got := must[*rousev1.CountResponse](t)(c.Count(ctx, &rousev1.CountRequest{Filter: &rousev1.Filter{NamePrefix: "a", Name: "a"}})); got.Count != 1 {
		t.Errorf("count %v", got)
	}
	if got := must[*rousev1.PreviewResponse](t)(c.Preview(ctx, &rousev1.PreviewRequest{Schedule: "@every 1m"})); len(got.NextMs) != 5 {
		t.Errorf("preview %v", got)
	}
	if got := must[*rousev1.DeleteResponse](t)(c.Delete(ctx, &rousev1.DeleteRequest{Name: "a"})); got.Generation != 4 {
		t.Errorf("deleted %v", got)
	}
	id := f.dead("default", "d")
	if got := timer(c.Get(ctx, &rousev1.GetRequest{Name: "d", FireId: id})); got.State != "dead" {
		t.Errorf("dead %v", got)
	}
	if got := must[*rousev1.RedriveResponse](t)(c.Redrive(ctx, &rousev1.RedriveRequest{Name: "d", FireId: id, WithCurrentSpec: true})); got.Target != "now:" {
		t.Errorf("redriven %v", got)
	}
	must[*rousev1.PurgeResponse](t)(c.Purge(ctx, &rousev1.PurgeRequest{Name: "d", FireId: id}))
	f.set(func() {
		f.history = append(f.history, rouse.Record{Namespace: "default", Name: "a", Ending: rouse.EndFired, Due: epoch, Ended: epoch})
	})
	if got := must[*rousev1.ListRecordsResponse](t)(c.ListRecords(ctx, &rousev1.ListRecordsRequest{Name: "a"})); len(got.Records) != 1 {
		t.Errorf("records %v", got)
	}
}

func TestGRPCBadInput(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	c, fires, ctx := s.timers(), rousev1.NewFiresClient(s.dial()), t.Context()
	long := strings.Repeat("x", 300)
	for what, try := range map[string]struct {
		call  func() error
		field string
	}{
		"no spec":     {func() error { _, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a"}); return err }, "spec"},
		"namespace":   {func() error { _, err := c.Get(ctx, &rousev1.GetRequest{Namespace: "NS", Name: "a"}); return err }, "namespace"},
		"name":        {func() error { _, err := c.Get(ctx, &rousev1.GetRequest{Name: "a\x00"}); return err }, "name"},
		"no name":     {func() error { _, err := c.Delete(ctx, &rousev1.DeleteRequest{}); return err }, "name"},
		"no new name": {func() error { _, err := c.Create(ctx, &rousev1.CreateRequest{Spec: goodSpec(), Mode: 2}); return err }, "name"},
		"mode":        {func() error { _, err := c.Create(ctx, &rousev1.CreateRequest{Spec: goodSpec(), Mode: 9}); return err }, "mode"},
		"any revision": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec(), ExpectedRevision: rouse.AnyRevision})
			return err
		}, "expected_revision"},
		"any revision 2": {func() error {
			_, err := c.Delete(ctx, &rousev1.DeleteRequest{Name: "a", ExpectedRevision: rouse.AnyRevision})
			return err
		}, "expected_revision"},
		"batch": {func() error {
			_, err := c.BatchCreate(ctx, &rousev1.BatchCreateRequest{Timers: make([]*rousev1.NewTimer, 5001)})
			return err
		}, "timers"},
		"batch namespace": {func() error { _, err := c.BatchCreate(ctx, &rousev1.BatchCreateRequest{Namespace: "-"}); return err }, "namespace"},
		"batch mode":      {func() error { _, err := c.BatchCreate(ctx, &rousev1.BatchCreateRequest{Mode: -1}); return err }, "mode"},
		"prefix": {func() error {
			_, err := c.List(ctx, &rousev1.ListRequest{Filter: &rousev1.Filter{NamePrefix: long}})
			return err
		}, "filter.name_prefix"},
		"state": {func() error {
			_, err := c.Count(ctx, &rousev1.CountRequest{Filter: &rousev1.Filter{States: []string{"x"}}})
			return err
		}, "filter.states[0]"},
		"due": {func() error {
			_, err := c.Count(ctx, &rousev1.CountRequest{Filter: &rousev1.Filter{DueFromMs: 5}})
			return err
		}, "filter.due_from_ms"},
		"page size":    {func() error { _, err := c.List(ctx, &rousev1.ListRequest{PageSize: 1001}); return err }, "page_size"},
		"page token":   {func() error { _, err := c.List(ctx, &rousev1.ListRequest{PageToken: "x"}); return err }, "page_token"},
		"record token": {func() error { _, err := c.ListRecords(ctx, &rousev1.ListRecordsRequest{PageToken: "x"}); return err }, "page_token"},
		"reason":       {func() error { _, err := c.Pause(ctx, &rousev1.PauseRequest{Name: "a", Reason: long}); return err }, "reason"},
		"preview": {func() error {
			_, err := c.Preview(ctx, &rousev1.PreviewRequest{Schedule: "@every 1m", FromMs: -1})
			return err
		}, "from_ms"},
		"pause until": {func() error { _, err := c.Pause(ctx, &rousev1.PauseRequest{Name: "a", UntilMs: -1}); return err }, "until_ms"},
		"debounce": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: &rousev1.Spec{}, Coalesce: &rousev1.CreateRequest_Debounce{Debounce: &rousev1.Debounce{}}})
			return err
		}, "debounce.quiet"},
		"throttle": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: &rousev1.Spec{}, Coalesce: &rousev1.CreateRequest_Throttle{
				Throttle: &rousev1.Throttle{Every: durationpb.New(-1)}}})
			return err
		}, "throttle.every"},
		"debounce with a schedule": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Spec: goodSpec(), Coalesce: &rousev1.CreateRequest_Throttle{
				Throttle: &rousev1.Throttle{Every: durationpb.New(time.Second)}}})
			return err
		}, "schedule"},
		"debounce with a mode": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", Mode: 1, Spec: &rousev1.Spec{}, Coalesce: &rousev1.CreateRequest_Throttle{
				Throttle: &rousev1.Throttle{Every: durationpb.New(time.Second)}}})
			return err
		}, "mode"},
		"debounce with a revision": {func() error {
			_, err := c.Create(ctx, &rousev1.CreateRequest{Name: "a", ExpectedRevision: 1, Spec: &rousev1.Spec{}, Coalesce: &rousev1.CreateRequest_Throttle{
				Throttle: &rousev1.Throttle{Every: durationpb.New(time.Second)}}})
			return err
		}, "expected_revision"},
		"patch":      {func() error { _, err := c.Patch(ctx, &rousev1.PatchRequest{Name: "a", Patch: "[]"}); return err }, "patch.body"},
		"skip":       {func() error { _, err := c.Skip(ctx, &rousev1.SkipRequest{Name: "a", Reason: long}); return err }, "reason"},
		"reschedule": {func() error { _, err := c.Reschedule(ctx, &rousev1.RescheduleRequest{Name: "a"}); return err }, "when"},
		"reschedule any": {func() error {
			_, err := c.Reschedule(ctx, &rousev1.RescheduleRequest{Name: "a", When: &rousev1.When{Schedule: "@every 5m"}, ExpectedRevision: rouse.AnyRevision})
			return err
		}, "expected_revision"},
		"backfill": {func() error {
			_, err := c.Backfill(ctx, &rousev1.BackfillRequest{Name: "a", UntilMs: int64(epoch)})
			return err
		}, "from_ms"},
		"backfill until": {func() error {
			_, err := c.Backfill(ctx, &rousev1.BackfillRequest{Name: "a", FromMs: int64(epoch), UntilMs: int64(epoch)})
			return err
		}, "until_ms"},
		"explain": {func() error { _, err := c.Explain(ctx, &rousev1.ExplainRequest{Name: "a", AtMs: 5}); return err }, "at_ms"},
		"two schedules to preview": {func() error {
			_, err := c.Preview(ctx, &rousev1.PreviewRequest{Schedule: "@every 1m", Spec: goodSpec()})
			return err
		}, "spec"},
		"simulate": {func() error {
			_, err := c.Simulate(ctx, &rousev1.SimulateRequest{UntilMs: int64(epoch) + 1, Filter: &rousev1.Filter{NamePrefix: long}})
			return err
		}, "filter.name_prefix"},
		"simulate too much": {func() error {
			_, err := c.Simulate(ctx, &rousev1.SimulateRequest{UntilMs: int64(epoch) + 1, Limit: 10_001})
			return err
		}, "limit"},
		"simulate until": {func() error { _, err := c.Simulate(ctx, &rousev1.SimulateRequest{UntilMs: 5}); return err }, "until_ms"},
		"forecast until": {func() error { _, err := c.Forecast(ctx, &rousev1.ForecastRequest{UntilMs: 5}); return err }, "until_ms"},
		"forecast token": {func() error {
			_, err := c.Forecast(ctx, &rousev1.ForecastRequest{UntilMs: int64(epoch) + 1, PageToken: "x"})
			return err
		}, "page_token"},
		"bulk":        {func() error { return bulkOf(ctx, c, &rousev1.BulkRequest{Action: "delete"}) }, "filter"},
		"bulk action": {func() error { return bulkOf(ctx, c, &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "x"}) }, "action"},
		"bulk until": {func() error {
			return bulkOf(ctx, c, &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "pause", UntilMs: 5})
		}, "until_ms"},
		"bulk name": {func() error {
			return bulkOf(ctx, c, &rousev1.BulkRequest{Filter: &rousev1.Filter{Name: "\x01calendar/x"}, Action: "delete"})
		}, "filter.name"},
		"bulk when": {func() error {
			return bulkOf(ctx, c, &rousev1.BulkRequest{Filter: &rousev1.Filter{}, Action: "reschedule", When: &rousev1.When{Ttl: durationpb.New(-1)}})
		}, "when.ttl"},
		"import": {func() error {
			_, err := c.Import(ctx, &rousev1.ImportRequest{Timers: make([]*rousev1.Timer, 1001)})
			return err
		}, "timers"},
		"import mode": {func() error { _, err := c.Import(ctx, &rousev1.ImportRequest{Mode: 7}); return err }, "mode"},
		"import calendar": {func() error {
			_, err := c.Import(ctx, &rousev1.ImportRequest{Calendars: []*rousev1.Calendar{{Name: "c", Days: []*rousev1.Day{{}}}}})
			return err
		}, "calendars[0].days[0].date"},
		"calendar": {func() error {
			_, err := rousev1.NewCalendarsClient(s.dial()).PutCalendar(ctx, &rousev1.PutCalendarRequest{Name: "c", Days: []*rousev1.Day{{}}, Icalendar: []byte("x")})
			return err
		}, "icalendar"},
		"calendar name": {func() error {
			_, err := rousev1.NewCalendarsClient(s.dial()).GetCalendar(ctx, &rousev1.GetCalendarRequest{Name: "a b"})
			return err
		}, "name"},
		"no fire": {func() error { _, err := c.Redrive(ctx, &rousev1.RedriveRequest{Name: "a"}); return err }, "fire_id"},
		"no report": {func() error {
			_, err := fires.Report(ctx, &rousev1.ReportRequest{Name: "a", FireId: strings.Repeat("0", 26), Token: 1})
			return err
		}, "report"},
		"done: false": {func() error {
			_, err := fires.Report(ctx, &rousev1.ReportRequest{Report: &rousev1.ReportRequest_Done{}})
			return err
		}, "done"},
		"heartbeat": {func() error {
			_, err := fires.Report(ctx, &rousev1.ReportRequest{Name: "a", FireId: strings.Repeat("0", 26), Token: 1,
				Report: &rousev1.ReportRequest_Heartbeat{Heartbeat: durationpb.New(-time.Second)}})
			return err
		}, "heartbeat"},
		"follow": {func() error {
			stream, err := c.FollowRecords(ctx, &rousev1.FollowRecordsRequest{Namespace: "NS"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}, "namespace"},
	} {
		err := try.call()
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
			continue
		}
		field := ""
		for _, d := range status.Convert(err).Details() {
			if br, ok := d.(*errdetails.BadRequest); ok {
				field = br.FieldViolations[0].Field
			}
		}
		if field != try.field {
			t.Errorf("%s: field %q, want %q: %v", what, field, try.field, err)
		}
	}
	if n := f.writes(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// bulkOf returns how a bulk request ends.
func bulkOf(ctx context.Context, c rousev1.TimersClient, r *rousev1.BulkRequest) error {
	stream, err := c.Bulk(ctx, r)
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }

// TestUnreadableMessages: an invalid message is the client's error, not an internal one.
func TestUnreadableMessages(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	conn := s.dial()
	for what, message := range map[string][]byte{
		"bad UTF-8":    {0x0a, 0x01, 0xff},
		"cut short":    {0x0a, 0x05, 'a'},
		"no wire type": {0x0f},
	} {
		err := conn.Invoke(t.Context(), rousev1.Timers_Get_FullMethodName, message, &struct{}{}, grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, rousev1.Timers_CreateStream_FullMethodName, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(message); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&struct{}{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s on a stream: %v", what, err)
		}
	}
	err := conn.Invoke(t.Context(), rousev1.Timers_Get_FullMethodName, make([]byte, maxMessage+1), &struct{}{}, grpc.ForceCodec(rawCodec{}))
	wantCode(t, err, codes.ResourceExhausted)
	err = conn.Invoke(t.Context(), "/rouse.v1.Timers/Nothing", []byte{}, &struct{}{}, grpc.ForceCodec(rawCodec{}))
	wantCode(t, err, codes.Unimplemented)
}

func TestGRPCBatch(t *testing.T) {
	c := serve(t, Options{Timers: newFake()}).timers()
	bad := goodSpec()
	bad.Misfire = "never"
	got, err := c.BatchCreate(t.Context(), &rousev1.BatchCreateRequest{Timers: []*rousev1.NewTimer{
		{Name: "a", Spec: goodSpec()}, {Name: "b", Spec: bad}, {Name: "a", Spec: goodSpec()}, {Name: "c"}, {Spec: goodSpec()}}})
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, c := range got.Created {
		codes = append(codes, c.GetProblem().GetCode())
	}
	if fmt.Sprintf("%q", codes) != `["" "invalid" "already_exists" "invalid" ""]` || got.Created[0].Revision != 1 || got.Created[1].Problem.Field != "misfire" {
		t.Errorf("%v", got)
	}
}

func TestGRPCErrors(t *testing.T) {
	f := newFake()
	c := serve(t, Options{Timers: f}).timers()
	for _, try := range []struct {
		err  error
		code codes.Code
	}{{rouse.ErrFull, codes.ResourceExhausted}, {rouse.ErrUnavailable, codes.Unavailable}, {errors.New("secret"), codes.Internal}} {
		f.set(func() { f.err = try.err })
		_, err := c.Get(t.Context(), &rousev1.GetRequest{Name: "a"})
		wantCode(t, err, try.code)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("an unforeseen error is shown: %v", err)
		}
	}
	f.set(func() { f.panics = true })
	_, err := c.Get(t.Context(), &rousev1.GetRequest{Name: "a"})
	wantCode(t, err, codes.Internal)
	f.set(func() { f.panics, f.err = false, nil })
	_, err = c.Get(t.Context(), &rousev1.GetRequest{Name: "a"})
	wantCode(t, err, codes.NotFound)
}

func TestGRPCReports(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	c := rousev1.NewFiresClient(s.dial())
	f.store(rouse.Timer{Key: rouse.Key{Namespace: "default", Name: "a"}, Token: 5, Attempts: 1}, true)
	r := func(token uint64) *rousev1.ReportRequest {
		return &rousev1.ReportRequest{Name: "a", FireId: rouse.FireID("default", "a", 1, epoch, false), Token: token}
	}
	done, failed, beat := r(5), r(5), r(5)
	done.Report = &rousev1.ReportRequest_Done{Done: true}
	failed.Report = &rousev1.ReportRequest_Failed{Failed: &rousev1.Failure{Detail: "no", RetryAfter: durationpb.New(0)}}
	beat.Report = &rousev1.ReportRequest_Heartbeat{Heartbeat: durationpb.New(time.Minute)}
	for _, request := range []*rousev1.ReportRequest{done, failed, beat} {
		got, err := c.Report(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if request == beat && got.DeadlineMs != int64(epoch.Add(time.Minute)) {
			t.Errorf("deadline %v", got)
		}
	}
	if len(f.reports) != 3 || f.reports[0].Outcome.Verdict != rouse.Done || f.reports[1].Outcome.After != rouse.AtOnce || f.reports[2].Outcome.Verdict != 0 {
		t.Errorf("reports %+v", f.reports)
	}
	wrong := r(4)
	wrong.Report = done.Report
	_, err := c.Report(t.Context(), wrong)
	wantCode(t, err, codes.Aborted)
}

// echo is a subscriber that responds to every request with a fire.
type echo struct{}

func (echo) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		if err := stream.Send(&rousev1.SubscribeResponse{Fires: []*rousev1.Fire{{Id: "x"}}}); err != nil {
			return err
		}
	}
}

func (echo) Peers(*rousev1.Peers) {}

func TestSubscriptionsAreHandedOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []struct {
		subscriber Subscriber
		code       codes.Code
	}{{echo{}, codes.OK}, {nil, codes.Unimplemented}} {
		s := serve(t, Options{Timers: newFake(), Subscriber: c.subscriber})
		stream, err := rousev1.NewFiresClient(s.dial()).Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&rousev1.SubscribeRequest{})
		_, err = stream.Recv()
		wantCode(t, err, c.code)
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGRPCHealth(t *testing.T) {
	var ready error
	s := serve(t, Options{Timers: newFake(), Ready: func() error { return ready }})
	c := healthv1.NewHealthClient(s.dial())
	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		r, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	watch, err := c.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "rouse.v1.Timers"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v %v", r, err)
	}
	if got := check(""); got != healthv1.HealthCheckResponse_SERVING {
		t.Error(got)
	}
	_, err = c.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"})
	wantCode(t, err, codes.NotFound)
	s.stop()
	if r, err := watch.Recv(); err != nil || r.Status != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it stops: %v %v", r, err)
	}
	_, err = watch.Recv()
	wantCode(t, err, codes.Unavailable)
}
