//go:build linux

package systemd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// wantError checks that an error contains some texts.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("there is no error with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is %q, without %q", err, w)
		}
	}
}

// TestUnitsThatCannotWork checks the errors for broken templates, that an attempt leaves nothing behind, and
// that a repaired template works without a restart of the driver.
func TestUnitsThatCannotWork(t *testing.T) {
	h := newHarness(t)
	right, err := os.ReadFile(filepath.Join(h.dir, "units", h.config.Unit))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  string
		words []string
	}{
		"missing@.service": {"", []string{"knows no unit missing@.service", "install it"}},
		"deaf@.service":    {"[Service]\nExecStart=/bin/true\nEnvironmentFile=-/etc/hostname\n", []string{"the unit deaf@.service does not read", "EnvironmentFile=" + h.dir + "/rouse/deaf/%i.env"}},
		"empty@.service":   {"[Service]\n", []string{"empty@.service", "bad-setting"}},
		"masked@.service":  {"mask", []string{"masked@.service", "masked"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(h.dir, "units", name)
			switch c.body {
			case "":
			case "mask":
				if err := os.Symlink("/dev/null", file); err != nil {
					t.Fatal(err)
				}
			default:
				h.write(name, c.body)
			}
			d := open(t, h.instance.config(h.private(), name))
			defer d.Close(context.Background()) //nolint:errcheck // there is nothing to release
			wantError(t, d.Ensure(t.Context(), group("k", 1)), c.words...)
			if list, err := d.List(t.Context()); len(list) > 0 || err != nil {
				t.Errorf("it lists %v, %v", list, err)
			}
			if c.body == "mask" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			h.write(name, string(bytes.ReplaceAll(right, []byte("Restart=on-failure"), []byte("Restart=no"))))
			h.systemctl("daemon-reload")
			ensure(t, d, "k", 1)
			what, holds := states("running")
			until(t, d, what, holds)
		})
	}
}

// TestSystemdIsNotThere checks the errors if there is no bus, no systemd on it, or one that refuses calls.
func TestSystemdIsNotThere(t *testing.T) {
	h := newHarness(t)
	call := func(c Config) error {
		d := open(t, c)
		defer d.Close(context.Background()) //nolint:errcheck // there is nothing to release
		return d.Ensure(t.Context(), group("k", 1))
	}
	c := h.config
	c.Bus = "unix:path=/no/such/bus"
	wantError(t, call(c), "cannot reach D-Bus at unix:path=/no/such/bus", "no such file", "is it running there")

	c.Bus = h.bus()
	policy := filepath.Join(h.dir, "strict.conf")
	if err := os.WriteFile(policy, []byte(`<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth><policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>`+
		`<allow own="*"/><deny send_interface="org.freedesktop.systemd1.Manager" send_member="StartUnit"/></policy></busconfig>`), 0o644); err != nil {
		t.Fatal(err)
	}
	h.write("dbus.service", "[Unit]\nRequires=dbus.socket\n[Service]\nType=notify\n"+
		"ExecStart=/usr/bin/dbus-daemon --config-file="+policy+" --address=systemd: --nofork --nopidfile --systemd-activation\n")
	h.systemctl("daemon-reload")
	h.systemctl("stop", "dbus.service", "dbus.socket")
	h.bus()
	wantError(t, call(c), "start "+h.config.Unit[:strings.Index(h.config.Unit, "@")+1]+"p-k-1.service", "does not let user root do that", "org.freedesktop.systemd1.manage-units", "polkit")
	if files := h.files(); len(files) > 0 {
		t.Errorf("there still is %q", files)
	}
}

// TestConnectionsEnd checks that a driver reconnects after its bus, or systemd itself, has restarted.
func TestConnectionsEnd(t *testing.T) {
	h := newHarness(t)
	h.config.Bus = h.bus()
	var log lockedBuffer
	h.config.Log = slog.New(slog.NewTextHandler(&log, nil))
	d := h.open()
	ensure(t, d, "k", 1)
	what, holds := states("running")
	w := until(t, d, what, holds)[0]
	h.systemctl("stop", "dbus.service", "dbus.socket")
	poll.Until(t, "it cannot list", func() bool { _, err := d.List(t.Context()); return err != nil })
	h.bus()
	poll.Until(t, "it can list again", func() bool { _, err := d.List(t.Context()); return err == nil })
	h.systemctl("daemon-reexec")
	poll.Until(t, "the worker is the same", func() bool {
		list, err := d.List(t.Context())
		return err == nil && len(list) == 1 && list[0].ID == w.ID && list[0].State == driver.Running
	})
	for len(d.Changed()) > 0 {
		<-d.Changed()
	}
	h.systemctl("kill", "-s", "KILL", h.unit(w))
	select {
	case <-d.Changed():
	case <-time.After(30 * time.Second):
		t.Error("it does not hear of changes any more")
	}
}

// TestCallsEnd checks that calls wait for other calls only until their context ends.
func TestCallsEnd(t *testing.T) {
	d := talk(t, newPretender(t), nil)
	if err := d.withTurn(t.Context(), func() error { // another call has the turn
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.List(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a list gives %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
