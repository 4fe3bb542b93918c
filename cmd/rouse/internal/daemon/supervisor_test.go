package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheWatchdogHasToBeAlive: a server whose firing loop hangs sends nothing, and systemd restarts it.
func TestTheWatchdogHasToBeAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, systemd := net.Pipe()
		reports := make(chan string, 100)
		go func() {
			defer close(reports)
			for buf := make([]byte, 100); ; {
				n, err := systemd.Read(buf)
				if err != nil {
					return
				}
				reports <- string(buf[:n])
			}
		}()
		s := &supervisor{conn: conn, log: slog.New(slog.DiscardHandler), watchdog: 30 * time.Second, stop: func() {}}
		ctx, cancel := context.WithCancel(t.Context())
		var dead atomic.Bool
		s.reports.Go(func() {
			s.reportAlive(ctx, func() error {
				if dead.Load() {
					return errors.New("the loop hangs")
				}
				return nil
			})
		})
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if len(reports) != 5 {
			t.Errorf("%d reports in a minute, of a watchdog of 30 s", len(reports))
		}
		dead.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(reports) != 5 {
			t.Errorf("%d reports of a server that hangs", len(reports)-5)
		}
		cancel()
		s.EndReports()
		_ = systemd.Close()
	})
}
