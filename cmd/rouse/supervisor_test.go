//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSystemdIsNotified runs a server as systemd does with Type=notify and a watchdog: the reports come in
// their order, and workers do not get the socket.
func TestSystemdIsNotified(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := exec.Command("rouse", "serve", "--listen", "127.0.0.1:0", "--admin", "", "--store", "mem:", "--data", t.TempDir())
	server.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=200000"}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait() //nolint:errcheck // it has ended or was killed
	defer server.Process.Kill()
	await := func(want string) {
		t.Helper()
		buf := make([]byte, 1024)
		for {
			if err := l.SetReadDeadline(time.Now().Add(scriptPatience)); err != nil {
				t.Fatal(err)
			}
			n, err := l.Read(buf)
			if err != nil {
				t.Fatalf("no report %s: %v", want, err)
			}
			if state, _, _ := strings.Cut(string(buf[:n]), "\n"); state == want {
				return
			}
		}
	}
	await("READY=1")
	await("WATCHDOG=1")
	await("WATCHDOG=1")
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1")
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

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
		s.endReports()
		_ = systemd.Close()
	})
}
