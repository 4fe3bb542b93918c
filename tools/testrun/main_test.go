package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatARunForgives runs packages whose tests fail in many ways. In them, first is true once.
func TestWhatARunForgives(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		ends string // the lists at the end
		has  string // what is printed before
	}{
		"once": {
			`func TestOnce(t *testing.T) { t.Run("a/part", func(t *testing.T) { if first() { t.Error("why it failed") } }) }
			func TestGood(t *testing.T) { t.Log("silent") }`,
			"failed once: example/p TestOnce",
			"why it failed",
		},
		"twice": {
			`func TestTwice(t *testing.T) { t.Error("why it failed") }`,
			"failed: example/p TestTwice (twice)",
			"once more, alone: example/p TestTwice",
		},
		"skipped": {
			`func TestOnce(t *testing.T) { if first() { t.Error("why it failed") } else { t.Skip("not today") } }`,
			"failed: example/p TestOnce (twice)",
			"why it failed",
		},
		"detector": {
			`func TestA(t *testing.T) { if first() { println("ThreadSanitizer: CHECK failed: a.cpp:1"); os.Exit(66) } }
			func TestB(t *testing.T) {}`,
			"failed once: example/p",
			"once more, alone: example/p\n",
		},
		"fault": {
			`func TestA(t *testing.T) { if first() { println("SIGSEGV: segmentation violation\nPC=0x1 m=6"); os.Exit(2) } }
			func TestB(t *testing.T) {}`,
			"failed once: example/p",
			"once more, alone: example/p\n",
		},
		"nil": {
			`func TestNil(t *testing.T) { if first() { var p *int; *p = 1 } }`,
			"failed: example/p ended before its tests did\nfailed: example/p TestNil",
			"nil pointer dereference",
		},
		"many": {
			`func TestA(t *testing.T) { t.Error("no") }
			func TestB(t *testing.T) { t.Error("no") }
			func TestC(t *testing.T) { t.Error("no") }`,
			"failed: example/p TestA\nfailed: example/p TestB\nfailed: example/p TestC",
			"",
		},
		"panic": {
			`func TestPanic(t *testing.T) { if first() { panic("why it failed") } }
			func TestAfter(t *testing.T) { t.Error("not seen") }`,
			"failed: example/p ended before its tests did\nfailed: example/p TestPanic",
			"why it failed",
		},
		"exit": {
			`func TestExit(t *testing.T) { if first() { println("why it failed"); os.Exit(3) } }
			func TestAfter(t *testing.T) { t.Error("not seen") }`,
			"failed: example/p ended before its tests did",
			"why it failed",
		},
		"timeout": {
			`func TestWaits(t *testing.T) { if first() { select {} } }`,
			"failed: example/p ended before its tests did",
			"test timed out",
		},
		"main": {
			`func TestMain(m *testing.M) { m.Run(); println("why it failed"); os.Exit(1) }
			func TestGood(t *testing.T) {}`,
			"failed: example/p failed, and none of its tests did",
			"why it failed",
		},
		"build": {
			`func TestBuild(t *testing.T) { undefined() }`,
			"failed: example/p does not build",
			"undefined: undefined",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, printed := run(t, 2, map[string]string{"p": c.code}, "-timeout=5s ./p")
			before, ends, _ := strings.Cut(printed, " tests of 1 packages in ")
			_, ends, _ = strings.Cut(ends, "\n")
			if strings.TrimSpace(ends) != c.ends || !strings.Contains(before, c.has) || strings.Contains(before, "silent") {
				t.Errorf("it ends with %q, and before that prints:\n%s", ends, before)
			}
			if good != (name == "once" || name == "detector" || name == "fault") {
				t.Errorf("the run is good: %v", good)
			}
		})
	}
}

// TestGroups has reruns come after all groups. A group that no rerun can make good ends the run.
func TestGroups(t *testing.T) {
	code := map[string]string{
		"a": `func TestA(t *testing.T) { t.Error("no") }`,
		"b": `func TestB(t *testing.T) { t.Error("no") }`,
		"c": `func broken() { undefined() }`,
	}
	good, printed := run(t, 10, code, "./a", "./b")
	first, again := strings.Index(printed, "TestB failed"), strings.Index(printed, "once more")
	if good || first < 0 || again < first {
		t.Errorf("a test is run again before all groups have run:\n%s", printed)
	}
	good, printed = run(t, 10, code, "./a", "./c", "./b")
	if good || strings.Contains(printed, "once more") || strings.Contains(printed, "TestB") ||
		!strings.HasSuffix(printed, "failed: example/c does not build\nfailed: example/a TestA\n") {
		t.Errorf("after a package that does not build:\n%s", printed)
	}
}

// run runs groups of packages with this code, and returns whether all is good, and what is printed.
func run(t *testing.T, reruns int, code map[string]string, groups ...string) (good bool, printed string) {
	t.Helper()
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example\n\ngo 1.26\n")
	for name, text := range code {
		write(name+"/a_test.go", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ testing.TB\n\n"+
			"func first() bool { return os.Mkdir(\"seen\", 0o700) == nil }\n\n"+text+"\n")
	}
	for i := range groups {
		groups[i] = "-C=" + dir + " -vet=off " + groups[i]
	}
	var out strings.Builder
	r := runner{command: "go", reruns: reruns, out: &out}
	good = r.runGroups(groups)
	return good, out.String()
}
