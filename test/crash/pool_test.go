//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
)

// handler is what the workers of the test do with a request, which is a number: they write down that they
// have it, kill their worker the first time if the number ends with 7, and answer with the key and the
// number.
const handler = `read -r n
echo "$n $PPID" >> "$TEST_DIR/done"
case $n in *7) if mkdir "$TEST_DIR/killed.$n" 2>/dev/null; then kill -9 $PPID; exit 1; fi;; esac
echo "$WORKER_KEY $n"`

// TestPoolRequestsSurviveKills sends requests to many keys of a pool while the server is killed again and
// again, and workers kill themselves: each request that was acknowledged is answered, and no worker outlives
// its server.
func TestPoolRequestsSurviveKills(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := harness.TempDir(t)
			path, err := harness.Binary()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(data, "pools.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, `pools:
  - name: core
    transport: store
    unbind_delay: 200ms
    stop_delay: 200ms
    driver:
      subprocess:
        command: [%q, work, sh, -c, %q]
        env: {TEST_DIR: %q}
        first_pause: 50ms
`, path, handler, data), 0o644); err != nil {
				t.Fatal(err)
			}
			s := newServer(t, data, st.place(data), "--pools", file)
			s.Start()
			c := s.Dial(harness.Patience)
			dice := rand.New(rand.NewPCG(harness.Seed(t), 1))
			const keys, each = 12, 10
			ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
			defer cancel()
			var senders sync.WaitGroup
			for key := range keys {
				pause := time.Duration(50+dice.IntN(150)) * time.Millisecond
				senders.Go(func() {
					for i := range each {
						n := key*each + i
						_, err := c.Call(ctx, client.Call{Pool: "core", Key: fmt.Sprintf("k/%d", key), Payload: fmt.Appendf(nil, "%d\n", n), ID: fmt.Sprint("call-", n),
							Attempts: 10, Keep: time.Hour})
						if err != nil {
							t.Errorf("request %d: %v", n, err)
							return
						}
						time.Sleep(pause)
					}
				})
			}
			for range harness.Rounds(t, 2, 4) {
				time.Sleep(time.Duration(200+dice.IntN(500)) * time.Millisecond)
				s.Kill()
				s.Start()
			}
			senders.Wait()
			for n := range keys * each {
				want := fmt.Sprintf("k/%d %d\n", n/each, n)
				got, err := c.Fetch(ctx, "", fmt.Sprint("call-", n), harness.Patience)
				if err != nil || string(got.Answer.Payload) != want {
					t.Errorf("request %d: %q, pending %v, %v; want %q", n, got.Answer.Payload, got.Pending, err, want)
				}
			}
			if n, err := c.Count(ctx, rouse.Query{Namespace: "default", States: []rouse.State{rouse.StateDead}}); err != nil || n != 0 {
				t.Errorf("%d dead letters, %v", n, err)
			}
			s.Stop()
			done, workers := carriedOut(t, data)
			t.Logf("%d requests were done %d times, by %d workers", keys*each, done, len(workers))
			for pid := range workers {
				harness.Until(t, harness.Always("worker %d lives on", pid), func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
			}
		})
	}
}

// carriedOut reads what workers have written down: how often they had a request, and their process ids.
func carriedOut(t *testing.T, dir string) (times int, workers map[int]bool) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, "done"))
	if err != nil {
		t.Fatal(err)
	}
	workers = map[int]bool{}
	for line := range strings.Lines(string(body)) {
		if _, pid, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			times++
			if n, err := strconv.Atoi(pid); err == nil && n > 1 { // 1 is the parent of whom a kill has left without one
				workers[n] = true
			}
		}
	}
	return times, workers
}
