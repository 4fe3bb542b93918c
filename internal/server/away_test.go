package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// errAway is the error of a database client; API clients must not see its text.
var errAway = errors.New("dial tcp 10.9.8.7:5432: connect: connection refused (user=secret)")

// leaving is a store that becomes unavailable after a number of client calls. The engine's own reads still
// work, and so do its writes about what fired and about jobs, which come at any time after those were asked
// for.
type leaving struct {
	rouse.Store
	mu    sync.Mutex
	left  int // calls until it is unavailable; negative: it stays available
	calls int
}

func (s *leaving) call() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.left == 0 {
		return errAway
	}
	s.left--
	return nil
}

// set makes the store unavailable after a number of calls, and returns how many there were since the last
// set.
func (s *leaving) set(left int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.left, s.calls = left, 0
	return calls
}

func (s *leaving) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, keys)
}

func (s *leaving) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	if err := s.call(); err != nil {
		return rouse.Page{}, err
	}
	return s.Store.List(ctx, q)
}

func (s *leaving) Count(ctx context.Context, q rouse.Query) (int64, error) {
	if err := s.call(); err != nil {
		return 0, err
	}
	return s.Store.Count(ctx, q)
}

func (s *leaving) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	asked := func(c rouse.Change) bool {
		return !rouse.IsJob(c.Key) && (len(c.Log) == 0 || c.Log[0].Ending != rouse.EndFired)
	}
	if slices.ContainsFunc(changes, asked) {
		if err := s.call(); err != nil {
			return nil, err
		}
	}
	return s.Store.Apply(ctx, changes)
}

func (s *leaving) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	if err := s.call(); err != nil {
		return rouse.RecordPage{}, err
	}
	return s.Store.Records(ctx, q)
}

// nowhere is a sink that accepts any target and reports every fire as done.
type nowhere struct{}

func (nowhere) Check(*rouse.Spec) error             { return nil }
func (nowhere) Lane(string, *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "x", Limit: 1, Batch: 1} }
func (nowhere) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i := range fires {
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
}

// serveEngine serves a real engine over a store.
func serveEngine(t *testing.T, store rouse.Store, with ...func(*Options)) *running {
	e := timers.New(store, claim.NewSole(1), nowhere{}, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Look: -1}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := e.ClockMoved(ctx); err != nil {
		t.Fatal(err)
	}
	o := Options{Timers: e.Guarded(), Nodes: func(ctx context.Context) ([]Node, error) {
		_, err := store.Get(ctx, []rouse.Key{{Namespace: "n", Name: "n"}})
		return []Node{{ID: "a"}}, rouse.Unavailable(err)
	}}
	for _, set := range with {
		set(&o)
	}
	return serve(t, o)
}

const away = "/v1/namespaces/default/timers"

// awayHTTP lists the HTTP operations: method, path, body.
var awayHTTP = []string{
	"POST " + away + " " + named,
	"POST " + away + ":batchCreate " + `{"timers":[` + good + `]}`,
	"POST " + away + ":batchCreate " + `{"mode":"create_or_replace","timers":[{"name":"there","schedule":"@every 6h","target":"https://example.com/"}]}`,
	"PUT " + away + "/there " + good,
	"GET " + away + "/there",
	"GET " + away,
	"GET " + away + ":count",
	"GET " + away + ":count?label=a%3Db",
	"POST " + away + "/there:pause {}",
	"POST " + away + "/there:resume",
	"POST " + away + "/there:run",
	"POST " + away + `/there:skip {"count":1}`,
	"PATCH " + away + `/there {"schedule":"@every 7h"}`,
	"POST " + away + `/there:reschedule {"schedule":"@every 7h"}`,
	"POST " + away + `/there:backfill {"from":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}`,
	"GET " + away + "/there:explain", "GET " + away + "/there:badge",
	"GET " + away + "/there/records",
	"GET /v1/namespaces/default/records",
	"GET /v1/namespaces/default/dead",
	"POST " + away + `:simulate {"until":"2100-01-01T00:00:00Z","limit":5}`,
	"POST " + away + `:forecast {"until":"2026-12-31T00:00:00Z"}`,
	"POST " + away + `:preview {"schedule":"@every 5m","calendar":{"off":["holidays"]}}`,
	"POST " + away + `:bulk {"action":"pause","filter":{}}`,
	"POST " + away + `:import {"timers":[{"name":"N","state":"scheduled","due":"2100-01-01T00:00:00Z","visible":"2100-01-01T00:00:00Z","schedule":"@every 5m","target":"https://example.com/"}]}`,
	"GET " + away + "/there/dead/00000000000000000000000000",
	"DELETE " + away + "/there/dead/00000000000000000000000000",
	"POST " + away + "/there/dead/00000000000000000000000000:redrive",
	"POST " + away + `/there/fires/00000000000000000000000000:complete {"token":1}`,
	"GET /v1/namespaces/default/calendars",
	"PUT /v1/namespaces/default/calendars/c " + `{"days":[{"date":"2030-01-01"}]}`,
	"GET /v1/namespaces/default/calendars/c",
	"DELETE /v1/namespaces/default/calendars/c",
	"GET /v1/nodes",
	"DELETE " + away + "/there",
}

