package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/node"
)

// supervisor reports the state of a server to systemd, if it started the program with Type=notify: when it
// serves, that it makes progress, and when it stops. It writes lines to the socket that NOTIFY_SOCKET names.
type supervisor struct {
	conn     net.Conn // nil without a systemd that wants reports
	log      *slog.Logger
	watchdog time.Duration // without a report for this long systemd restarts the service; 0 is no watchdog
	stop     context.CancelFunc
	reports  sync.WaitGroup
}

// NewSupervisor connects to the socket, and reports the end of the program's context. The caller calls close
// when the server has stopped.
func NewSupervisor(a *cli.App, log *slog.Logger) (s *supervisor, err error) {
	s = &supervisor{log: log, stop: func() {}}
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return s, nil
	}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		usec, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name) // they are not for the workers that this process starts
	}
	if s.conn, err = net.Dial("unixgram", socket); err != nil { // Go reads a leading @ as systemd does
		return nil, fmt.Errorf("NOTIFY_SOCKET, to report to systemd: %w", err)
	}
	told := make(chan struct{})
	cancel := context.AfterFunc(a.Ctx, func() {
		defer close(told)
		s.sendState("STOPPING=1\nSTATUS=stopping: what is on its way may end")
	})
	s.stop = func() {
		if !cancel() { // a server that stops quickly may end before the report is written
			<-told
		}
	}
	s.sendState("STATUS=starting, or waiting for the store")
	return s, nil
}

// ReportServing reports that the server serves and then, twice in each interval of the watchdog, that it is
// alive. A server that is not alive is one that only a restart helps, as for /livez.
func (s *supervisor) ReportServing(n *node.Node) {
	if s.conn == nil {
		return
	}
	s.sendState("READY=1\nSTATUS=serving")
	if s.watchdog <= 0 {
		return
	}
	alive := func() error { return nil }
	if n != nil && n.Timers() != nil {
		alive = n.Timers().Alive
	}
	ctx, cancel := context.WithCancel(context.Background()) // the watchdog also watches a server that stops
	stop := s.stop
	s.stop = func() { stop(); cancel() }
	s.reports.Go(func() { s.reportAlive(ctx, alive) })
}

func (s *supervisor) reportAlive(ctx context.Context, alive func() error) {
	for {
		if err := alive(); err == nil {
			s.sendState("WATCHDOG=1")
		} else {
			s.log.Error("the watchdog of systemd gets no report: it will restart the service", "error", err)
		}
		if !backoff.Sleep(ctx, s.watchdog/2) {
			return
		}
	}
}

func (s *supervisor) sendState(state string) {
	if _, err := s.conn.Write([]byte(state)); err != nil {
		s.log.Warn("systemd cannot be told of the service's state", "error", err)
	}
}

// EndReports ends the reports.
func (s *supervisor) EndReports() {
	s.stop()
	s.reports.Wait()
	if s.conn != nil {
		_ = s.conn.Close()
	}
}
