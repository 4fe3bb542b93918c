package console_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/subprocess"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/pool"
)

// TestPools shows the groups of a pool whose workers end at once, for keys that would do harm if they were
// not shown as text.
func TestPools(t *testing.T) {
	setup := pool.Setup{Config: pool.Config{Name: "core", Delays: pool.Delays{Unbind: 10 * time.Minute, Stop: 10 * time.Minute}}, Open: func(log *slog.Logger) (driver.Driver, error) {
		return subprocess.New(subprocess.Config{Pool: "core", Command: []string{"false"}, Log: log})
	}}
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Pools = []pool.Setup{setup} })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		_ = n.Close()
		<-ended
	})
	c, err := client.Dial(n.Addr(), client.Options{Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keys := append([]string{""}, hostile...)
	for i, key := range keys {
		if len(key) > pool.MaxKey {
			keys[i] = key[:pool.MaxKey]
		}
		if _, err := c.Call(t.Context(), client.Call{Pool: "core", Key: keys[i], Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	b, source := openBrowser(t), axe(t)
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, "http://"+n.Addr(), l)
		p.open("/pools?pool=core")
		p.until(`document.querySelector("h1 + .sub")?.textContent.includes("with trouble")`)
		for _, key := range keys {
			if got := p.text("#main"); !strings.Contains(got, strings.TrimSpace(key)) {
				t.Errorf("the key %q is not shown: %s", key, got)
			}
		}
		if got := p.text("#main"); !strings.Contains(got, "a worker ended: ") || strings.Contains(got, "undefined") {
			t.Errorf("it is not shown why workers end: %s", got)
		}
		p.quiet("pools")
		p.accessible(source, "pools")
		p.shoot("pools-core", l)
	}
}
