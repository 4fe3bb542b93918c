package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
)

// costlyRatio is how many times the CPU time of the largest honest call, a batch of 5,000 timers, a hostile
// one may take.
const costlyRatio = 25

// TestHostileCallsTakeNoMoreCPUThanHonestOnes compares the CPU time that a real server takes for calls made
// to be expensive with that for the largest call that is meant to be made. CPU time hardly depends on what
// else the machine does.
func TestHostileCallsTakeNoMoreCPUThanHonestOnes(t *testing.T) {
	data := harness.TempDir(t)
	s := newServer(t, data, "pebble:"+data+"/pebble", "--grace", "1s")
	s.Start()
	c := s.Dial(harness.Patience)
	post := func(path string, body []byte) {
		t.Helper()
		answer, err := http.Post("http://"+s.Address()+"/v1/namespaces/bad/"+path, "application/json", bytes.NewReader(body))
		if err != nil {
			return // the server may close the connection of a body that is too long
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	var minutes []string
	for i := range 60 {
		minutes = append(minutes, fmt.Sprintf("%d * * * MON", i))
	}
	costly := rouse.Spec{Schedule: "* * * * MON", Also: []string{"@every 10ms"}, Except: minutes, Target: "stream:x"}
	dense := rouse.Spec{Schedule: "@every 7m", Except: minutes, Target: "stream:x"}
	for i := range 50 {
		if _, err := c.Create(t.Context(), "bad", fmt.Sprint("costly", i), costly); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pause(t.Context(), "bad", fmt.Sprint("costly", i), "it is looked at only"); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	honest := func() {
		var b strings.Builder
		b.WriteString(`{"timers":[`)
		for i := range 5000 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"name":"h%d","schedule":"@every 24h","target":"stream:x","payload":{"n":%d}}`, n, i)
			n++
		}
		b.WriteString(`]}`)
		post("timers:batchCreate", []byte(b.String()))
	}
	honest() // the first one warms up
	const rounds = 3
	measure := func(call func()) time.Duration {
		before := cpuTime(t, s)
		for range rounds {
			call()
		}
		return (cpuTime(t, s) - before) / rounds
	}
	most := max(measure(honest), 10*time.Millisecond) * costlyRatio // the system counts in hundredths of a second
	many := func(item string, size int) []byte {
		return []byte(`{"timers":[` + strings.Repeat(item+",", size/(len(item)+1)) + item + `]}`)
	}
	deep := []byte(`{"schedule":"@after 1h","target":"stream:x","payload":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}`)
	for name, call := range map[string]func(){
		"millions of empty timers": func() { post("timers:batchCreate", many("{}", 7<<20)) },
		"imports of as many":       func() { post("timers:import", many("{}", 7<<20)) },
		"a body that is too long":  func() { post("timers:batchCreate", many("{}", 32<<20)) },
		"deep JSON":                func() { post("timers", deep) },
		"many labels": func() {
			post("timers", []byte(`{"schedule":"@after 1h","target":"stream:x","labels":{`+manyLabels(900<<10)+`}}`))
		},
		"a schedule that is refused": func() {
			_, _ = c.Create(t.Context(), "bad", "no", rouse.Spec{Schedule: "@every 2m", Except: []string{"*/2 * * * *"}, Target: "stream:x"})
		},
		"a long recurrence rule": func() {
			_, _ = c.Create(t.Context(), "bad", "no", rouse.Spec{Schedule: "rrule:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=-1", Target: "stream:x"})
		},
		"a costly preview": func() {
			_, _ = c.Preview(t.Context(), client.PreviewRequest{Spec: dense, Namespace: "bad", Count: 1000})
		},
		"a preview whose client goes away": func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, _ = c.Preview(ctx, client.PreviewRequest{Spec: costly, Namespace: "bad", Count: 1000})
		},
		"a costly simulation": func() {
			from := rouse.At(time.Now())
			_, _ = c.Simulate(t.Context(), rouse.Query{Namespace: "bad"}, from, from.Add(2000*time.Hour), 10_000)
		},
		"a costly backfill": func() {
			from := rouse.At(time.Now().Add(-2000 * time.Hour))
			_, _ = c.Backfill(t.Context(), "bad", "costly0", client.BackfillRequest{From: from, Until: from.Add(1000 * time.Hour), DryRun: true})
		},
	} {
		took := measure(call)
		t.Logf("%s: %v of %v", name, took, most)
		if took > most {
			t.Errorf("%s: %v of CPU time, more than %d times a batch of 5,000 timers, %v", name, took, costlyRatio, most)
		}
	}
}

func manyLabels(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"l%d":"x"`, i)
	}
	return b.String()
}

// cpuTime returns how much CPU time the server has taken so far.
func cpuTime(t *testing.T, s *server) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may have spaces
	fields := strings.Fields(rest)
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
