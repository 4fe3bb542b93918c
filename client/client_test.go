package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

var spec = rouse.Spec{Schedule: "@after 1s", Target: "stream:"}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		target  string
		o       Options
		address string
		plain   bool
		refused bool
	}{
		{target: "localhost:1", address: "localhost:1", plain: true},
		{target: "127.0.0.1:1", address: "127.0.0.1:1", plain: true},
		{target: "[::1]:1", address: "[::1]:1", plain: true},
		{target: "unix:/run/rouse.sock", address: "unix:/run/rouse.sock", plain: true},
		{target: "dns:///localhost:1", address: "dns:///localhost:1", plain: true},
		{target: "rouse.example:1", address: "rouse.example:1"},
		{target: "127.0.0.1.example:1", address: "127.0.0.1.example:1"},
		{target: "rouse.example:1", o: Options{Insecure: true}, address: "rouse.example:1", plain: true},
		{target: "localhost:1", o: Options{TLS: &tls.Config{}}, address: "localhost:1"},
		{target: "http://rouse.example", address: "rouse.example:80", plain: true},
		{target: "http://rouse.example:7/", address: "rouse.example:7", plain: true},
		{target: "https://rouse.example", address: "rouse.example:443"},
		{target: "https://localhost:7", address: "localhost:7"},
		{target: "https://[::1]", address: "[::1]:443"},
		{target: "http://rouse.example", o: Options{TLS: &tls.Config{}}, refused: true},
		{target: "rouse.example", address: "rouse.example:7411"},
		{target: "localhost", address: "localhost:7411", plain: true},
		{target: "::1", address: "[::1]:7411", plain: true},
		{target: "rouse.example:70000", refused: true},
		{target: "rouse.example:", refused: true},
		{target: "https://rouse.example:0", refused: true},
		{target: "https://", refused: true},
		{target: "https://rouse.example/path", refused: true},
		{target: "https://me:secret@rouse.example", refused: true},
		{target: "https://[fe80::1%25eth0]", address: "dns:///[fe80::1%25eth0]:443"},
		{target: "http://[fe80::1%25eth0]:7", address: "dns:///[fe80::1%25eth0]:7", plain: true},
		{target: "fe80::1%eth0", address: "dns:///[fe80::1%25eth0]:7411"},
		{target: "[fe80::1%eth0]:7", address: "dns:///[fe80::1%25eth0]:7"},
		{target: "unix", address: "dns:///unix:7411"},
		{target: "https://Unix:7", address: "dns:///Unix:7"},
		{target: "DNS:///rouse.example:7", address: "DNS:///rouse.example:7"},
		{target: "rouse.example/path", refused: true},
		{target: "rouse.example:7/path", refused: true},
		{target: "a b", refused: true},
		{target: "a\tb:7", refused: true},
		{target: "[::1", refused: true},
		{target: "::1]", refused: true},
		{target: "[rouse.example]:7", refused: true},
		{target: "rouse.example#f", refused: true},
		{target: "rouse.example?q", refused: true},
		{target: "rouse%41.example", refused: true},
		{target: "grpc://rouse.example:7", refused: true},
		{target: "https://rouse.example#f", refused: true},
		{target: "https://rouse.example?", refused: true},
		{target: "me:secret@rouse.example:7", refused: true},
		{target: "HTTPS://me:secret@rouse.example", refused: true},
		{target: "https://me:secret/@rouse.example", refused: true},
		{target: "https://me:7/secret@rouse.example", refused: true},
	} {
		a, err := c.o.linkOptions().Parse(c.target)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", c.target, err)
		}
		if (err != nil) != c.refused || err == nil && (a.Target != c.address || a.Plain != c.plain) {
			t.Errorf("%s: %q, plain %v, %v", c.target, a.Target, a.Plain, err)
		}
	}
}