func TestAStoreThatIsAwayIsUnavailableOverHTTP(t *testing.T) {
	store := &leaving{Store: mem.New(), left: -1}
	s := serveEngine(t, store)
	n := 0
	request := func(op string) *http.Response {
		n++
		method, rest, _ := strings.Cut(op, " ")
		path, body, _ := strings.Cut(rest, " ")
		name := "x" + strconv.Itoa(n)
		body = strings.ReplaceAll(strings.ReplaceAll(body, `"name":"a"`, `"name":"`+name+`"`), `"N"`, `"`+name+`"`)
		r, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		return res
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	prepare := func() {
		store.set(-1)
		request("DELETE " + away + "/there").Body.Close() // a PUT would leave a pause
		for _, op := range []string{`PUT /v1/namespaces/default/calendars/holidays {"days":[{"date":"2030-01-01"}]}`,
			`PUT /v1/namespaces/default/calendars/c {"days":[{"date":"2030-01-01"}]}`, "PUT " + away + "/there " + `{"schedule":"@every 5h","target":"https://example.com/"}`} {
			res := request(op)
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode >= 300 {
				t.Fatalf("%s: %s", op, res.Status)
			}
		}
		store.set(-1)
	}
	for _, op := range awayHTTP {
		prepare()
		res := request(op)
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode >= 300 && res.StatusCode != 404 && res.StatusCode != 409 {
			t.Errorf("%s: %s with a store that is there: %s", op, res.Status, body)
		}
		calls := store.set(-1)
		if calls == 0 {
			t.Errorf("%s asks nothing of the store: %s", op, body)
		}
		if strings.Contains(op, ":bulk") {
			calls = 1 // each timer has its own outcome
		}
		if strings.Contains(op, "PUT /v1/namespaces/default/calendars") {
			calls = 2 // then it is written, and its job goes on
		}
		for at := range calls {
			prepare()
			store.set(at)
			res := request(op)
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"unavailable"`) || strings.Contains(string(body), "secret") {
				t.Errorf("%s, away from call %d of %d on: %s, Retry-After %q: %s", op, at+1, calls, res.Status, res.Header.Get("Retry-After"), body)
			}
		}
	}
}

func TestAStoreThatIsAwayIsUnavailableOverGRPC(t *testing.T) {
	store := &leaving{Store: mem.New(), left: -1}
	s := serveEngine(t, store)
	conn := s.dial()
	c, calendars, admin := rousev1.NewTimersClient(conn), rousev1.NewCalendarsClient(conn), rousev1.NewAdminClient(conn)
	ctx := t.Context()
	spec := &rousev1.Spec{Schedule: "@every 5h", Target: "https://example.com/"}
	if _, err := c.Create(ctx, &rousev1.CreateRequest{Name: "there", Spec: spec}); err != nil {
		t.Fatal(err)
	}
	fire := strings.Repeat("0", 26)
	last := func(recv func() error, err error) error {
		for err == nil {
			err = recv()
		}
		return err
	}
	for name, call := range map[string]func() error{
		"Create": func() error { _, err := c.Create(ctx, &rousev1.CreateRequest{Spec: spec}); return err },
		"BatchCreate": func() error {
			_, err := c.BatchCreate(ctx, &rousev1.BatchCreateRequest{Timers: []*rousev1.NewTimer{{Spec: spec}}})
			return err
		},
		"CreateStream": func() error {
			stream, err := c.CreateStream(ctx)
			if err == nil {
				err = stream.Send(&rousev1.BatchCreateRequest{Timers: []*rousev1.NewTimer{{Spec: spec}}})
			}
			return last(func() error { _, err := stream.Recv(); return err }, err)
		},
		"Get":    func() error { _, err := c.Get(ctx, &rousev1.GetRequest{Name: "there"}); return err },
		"List":   func() error { _, err := c.List(ctx, &rousev1.ListRequest{}); return err },
		"Count":  func() error { _, err := c.Count(ctx, &rousev1.CountRequest{}); return err },
		"Delete": func() error { _, err := c.Delete(ctx, &rousev1.DeleteRequest{Name: "there"}); return err },
		"Pause":  func() error { _, err := c.Pause(ctx, &rousev1.PauseRequest{Name: "there"}); return err },
		"Resume": func() error { _, err := c.Resume(ctx, &rousev1.ResumeRequest{Name: "there"}); return err },
		"Run":    func() error { _, err := c.Run(ctx, &rousev1.RunRequest{Name: "there"}); return err },
		"Skip":   func() error { _, err := c.Skip(ctx, &rousev1.SkipRequest{Name: "there", Count: 1}); return err },
		"Patch":  func() error { _, err := c.Patch(ctx, &rousev1.PatchRequest{Name: "there", Patch: "{}"}); return err },
		"Reschedule": func() error {
			_, err := c.Reschedule(ctx, &rousev1.RescheduleRequest{Name: "there", When: &rousev1.When{Schedule: "@every 1h"}})
			return err
		},
		"GetBadge": func() error { _, err := c.GetBadge(ctx, &rousev1.GetBadgeRequest{Name: "there"}); return err },
		"Explain":  func() error { _, err := c.Explain(ctx, &rousev1.ExplainRequest{Name: "there"}); return err },
		"Bulk": func() error {
			stream, err := c.Bulk(ctx, &rousev1.BulkRequest{Action: "pause", Filter: &rousev1.Filter{}})
			return last(func() error { _, err := stream.Recv(); return err }, err)
		},
		"ListRecords": func() error { _, err := c.ListRecords(ctx, &rousev1.ListRecordsRequest{}); return err },
		"Redrive": func() error {
			_, err := c.Redrive(ctx, &rousev1.RedriveRequest{Name: "there", FireId: fire})
			return err
		},
		"Purge":         func() error { _, err := c.Purge(ctx, &rousev1.PurgeRequest{Name: "there", FireId: fire}); return err },
		"GetCalendar":   func() error { _, err := calendars.GetCalendar(ctx, &rousev1.GetCalendarRequest{Name: "c"}); return err },
		"ListCalendars": func() error { _, err := calendars.ListCalendars(ctx, &rousev1.ListCalendarsRequest{}); return err },
		"DeleteCalendar": func() error {
			_, err := calendars.DeleteCalendar(ctx, &rousev1.DeleteCalendarRequest{Name: "c"})
			return err
		},
		"ListNodes": func() error { _, err := admin.ListNodes(ctx, &rousev1.ListNodesRequest{}); return err },
	} {
		store.set(0)
		err := call()
		if st := status.Convert(err); st.Code() != codes.Unavailable || strings.Contains(st.Message(), "secret") || !errors.Is(rousev1.StatusToError(st), rouse.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if !errors.As(rousev1.StatusToError(status.Convert(err)), new(*rouse.RetryAfter)) {
			t.Errorf("%s: no delay for a retry: %v", name, err)
		}
	}
}
