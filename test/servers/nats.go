//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS returns the URL of a fresh, empty NATS with JetStream, a separate process that ends with the test.
func NATS(t testing.TB) string {
	t.Helper()
	return StartNATS(t).URL()
}

// StartNATS starts a NATS with JetStream, whose streams are files in the server's directory. Acknowledged
// messages are in the kernel's memory, so they survive Kill; they reach the disk later: NATS syncs every two
// minutes, and only NATS 2.10 and later can change that (sync_interval: always). Settings are name=value, as
// in nats.conf.
func StartNATS(t testing.TB, settings ...string) *Server {
	t.Helper()
	path, more := requireProgram(t, "nats-server"), parseSettings(t, settings)
	p, err := launchServer("nats", 1, nil, func(p *process) error {
		p.path = path
		p.args = []string{"-a", "127.0.0.1", "-p", fmt.Sprint(p.ports[0].port), "-js", "-sd", filepath.Join(p.dir, "store")}
		if len(more) > 0 {
			file, text := filepath.Join(p.dir, "nats.conf"), ""
			for _, s := range more {
				text += s[0] + ": " + s[1] + "\n"
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			p.args = append(p.args, "-c", file)
		}
		p.ready = func(ctx context.Context) error { return natsReady(ctx, "nats://"+p.ports[0].claimedAddr()) }
		p.stopSignal = syscall.SIGTERM
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := p.ports[0].claimedAddr()
	return newServer(t, p, "nats://"+addr, addr)
}

// natsReady asks JetStream, which is ready after the server.
func natsReady(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return errors.Join(errors.New("JetStream does not answer"), err)
	}
	return nil
}