func TestTokensStayOffThePlainWire(t *testing.T) {
	if _, err := Dial("http://rouse.example", Options{Token: "x"}); err == nil {
		t.Error("sends a token to another host in plain text")
	}
	for _, target := range []string{"localhost:1", "https://rouse.example"} {
		c, err := Dial(target, Options{Token: "x"})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func TestErrorsAreTyped(t *testing.T) {
	c, _ := start(t, Options{})
	ctx := t.Context()
	made, err := c.Create(ctx, "ns", "a", spec)
	if err != nil || made.Key.Name != "a" || made.Revision == 0 || made.Spec.Schedule != spec.Schedule || made.Due != 1000 {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := c.Create(ctx, "ns", "a", spec); !errors.Is(err, rouse.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	var inv *rouse.Invalid
	if _, err := c.Create(ctx, "ns", "b", rouse.Spec{}); !errors.As(err, &inv) || inv.Problems[0].Field != "schedule" {
		t.Errorf("a timer without schedule: %v", err)
	}
	if _, err := c.CreateOrReplace(ctx, "ns", "a", spec, IfRevision(99)); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("another revision: %v", err)
	}
	if _, err := c.CreateOrReplace(ctx, "ns", "none", spec, IfExists()); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("replace what is not there: %v", err)
	}
	if again, err := c.CreateOrReplace(ctx, "ns", "a", spec, IfRevision(made.Revision)); err != nil || again.Generation == made.Generation {
		t.Errorf("replace: %+v, %v", again, err)
	}
	if _, err := c.CreateOrReplace(ctx, "ns", "", spec); !errors.As(err, &inv) {
		t.Errorf("replace without a name: %v", err)
	}
	if _, err := c.Get(ctx, "ns", "none"); !errors.Is(err, rouse.ErrNotFound) || status.Code(err) != codes.NotFound {
		t.Errorf("get what is not there: %v", err)
	}
	if dead, err := c.DeadLetter(ctx, "ns", "a", "fire"); err != nil || dead.State() != rouse.StateDead {
		t.Errorf("%+v, %v", dead, err)
	}
}

// A made-up name makes a create repeatable: its answer may be lost, the timer is made once and found.
func TestCreateWithoutNameIsTriedAgain(t *testing.T) {
	c, f := start(t, Options{})
	f.fail = []failing{{err: errDown}, {err: errDown, after: true}}
	made, err := c.Create(t.Context(), "ns", "", spec)
	if err != nil || made.Key.Name == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	if f.count("Create") != 3 || len(f.timers) != 1 || f.timers["ns/"+made.Key.Name] == nil {
		t.Errorf("%d calls made %d timers", f.count("Create"), len(f.timers))
	}
}

func TestCreateWithNameIsNotTriedAgain(t *testing.T) {
	c, f := start(t, Options{})
	f.fail = []failing{{err: errDown, after: true}}
	if _, err := c.Create(t.Context(), "ns", "a", spec); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("the answer was lost, and Create returned %v", err)
	}
	f.fail = []failing{{err: errDown, after: true}}
	if _, err := c.CreateOrReplace(t.Context(), "ns", "a", spec, IfRevision(1)); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("the answer was lost, and CreateOrReplace returned %v", err)
	}
	f.fail = []failing{{err: errDown}}
	if _, err := c.BatchCreate(t.Context(), "ns", CreateOnly, []NewTimer{{"b", spec}}); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("BatchCreate returned %v", err)
	}
	f.fail = []failing{{err: errDown}}
	if _, err := c.BatchCreate(t.Context(), "ns", CreateOrReplace, []NewTimer{{"", spec}}); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("BatchCreate without names returned %v", err)
	}
	if f.count("Create") != 2 || f.count("BatchCreate") != 2 {
		t.Errorf("calls: %v", f.calls)
	}
}

