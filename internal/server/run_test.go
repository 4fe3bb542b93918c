package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// fetch sends one request and returns status and body.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestOnePortSpeaksBoth(t *testing.T) {
	s := serve(t, Options{Timers: newFake()})
	if _, err := s.timers().Create(t.Context(), &rousev1.CreateRequest{Name: "a", Spec: goodSpec()}); err != nil {
		t.Fatal(err)
	}
	code, body := fetch(t, "http://"+s.addr+"/v1/namespaces/default/timers/a")
	if code != 200 || !strings.Contains(body, `"name":"a"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestAdmin(t *testing.T) {
	var live, ready error
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "rouse_up 1\n") })
	s := serve(t, Options{Timers: newFake(), Version: "1.2.3", Metrics: metrics, Live: func() error { return live }, Ready: func() error { return ready }})
	base := "http://" + s.admin
	for path, want := range map[string]string{"/metrics": "rouse_up 1", "/livez": "ok", "/readyz": "ok", "/version": `"version":"1.2.3"`, "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "-test."} {
		if code, body := fetch(t, base+path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
	}
	live, ready = errors.New("the firing loop has made no progress for 6s"), errors.New("stopping")
	for path, want := range map[string]string{"/livez": "the firing loop has made no progress for 6s", "/readyz": "stopping"} {
		if code, body := fetch(t, base+path); code != 503 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := fetch(t, "http://"+s.addr+"/debug/pprof/"); code != 404 {
		t.Errorf("profiles on the API's port: %d", code)
	}
	if code, _ := fetch(t, "http://"+s.addr+"/metrics"); code != 404 {
		t.Errorf("metrics on the API's port: %d", code)
	}
}

func TestEventsFollowRecords(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + s.addr + "/v1/namespaces/default/records:follow?name=a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	<-f.following
	one := rouse.Record{Namespace: "default", Name: "a", Ending: rouse.EndFired, Due: epoch}
	other := one
	other.Name = "b"
	f.publish(one, other, one)
	lines := bufio.NewScanner(r.Body)
	var got []string
	for len(got) < 6 && lines.Scan() {
		if lines.Text() != "" {
			got = append(got, lines.Text())
		}
	}
	if len(got) < 6 || got[0] != ": following" || got[1] != "event: dropped" || got[2] != `data: {"dropped":1}` || got[3] != "event: record" ||
		!strings.HasPrefix(got[4], `data: {"namespace":"default","name":"a",`) || got[5] != "event: record" {
		t.Errorf("events %q", got)
	}
	s.stop() // ends followers immediately, regardless of the grace period
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// TestFollowersOfEverythingGetFewRecords: a follower of all namespaces that asks for one record a second gets
// the last of them, and the number of the others; what the nodes keep for themselves is not among them.
func TestFollowersOfEverythingGetFewRecords(t *testing.T) {
	f := newFake()
	s := serve(t, Options{Timers: f})
	r, err := http.Get("http://" + s.addr + "/v1/namespaces/-/records:follow?per_second=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	<-f.following
	record := func(namespace, name string) rouse.Record {
		return rouse.Record{Namespace: namespace, Name: name, Ending: rouse.EndFired, Due: epoch}
	}
	f.publish(record("a", "x"), record(rouse.ReservedNamespace, "y"), record("b", "z")) // one more is dropped by the fake
	f.publish(record("c", "w"))
	lines := bufio.NewScanner(r.Body)
	var got []string
	for len(got) < 7 && lines.Scan() {
		if lines.Text() != "" {
			got = append(got, lines.Text())
		}
	}
	if len(got) < 7 || got[2] != `data: {"dropped":2}` || !strings.HasPrefix(got[4], `data: {"namespace":"b",`) || !strings.HasPrefix(got[6], `data: {"namespace":"c",`) {
		t.Errorf("events %q", got)
	}
}

// TestDrain: requests in progress when the server stops are finished, and new ones are refused.
func TestDrain(t *testing.T) {
	f := newFake()
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 100)
	s := serve(t, Options{Timers: f, Grace: time.Minute})
	c := s.timers()
	answers := make(chan error, 2)
	go func() {
		_, err := c.Create(t.Context(), &rousev1.CreateRequest{Name: "grpc", Spec: goodSpec()})
		answers <- err
	}()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Post("http://"+s.addr+timersURL, "application/json", strings.NewReader(named))
		if err == nil {
			r.Body.Close()
			if r.StatusCode != 201 {
				err = errors.New(r.Status)
			}
		}
		answers <- err
	}()
	<-f.entered
	<-f.entered
	idle := s.connect()
	s.stop()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that sent nothing was not closed")
	}
	for { // the listener closes
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(f.hold)
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("a request in progress: %v", err)
		}
	}
	if err := s.wait(); err != nil {
		t.Error(err)
	}
	if f.writes() != 2 {
		t.Errorf("%d writes", f.writes())
	}
}

// stubborn is a subscriber that does not end before its stream is cut.
type stubborn struct{}

func (stubborn) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	_ = stream.SendHeader(metadata.MD{})
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (stubborn) Peers(*rousev1.Peers) {}

func TestGraceEnds(t *testing.T) {
	s := serve(t, Options{Timers: newFake(), Subscriber: stubborn{}, Grace: 10 * time.Millisecond})
	stream, err := rousev1.NewFiresClient(s.dial()).Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := s.wait(); err != nil {
		t.Error(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
}

func TestCreateStreamEndsWhenTheServerStops(t *testing.T) {
	s := serve(t, Options{Timers: newFake(), Grace: time.Minute})
	stream, err := s.timers().CreateStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(request(0, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	s.stop()
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
	if err := s.wait(); err != nil {
		t.Error(err)
	}
}

func TestRunReturnsWhenTheListenerBreaks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(Options{Timers: newFake()}).Run(context.Background(), l, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}
