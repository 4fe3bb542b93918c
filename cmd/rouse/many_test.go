package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// jobsOfATest is a server whose bulk changes and calendars end as a test wants.
type jobsOfATest struct {
	rousev1.UnimplementedTimersServer
	rousev1.UnimplementedCalendarsServer
	rousev1.UnimplementedJobsServer
	end error        // of a bulk change, after its first report
	job *rousev1.Job // of a calendar; nil: it cannot be read
}

func (s *jobsOfATest) Bulk(_ *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
	if err := stream.Send(&rousev1.BulkProgress{Job: "bulk-1", Matched: 3, Changed: 2, Failed: 1, Failures: []*rousev1.BulkFailure{{Name: "b", Problem: rousev1.ErrorToProblem(rouse.ErrConflict)}}}); err != nil {
		return err
	}
	return rousev1.ErrorToStatus(s.end).Err()
}

func (s *jobsOfATest) PutCalendar(context.Context, *rousev1.PutCalendarRequest) (*rousev1.PutCalendarResponse, error) {
	return &rousev1.PutCalendarResponse{Calendar: &rousev1.Calendar{Revision: 1}, Moved: 3, Job: "calendar-c"}, nil
}

func (s *jobsOfATest) GetJob(_ context.Context, r *rousev1.GetJobRequest) (*rousev1.Job, error) {
	if s.job == nil {
		return nil, rousev1.ErrorToStatus(rouse.ErrForbidden).Err()
	}
	s.job.Namespace, s.job.Id, s.job.Kind = r.Namespace, r.Id, "calendar"
	return s.job, nil
}

// toldBy runs a command with a server, and returns what it prints to stderr.
func toldBy(t *testing.T, s *jobsOfATest, args ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	rousev1.RegisterTimersServer(g, s)
	rousev1.RegisterCalendarsServer(g, s)
	rousev1.RegisterJobsServer(g, s)
	go func() { _ = g.Serve(listener) }()
	defer g.Stop()
	dir := t.TempDir()
	file := func(name, text string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if _, err = f.WriteString(text); err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a := cli.NewApp(t.Context(), file("in", `{"days": []}`), file("out", ""), file("err", ""))
	c, err := parseCommand(a, append(args, "--server", listener.Addr().String()))
	if err == nil {
		err = c.Run(a)
	}
	a.ReportError(err)
	printed, err := os.ReadFile(filepath.Join(dir, "err"))
	if err != nil {
		t.Fatal(err)
	}
	return string(printed)
}

// TestWhetherTheJobGoesOn is printed only if the job may not have ended.
func TestWhetherTheJobGoesOn(t *testing.T) {
	for _, c := range []struct {
		end  error
		goes bool
	}{{rouse.ErrUnavailable, true}, {rouse.ErrClosed, true}, {context.Canceled, true}, {context.DeadlineExceeded, true},
		{rouse.ErrConflict, false}, {rouse.ErrForbidden, false}, {rouse.Refuse("when", "x", "is wrong", "change it"), false}, {rouse.ErrNotFound, false}, {rouse.ErrQuota, false}} {
		got := toldBy(t, &jobsOfATest{end: c.end}, "pause", "--all", "--yes")
		if strings.Contains(got, "goes on") != c.goes || !strings.Contains(got, "b: ") {
			t.Errorf("%v: %s", c.end, got)
		}
	}
}

// TestTimersThatACalendarHasNotMoved are told, with the job that knows them.
func TestTimersThatACalendarHasNotMoved(t *testing.T) {
	for _, c := range []struct {
		job  *rousev1.Job
		want string
	}{{&rousev1.Job{State: "running"}, "the job calendar-c moves the rest; see rouse jobs get calendar-c"},
		{&rousev1.Job{State: "done", Failed: 2}, "2 timers could not be moved; see rouse jobs get calendar-c"},
		{&rousev1.Job{State: "done", Failed: 1}, "1 timer could not be moved; see rouse jobs get calendar-c"},
		{nil, "not all timers have moved; see rouse jobs get calendar-c"}} {
		if got := toldBy(t, &jobsOfATest{job: c.job}, "calendar", "put", "c", "-"); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.job, got)
		}
	}
}
