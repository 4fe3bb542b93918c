//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
