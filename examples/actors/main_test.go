package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
	_ "github.com/rousehq/rouse/node/reminder"
)

// process is the example as it runs.
type process struct {
	address string
	cmd     *exec.Cmd
	lines   chan string
}

func start(t *testing.T, binary, rouse string) *process {
	t.Helper()
	cmd := exec.Command(binary, rouse, "127.0.0.1:0")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, lines: make(chan string, 1000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
	})
	p.address, _ = strings.CutPrefix(p.say(t, "listening on "), "listening on ")
	return p
}

// say waits for a line that begins so.
func (p *process) say(t *testing.T, begin string) string {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("it ended before it printed %q", begin)
			}
			if strings.HasPrefix(line, begin) {
				return line
			}
		case <-late:
			t.Fatalf("it did not say %q", begin)
		}
	}
}

// post puts a thing into a cart, and tries again while that does not work.
func (p *process) post(t *testing.T, cart string) (where string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Post("http://"+p.address+"/carts/"+cart+"?item=tea", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err == nil && r.StatusCode == http.StatusOK {
			where, _, _ = strings.Cut(strings.TrimPrefix(string(body), "cart "+cart+" on "), ": ")
			return where
		}
		if time.Now().After(end) {
			t.Fatalf("%s %s %v", r.Status, body, err)
		}
	}
}

// TestActors runs two processes: carts are on either, whichever process is asked; when one is killed, its
// carts are on the other, with their reminders.
func TestActors(t *testing.T) {
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Reminders, c.ReminderHeartbeat = true, 500*time.Millisecond })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	binary := filepath.Join(t.TempDir(), "actors")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	one, two := start(t, binary, n.Addr()), start(t, binary, n.Addr())
	of := map[string]string{} // a cart of each
	for k := 0; len(of) < 2; k++ {
		cart := fmt.Sprint(k)
		where := one.post(t, cart)
		if other := two.post(t, cart); other != where {
			t.Errorf("cart %s is on %s and on %s", cart, where, other)
		}
		of[where] = cart
		if k > 100 {
			t.Fatalf("all carts are on %v", of)
		}
	}
	if err := two.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	early := false // on a machine that was busy for so long
	for line := range two.lines {
		early = early || strings.HasPrefix(line, "cart "+of[two.address]+" was abandoned")
	}
	if !early {
		one.say(t, "cart "+of[two.address]+" was abandoned") // its reminder comes to where it is now
	}
	if where := one.post(t, of[two.address]); where != one.address {
		t.Errorf("the cart of the one that was killed is on %s", where)
	}
	one.say(t, "cart "+of[two.address]+" was abandoned, with 1 things")
}
