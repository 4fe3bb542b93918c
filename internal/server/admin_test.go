package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// received reads a whole backup over gRPC.
func received(t *testing.T, c rousev1.AdminClient) ([]byte, error) {
	t.Helper()
	stream, err := c.Backup(t.Context(), &rousev1.BackupRequest{})
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if len(chunk.Data) > backupChunk {
			t.Errorf("a chunk of %d bytes", len(chunk.Data))
		}
		all = append(all, chunk.Data...)
	}
}

// TestTheAdminPortLeadsToTheConsole: at the host of the request, whatever its form, and only if there is one.
func TestTheAdminPortLeadsToTheConsole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	adminOf := func(api net.Listener, console func(http.ResponseWriter, *http.Request) bool) http.Handler {
		o := Options{Timers: newFake(), Console: console}.withDefaults()
		return newAdmin(newService(&o, context.Background()), api)
	}
	console := func(http.ResponseWriter, *http.Request) bool { return true }
	h := adminOf(listener, console)
	for host, at := range map[string]string{"localhost:7412": "localhost", "rouse.example": "rouse.example", "[::1]:7412": "[::1]"} {
		r := httptest.NewRequest("GET", "http://"+host+"/", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code != http.StatusTemporaryRedirect || to != "//"+at+":"+port+"/" {
			t.Errorf("of %s: %d, %s", host, w.Code, to)
		}
	}
	want(t, do(h, "GET", "/nowhere", ""), 404)
	want(t, do(h, "POST", "/", ""), 405)
	want(t, do(adminOf(nil, console), "GET", "/", ""), 404)
	want(t, do(adminOf(listener, nil), "GET", "/", ""), 404)
}

func TestBackup(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 200_000)
	var broken error
	s := serve(t, Options{Timers: newFake(), Backup: func(_ context.Context, w io.Writer) error {
		if _, err := w.Write(content[:10]); err != nil {
			return err
		}
		if _, err := w.Write(content[10:]); err != nil {
			return err
		}
		return broken
	}})
	admin := rousev1.NewAdminClient(s.dial())
	if got, err := received(t, admin); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(method string) (*http.Response, []byte, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+"/v1/backup", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer, body, err
	}
	answer, body, err := get("GET")
	if err != nil || answer.StatusCode != 200 || !bytes.Equal(body, content) || answer.Header.Get("Content-Type") != tarType ||
		!strings.HasPrefix(answer.Header.Get("Content-Disposition"), `attachment; filename="rouse-`) {
		t.Errorf("%d bytes, %v, %v", len(body), answer.Header, err)
	}
	if answer, body, err := get("HEAD"); err != nil || len(body) != 0 || answer.StatusCode != 200 {
		t.Errorf("HEAD: %v %q %v", answer.Status, body, err)
	}
	broken = errors.New("the disk is gone")
	if _, body, err := get("GET"); err == nil { // a part must not look complete
		t.Errorf("a backup that broke: %d bytes without an error", len(body))
	}
	_, err = received(t, admin)
	wantCode(t, err, codes.Internal)
	content, broken = content[:10], rouse.ErrUnavailable
	if answer, _, err := get("GET"); err != nil || answer.StatusCode != 503 { // nothing was sent yet
		t.Errorf("a backup that did not begin: %v %v", answer.Status, err)
	}
}

func TestNoBackup(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	_, err := received(t, rousev1.NewAdminClient(s.dial()))
	wantCode(t, err, codes.Unimplemented)
	w := do(handler(newFake()), "GET", "/v1/backup", "")
	want(t, w, 404)
	if p := decoded[api.Problem](t, w); p.Code != "unimplemented" || p.Detail == "" {
		t.Errorf("%+v", p)
	}
}

func TestOneBackupAtATime(t *testing.T) {
	entered := make(chan struct{}, 1)
	backup := func(ctx context.Context, w io.Writer) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	s := serve(t, Options{Timers: newFake(), Backup: backup, Grace: time.Minute})
	admin := rousev1.NewAdminClient(s.dial())
	first := make(chan error, 1)
	go func() {
		_, err := received(t, admin)
		first <- err
	}()
	<-entered
	_, err := received(t, admin)
	wantCode(t, err, codes.ResourceExhausted)
	if !errors.Is(rousev1.StatusToError(status.Convert(err)), rousev1.ErrBusy) {
		t.Errorf("%v", err)
	}
	if code, body := fetch(t, "http://"+s.addr+"/v1/backup"); code != 409 || !strings.Contains(body, `"code":"busy"`) {
		t.Errorf("%d %s", code, body)
	}
	s.stop() // ends it
	wantCode(t, <-first, codes.Unavailable)
	if err := s.wait(); err != nil {
		t.Error(err)
	}
}

// shifted is a clock that can be moved.
type shifted struct {
	now    rouse.Instant
	jumped bool
	hold   chan struct{}
	enter  chan struct{}
}

