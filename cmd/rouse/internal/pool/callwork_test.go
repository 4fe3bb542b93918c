package pool

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// TestCommandsOfWorkers holds what is the answer of a worker's command, and that each of its limits ends it.
func TestCommandsOfWorkers(t *testing.T) {
	run := func(ctx context.Context, in string, command ...string) (string, error) {
		out, err := runCommand(ctx, command, []byte(in), io.Discard)
		return string(out), err
	}
	large := strings.Repeat("x", rouse.MaxPayload)
	for name, c := range map[string]struct{ in, script, out, fails string }{
		"an answer":              {"hello", "tr a-z A-Z", "HELLO", ""},
		"the largest one":        {large, "cat", large, ""},
		"one that is larger":     {large, "cat; echo", "", errLongAnswer.Error()},
		"one without an end":     {"", "exec yes", "", errLongAnswer.Error()},
		"input that is not read": {large, "echo done", "done\n", ""},
		"a failure":              {"", "echo half; exit 7", "", "exit status 7"},
		"a child that lives on":  {"", "sleep 3 & echo done", "done\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t.Context(), c.in, "sh", "-c", c.script)
			if c.fails == "" && (err != nil || out != c.out) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || out != "") {
				t.Errorf("%d bytes, %v", len(out), err)
			}
		})
	}
	t.Run("its time is over", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		_, err := runCommand(ctx, []string{"sh", "-c", "trap '' TERM; echo started >&2; while :; do sleep 0.1; done"}, nil, firstWrite(cancel))
		if err == nil || time.Since(began) > 30*time.Second {
			t.Errorf("after %v it ends with %v", time.Since(began), err)
		}
	})
}

// TestCommandsOfPayloads has what a payload runs.
func TestCommandsOfPayloads(t *testing.T) {
	for payload, want := range map[string][]string{
		`["df", "-h /"]`: {"df", "-h /"},
		`"df | wc -l"`:   {"sh", "-c", "df | wc -l"},
		"df\nuptime":     {"sh", "-c", "df\nuptime"},
		"[ -e /x ]":      {"sh", "-c", "[ -e /x ]"},
		"uptime":         {"sh", "-c", "uptime"},
		"":               nil, " \n": nil, `""`: nil, "[]": nil, `[""]`: nil, "[1]": nil, `{"a": 1}`: nil, "12": nil, "null": nil,
	} {
		got, err := commandOf([]byte(payload))
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v", payload, got, err)
		}
	}
}

// firstWrite is called by the first write to it.
type firstWrite func()

func (f firstWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
