package crash

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestAHostileNamespaceLeavesTheOthersTheirTimers runs everything that the suite of hostile tenants has, and
// floods of calls, at the same time on a real server: the memory and the rows that the namespace "bad" takes
// are bounded, and the timers of "good" go on. (How late they are is judged in virtual time, by
// internal/engine/hostile_test.go.)
func TestAHostileNamespaceLeavesTheOthersTheirTimers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	var arrived atomic.Int64
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	t.Cleanup(good.Close)
	data := harness.TempDir(t)
	s := newServer(t, data, "pebble:"+data+"/pebble", "--grace", "1s", "--max-overlap", "100", "--dead-per-timer", "50")
	s.Start()
	c := s.Dial(harness.Patience)
	create := func(ns, name string, spec rouse.Spec) {
		t.Helper()
		if _, err := c.Create(t.Context(), ns, name, spec); err != nil {
			t.Fatalf("%s/%s: %v", ns, name, err)
		}
	}
	create("good", "tick", rouse.Spec{Schedule: "@every 100ms", Target: good.URL})
	before := peakMemory(t, s)

	hung, dead := "http://"+silent.Addr().String()+"/", "http://"+servers.FreeAddr(t)+"/"
	var minutes []string
	for i := range 60 {
		minutes = append(minutes, fmt.Sprintf("%d * * * MON", i))
	}
	for i := range 10 {
		create("bad", fmt.Sprint("overlap", i), rouse.Spec{Schedule: "@every 1ms", Target: hung, Overlap: rouse.OverlapAllow})
		create("bad", fmt.Sprint("dead", i), rouse.Spec{Schedule: "@every 10ms", Target: dead, Retry: rouse.Retry{Attempts: 1}, Overlap: rouse.OverlapWait})
		create("bad", fmt.Sprint("costly", i), rouse.Spec{Schedule: "* * * * MON", Also: []string{"@every 10ms"}, Except: minutes, Target: hung, Overlap: rouse.OverlapSkip})
	}
	if _, err := c.Create(t.Context(), "bad", "refused", rouse.Spec{Schedule: "*/2 * * * *", Except: []string{"*/2 * * * *"}, Target: hung}); err == nil {
		t.Error("a schedule that costs too much was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for n := 0; ctx.Err() == nil; n++ { // what is shed is not looked at
				_, _ = c.Preview(ctx, client.PreviewRequest{Spec: rouse.Spec{Schedule: "@every 7m", Except: minutes, Target: hung}, Namespace: "bad", Count: 1000})
				_, _ = c.Create(ctx, "bad", fmt.Sprint("flood", n%1000), rouse.Spec{Schedule: "@after 1h", Target: hung})
			}
		})
	}
	harness.Until(t, harness.Always("the other namespace has no fires during the flood"), func() bool { return arrived.Load() >= 40 })
	cancel()
	flood.Wait()
	then := arrived.Load()
	harness.Until(t, harness.Always("the other namespace's timer does not go on"), func() bool { return arrived.Load() >= then+10 })
	for _, state := range []rouse.State{rouse.StateFiring, rouse.StateDead} {
		n, err := c.Count(t.Context(), rouse.Query{Namespace: "bad", States: []rouse.State{state}})
		if most := int64(10 * 110); err != nil || n > most {
			t.Errorf("%d rows are %v, more than %d: %v", n, state, most, err)
		}
	}
	if grown := peakMemory(t, s) - before; grown > 512<<20 {
		t.Errorf("the server has taken %d MiB", grown>>20)
	}
	s.Signal(syscall.SIGTERM)
	s.Wait()
}

// peakMemory returns the most resident memory that the server has had, in bytes.
func peakMemory(t *testing.T, s *server) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the system does not tell how much memory it has had")
	return 0
}