func (c *shifted) Now() rouse.Instant   { return c.now }
func (c *shifted) Ahead() time.Duration { return c.now.Sub(epoch) }

func (c *shifted) Advance(ctx context.Context, to rouse.Instant, jump bool) (uint64, error) {
	if c.hold != nil {
		c.enter <- struct{}{}
		select {
		case <-c.hold:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	c.now, c.jumped = to, jump
	return 7, nil
}

func TestClock(t *testing.T) {
	w := do(handler(newFake()), "GET", "/v1/clock", "")
	want(t, w, 200)
	if got := w.Body.String(); got != `{"now":"2030-01-01T00:00:00.000Z","virtual":false}`+"\n" {
		t.Errorf("the clock is %s", got)
	}
	w = do(handler(newFake()), "POST", "/v1/clock:advance", `{"by":"1h"}`)
	want(t, w, 409)
	if p := decoded[api.Problem](t, w); p.Code != "failed_precondition" || !strings.Contains(p.Detail, "only a development server's clock can be moved") {
		t.Errorf("%+v", p)
	}
	_, err := rousev1.NewAdminClient(serve(t, Options{Timers: newFake()}).dial()).AdvanceClock(t.Context(), &rousev1.AdvanceClockRequest{By: durationpb.New(1)})
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), "only a development server's clock can be moved") {
		t.Error(err)
	}

	clock := &shifted{now: epoch}
	h := handlerOf(Options{Timers: newFake(), Clock: clock})
	w = do(h, "POST", "/v1/clock:advance", `{"by":"1h"}`)
	want(t, w, 200)
	if got := decoded[api.Clock](t, w); got.Now.Instant() != epoch.Add(time.Hour) || !got.Virtual || got.Fired != 7 || got.Ahead != api.Duration(time.Hour) || clock.jumped {
		t.Errorf("advanced %+v", got)
	}
	for body, field := range map[string]string{`{}`: "by", `{"by":"1h","to":"2030-01-02T00:00:00Z"}`: "by", `{"to":"2030-01-01T00:30:00Z"}`: "to"} {
		w := do(h, "POST", "/v1/clock:advance", body)
		want(t, w, 422)
		if p := decoded[api.Problem](t, w); p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	clock.now = epoch
	admin := rousev1.NewAdminClient(serve(t, Options{Timers: newFake(), Clock: clock}).dial())
	got := must[*rousev1.Clock](t)(admin.AdvanceClock(t.Context(), &rousev1.AdvanceClockRequest{ToMs: int64(epoch) + 5, Jump: true}))
	if got.NowMs != int64(epoch)+5 || got.Fired != 7 || !clock.jumped {
		t.Errorf("advanced %v", got)
	}
	got = must[*rousev1.Clock](t)(admin.GetClock(t.Context(), &rousev1.GetClockRequest{}))
	if got.NowMs != int64(epoch)+5 || !got.Virtual || got.Ahead.AsDuration() != 5*time.Millisecond {
		t.Errorf("the clock is %v", got)
	}
}

// TestTheClockIsMovedOnce: a repeated move with an Idempotency-Key moves it no further.
func TestTheClockIsMovedOnce(t *testing.T) {
	clock := &shifted{now: epoch}
	h := handlerOf(Options{Timers: newFake(), Clock: clock})
	for range 2 {
		w := do(h, "POST", "/v1/clock:advance", `{"by":"1h"}`, "Idempotency-Key", "k")
		want(t, w, 200)
		if got := decoded[api.Clock](t, w); got.Now.Instant() != epoch.Add(time.Hour) || got.Fired != 7 || clock.now != epoch.Add(time.Hour) {
			t.Errorf("%+v, the clock shows %v", got, clock.now)
		}
	}
	want(t, do(h, "POST", "/v1/clock:advance", `{"by":"2h"}`, "Idempotency-Key", "k"), 422)
	want(t, do(h, "POST", "/v1/clock:advance", `{"by":"1h"}`, "Idempotency-Key", "l"), 200)
}

func TestOneMovesTheClock(t *testing.T) {
	clock := &shifted{now: epoch, hold: make(chan struct{}), enter: make(chan struct{}, 1)}
	s := serve(t, Options{Timers: newFake(), Clock: clock, Grace: time.Minute})
	admin := rousev1.NewAdminClient(s.dial())
	first := make(chan error, 1)
	go func() {
		_, err := admin.AdvanceClock(t.Context(), &rousev1.AdvanceClockRequest{By: durationpb.New(time.Hour)})
		first <- err
	}()
	<-clock.enter
	_, err := admin.AdvanceClock(t.Context(), &rousev1.AdvanceClockRequest{By: durationpb.New(time.Hour)})
	wantCode(t, err, codes.ResourceExhausted)
	s.stop()
	wantCode(t, <-first, codes.Unavailable)
}
