package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatABuildWouldRefuseIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/m\n\ngo 1.26\n",
		"a.go":      "package m\n\nimport \"syscall\"\n\nvar A = syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}\n",
		"a_test.go": "package m\n\nimport \"syscall\"\n\nvar b = syscall.Mount\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string][]string{"linux/arm64": nil, "darwin/arm64": {"Pdeathsig", "syscall.Mount"}, "windows/amd64": {"Pdeathsig"}} {
		system, processor, _ := strings.Cut(target, "/")
		got, err := checkPackages(dir, system, processor)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %q", target, got)
			continue
		}
		for _, text := range want {
			if !strings.Contains(strings.Join(got, "\n"), text) {
				t.Errorf("%s: nothing of %s: %q", target, text, got)
			}
		}
	}
}
