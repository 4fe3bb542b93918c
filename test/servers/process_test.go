//go:build unix

package servers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestNothingOutlivesTheTestBinary kills a test binary with servers: their processes and directories must
// disappear.
func TestNothingOutlivesTheTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	t.Parallel()
	findPostgres(t) // so that the test is skipped here if servers are optional
	requireProgram(t, "redis-server")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestHoldsServers$", "-test.v")
	cmd.Env = append(os.Environ(), "ROUSE_TEST_HOLDS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close() //nolint:errcheck // of a process that is gone
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	var pids []int
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "holds" {
			continue
		}
		dir = fields[1]
		for _, f := range fields[2:] {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if dir == "" || len(pids) < 4 {
		t.Fatalf("the test binary holds %q and the processes %v", dir, pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	p := &process{name: "test binary"}
	if err := p.waitForExit(pids); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), plenty)
	defer cancel()
	err = pollUntilNil(ctx, func(context.Context) error {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("%s is still there: %v", dir, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHoldsServers is the test binary that TestNothingOutlivesTheTestBinary kills.
func TestHoldsServers(t *testing.T) {
	if os.Getenv("ROUSE_TEST_HOLDS") == "" {
		t.Skip("for TestNothingOutlivesTheTestBinary")
	}
	Postgres(t)
	redis := StartRedis(t)
	pids, err := findDescendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nholds %s", filepath.Dir(redis.Dir()))
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(b)) != "sh" {
			fmt.Printf(" %d", pid)
		}
	}
	fmt.Println()
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
}