func TestRepeatableCallsAreTriedAgain(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create or replace": func() error { _, err := c.CreateOrReplace(ctx, "ns", "a", spec); return err },
		"batch": func() error {
			_, err := c.BatchCreate(ctx, "ns", CreateOrReplace, []NewTimer{{"a", spec}})
			return err
		},
		"count":    func() error { _, err := c.Count(ctx, rouse.Query{}); return err },
		"preview":  func() error { _, err := c.Preview(ctx, PreviewRequest{Spec: spec}); return err },
		"complete": func() error { return c.Complete(ctx, Receipt{}) },
		"purge":    func() error { return c.Purge(ctx, "ns", "a", "fire") },
		"delete": func() error {
			f.timers["ns/d"] = &rousev1.Timer{}
			_, err := c.Delete(ctx, "ns", "d")
			return err
		},
	} {
		f.fail = []failing{{err: errDown, after: true}, {err: rousev1.ErrorToStatus(&rouse.RetryAfter{Err: rouse.ErrOverloaded, After: time.Millisecond}).Err()}}
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(f.fail) != 0 {
			t.Errorf("%s was not tried again", name)
		}
	}
	if _, err := c.Delete(ctx, "ns", "none"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("delete what was never there: %v", err)
	}
}

func TestPatienceEnds(t *testing.T) {
	c, f := start(t, Options{Patience: time.Second})
	if _, err := c.Count(t.Context(), rouse.Query{}); err != nil { // it is connected
		t.Fatal(err)
	}
	for range 100 {
		f.fail = append(f.fail, failing{err: errDown})
	}
	if _, err := c.Count(t.Context(), rouse.Query{}); !errors.Is(err, rouse.ErrUnavailable) || f.count("Count") < 3 {
		t.Errorf("after %d tries: %v", f.count("Count"), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Count(ctx, rouse.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call after its end: %v", err)
	}
	f.fail = []failing{{err: rousev1.ErrorToStatus(&rouse.RetryAfter{Err: rouse.ErrOverloaded, After: time.Hour}).Err()}}
	var after *rouse.RetryAfter
	if _, err := c.Count(t.Context(), rouse.Query{}); !errors.As(err, &after) || after.After != time.Hour {
		t.Errorf("told to come back in an hour: %v", err)
	}
}

func TestBatchCreate(t *testing.T) {
	c, _ := start(t, Options{})
	got, err := c.BatchCreate(t.Context(), "ns", CreateOnly, []NewTimer{{"a", spec}, {"", spec}, {"a", spec}, {"b", rouse.Spec{}}})
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].Err != nil || got[0].Name != "a" || got[0].Generation == 0 || got[0].Due != 1000 || got[1].Err != nil || got[1].Name == "" {
		t.Errorf("%+v", got)
	}
	var inv *rouse.Invalid
	if !errors.Is(got[2].Err, rouse.ErrExists) || !errors.As(got[3].Err, &inv) || inv.Problems[0].Field != "schedule" {
		t.Errorf("%+v", got)
	}
}

func TestCreateStream(t *testing.T) {
	c, f := start(t, Options{})
	const window, batches = 3, 200
	s, err := c.CreateStream(t.Context(), "ns", CreateOrReplace, window)
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range batches {
			batch := make([]NewTimer, 1+i%5)
			for j := range batch {
				batch[j] = NewTimer{fmt.Sprintf("%d-%d", i, j), spec}
			}
			if err := s.Send(batch); err != nil {
				t.Error(err)
				return
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	for i := range batches {
		got, err := s.Recv()
		if err != nil || len(got) != 1+i%5 || got[0].Name != fmt.Sprintf("%d-0", i) {
			t.Fatalf("answer %d: %+v, %v", i, got, err)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
	sending.Wait()
	if f.most > window {
		t.Errorf("%d batches on their way, with a window of %d", f.most, window)
	}
}

func TestCreateStreamThatFails(t *testing.T) {
	c, f := start(t, Options{})
	f.fail = []failing{{err: errDown}}
	s, err := c.CreateStream(t.Context(), "ns", CreateOrReplace, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send([]NewTimer{{"a", spec}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("received %v", err)
	}
	for range 3 { // does not block for ever on the window
		if s.Send([]NewTimer{{"a", spec}}) == nil {
			t.Error("sends on a stream that has ended")
		}
	}
}

func TestCreateStreamThatEndsWithoutAnAnswer(t *testing.T) {
	c, f := start(t, Options{})
	f.fail = []failing{{err: io.EOF}}
	s, err := c.CreateStream(t.Context(), "ns", CreateOrReplace, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send([]NewTimer{{"a", spec}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("received %v", err)
	}
}

func TestList(t *testing.T) {
	c, f := start(t, Options{})
	for i := range 10 {
		_, _ = f.create("ns", fmt.Sprint(i), rousev1.SpecToProto(&spec), 0, 0)
	}
	for _, limit := range []int{0, 1, 3, 4, 10, 11} {
		want := 10
		if limit > 0 {
			want = min(limit, 10)
		}
		got := 0
		f.fail = []failing{{err: errDown}} // a page is tried again
		for timer, err := range c.List(t.Context(), rouse.Query{Limit: limit}) {
			if err != nil || timer.Key.Name != fmt.Sprint(got) {
				t.Fatalf("timer %d: %v, %v", got, timer.Key, err)
			}
			got++
		}
		if got != want {
			t.Errorf("limit %d: %d timers, want %d", limit, got, want)
		}
	}
	for range c.List(t.Context(), rouse.Query{}) { // may be left in the middle
		break
	}
	f.fail = []failing{{}, {err: status.Error(codes.PermissionDenied, "no")}}
	var last error
	n := 0
	for _, err := range c.List(t.Context(), rouse.Query{}) {
		n++
		last = err
	}
	if status.Code(last) != codes.PermissionDenied || n != 4 {
		t.Errorf("%d results, the last with %v", n, last)
	}
}

func TestPauseRunDelete(t *testing.T) {
	c, _ := start(t, Options{})
	ctx := t.Context()
	if _, err := c.Create(ctx, "ns", "a", spec); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Pause(ctx, "ns", "a", "why"); err != nil || !p.Paused || p.Reason != "why" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.Resume(ctx, "ns", "a"); err != nil || p.Paused {
		t.Errorf("%+v, %v", p, err)
	}
	if id, due, err := c.Run(ctx, "ns", "a"); err != nil || id != "fire-of-a" || due != 5 {
		t.Errorf("%v %v %v", id, due, err)
	}
	if d, err := c.Delete(ctx, "ns", "a", IfRevision(99)); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("%+v %v", d, err)
	}
	if d, err := c.Delete(ctx, "ns", "a"); err != nil || d.Generation == 0 || d.InFlight {
		t.Errorf("%+v %v", d, err)
	}
	if by, err := c.ReportCheck(ctx, "ns", "a", rouse.CheckReport{Status: rouse.ReportFail, Log: "ab"}); err != nil || by != 24 {
		t.Errorf("reported: %v, %v", by, err)
	}
	for current, want := range map[bool]string{false: "then:", true: "now:"} {
		if target, err := c.Redrive(ctx, "ns", "a", "fire", current); err != nil || target != want {
			t.Errorf("redriven to %q, %v", target, err)
		}
	}
}

func TestRecords(t *testing.T) {
	c, f := start(t, Options{})
	for i := range 7 {
		f.records = append(f.records, rousev1.RecordToProto(&rouse.Record{Namespace: "ns", Name: fmt.Sprint(i), Ending: rouse.EndFired}))
	}
	n := 0
	for r, err := range c.Records(t.Context(), "ns", "") {
		if err != nil || r.Name != fmt.Sprint(n) || r.Ending != rouse.EndFired {
			t.Fatalf("%+v %v", r, err)
		}
		n++
	}
	if n != 7 {
		t.Errorf("%d records", n)
	}
}

func TestFollow(t *testing.T) {
	c, f := start(t, Options{})
	f.follow = func(stream grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error {
		_ = stream.Send(&rousev1.FollowRecordsResponse{Records: []*rousev1.Record{{Name: "a", Ending: "dead"}}, Dropped: 3})
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Follow(ctx, "ns", "", func(rs []rouse.Record, dropped uint64) error {
		if len(rs) != 1 || rs[0].Ending != rouse.EndDead || dropped != 3 {
			t.Errorf("%+v, %d dropped", rs, dropped)
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Errorf("after the end: %v", err)
	}
	if err := c.Follow(t.Context(), "ns", "", func([]rouse.Record, uint64) error { return io.ErrNoProgress }); err != io.ErrNoProgress {
		t.Errorf("the error of the caller came as %v", err)
	}
	f.follow = func(grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error { return errDown }
	if err := c.Follow(t.Context(), "ns", "", nil); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("a stream that breaks: %v", err)
	}
	f.follow = func(grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error { return nil }
	if err := c.Follow(t.Context(), "ns", "", nil); !errors.Is(err, rouse.ErrClosed) {
		t.Errorf("a stream that ends by itself: %v", err)
	}
}

// A report whose answer is lost is repeated, and the conflict that its first try causes is no error. That of
// a heartbeat is one: the fire is lost.
func TestReportsWhoseAnswerIsLost(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	r := Receipt{"ns", "a", "fire", 7}
	gone := []error{status.Error(codes.Aborted, "not in progress"), status.Error(codes.NotFound, "no timer")}
	for _, err := range gone {
		for name, report := range map[string]func() error{"Complete": func() error { return c.Complete(ctx, r) },
			"Fail": func() error { return c.Fail(ctx, r, errors.New("broken")) }, "release": func() error { return c.Fail(ctx, r, ErrNotBegun) }} {
			f.fail = []failing{{err: errDown, after: true}, {err: err}}
			if got := report(); got != nil {
				t.Errorf("%s after a lost answer, then %v: %v", name, err, got)
			}
			f.fail = []failing{{err: err}}
			if got := report(); got == nil {
				t.Errorf("%s that is refused at once as %v is done", name, err)
			}
		}
	}
	f.fail = []failing{{err: errDown, after: true}, {err: gone[0]}}
	if _, err := c.Heartbeat(ctx, r, time.Minute); !errors.Is(err, rouse.ErrConflict) {
		t.Errorf("a heartbeat of a fire that is lost: %v", err)
	}
}

func TestReports(t *testing.T) {
	c, f := start(t, Options{})
	ctx := t.Context()
	r := Receipt{"ns", "a", "fire", 7}
	if err := c.Complete(ctx, r); err != nil {
		t.Error(err)
	}
	if err := c.Fail(ctx, r, Permanent(RetryAfter(errors.New("broken"), time.Second))); err != nil {
		t.Error(err)
	}
	if err := c.Fail(ctx, r, fmt.Errorf("it: %w", RetryAfter(errors.New("busy"), time.Second))); err != nil {
		t.Error(err)
	}
	if deadline, err := c.Heartbeat(ctx, r, time.Minute); err != nil || deadline != 77 {
		t.Errorf("%v %v", deadline, err)
	}
	for _, p := range f.reports {
		if p.Namespace != "ns" || p.Name != "a" || p.FireId != "fire" || p.Token != 7 {
			t.Errorf("reported on %v", p)
		}
	}
	broken, busy := f.reports[1].GetFailed(), f.reports[2].GetFailed()
	if !f.reports[0].GetDone() || !broken.Permanent || broken.RetryAfter != nil || broken.Detail != "broken" ||
		busy.Permanent || busy.RetryAfter.AsDuration() != time.Second || busy.Detail != "it: busy" || f.reports[3].GetHeartbeat().AsDuration() != time.Minute {
		t.Errorf("reported %v", f.reports)
	}
}
