package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEmbed builds the example and runs it twice in one directory: it greets, ends when it is interrupted,
// and goes on.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "embed")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for range 2 {
		cmd := exec.Command(binary)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // so that a hang fails
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "hello Ada, due 2") {
			t.Errorf("it printed %q, %v", line, err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		late.Stop()
	}
}

// TestAnotherStoreIsImported: a program has the embedded stores, and gets an error with the import for
// another one.
func TestAnotherStoreIsImported(t *testing.T) {
	err := run(t.Context(), "postgres://127.0.0.1:1/timers")
	if err == nil || !strings.Contains(err.Error(), `import _ "github.com/rousehq/rouse/store/postgres"`) {
		t.Errorf("it is told %v", err)
	}
}
