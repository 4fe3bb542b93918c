// Command testrun runs go test on groups of packages, one group after another, and each test that failed once
// more, alone, when nothing else runs: a machine that others use, too, makes some tests fail once. A test
// that fails again fails the run, and so does a failure that a rerun of one test cannot clear: a package that
// does not build, a process that ended before its tests did (a panic, a timeout, an exit), a data race, a
// TestMain that fails, and more failures than -reruns. A package whose process the race detector ended by a
// fault of its own runs once more as a whole: "ThreadSanitizer: CHECK failed", or a line that begins with
// "SIGSEGV", as the runtime prints for a fault outside Go code (one inside is a panic), of which the tests
// have none but the detector's.
//
//	testrun [-go GO] [-reruns N] -- 'FLAGS PACKAGES' …
//
// In a group, flags have their value after "=". It prints a line for each package, the output of tests that
// failed, and at the very end the tests that failed once, and those that failed.
//
// A general runner (gotestsum) judges by the tests that failed only: a process that ended early is taken for
// good when the test that it ended in passes, although the tests after that one never ran.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	r := runner{out: os.Stdout}
	flag.StringVar(&r.command, "go", "go", "the go command")
	flag.IntVar(&r.reruns, "reruns", 10, "how many tests are run again; if more failed, none is")
	flag.Parse()
	if !r.runGroups(flag.Args()) {
		os.Exit(1)
	}
}

// runner runs groups of packages.
type runner struct {
	command string // go
	reruns  int
	out     io.Writer

	failedOnce, failed []string // in the words of the lists at the end
}

// runGroups runs all groups, then the tests that failed, and reports whether everything holds. A failure that
// no test of its own can make good ends the run after its group.
func (r *runner) runGroups(groups []string) bool {
	began := time.Now()
	var again []rerun
	packages, tests := 0, 0
	for _, text := range groups {
		flags, paths := splitGroup(text)
		result := r.runTests(flags, paths)
		packages, tests = packages+result.packages, tests+result.tests
		r.failed = append(r.failed, result.broken...)
		for _, f := range result.failures {
			again = append(again, rerun{flags, f})
		}
		if len(r.failed) > 0 {
			break
		}
	}
	if len(r.failed) > 0 || len(again) > r.reruns {
		for _, a := range again {
			r.failed = append(r.failed, a.String())
		}
	} else {
		r.runAgain(again)
	}
	fmt.Fprintf(r.out, "%d tests of %d packages in %v\n", tests, packages, time.Since(began).Round(time.Second))
	for _, test := range r.failedOnce {
		fmt.Fprintf(r.out, "failed once: %s\n", test)
	}
	for _, test := range r.failed {
		fmt.Fprintf(r.out, "failed: %s\n", test)
	}
	return len(r.failed) == 0
}

// rerun is a test to run again, with the flags of its group.
type rerun struct {
	flags []string
	failure
}

// runAgain runs tests again, one at a time.
func (r *runner) runAgain(tests []rerun) {
	for _, t := range tests {
		fmt.Fprintf(r.out, "once more, alone: %s\n", t)
		flags := append(t.flags[:len(t.flags):len(t.flags)], "-count=1")
		if t.test != "" {
			flags = append(flags, "-run=^"+t.test+"$")
		}
		result := r.runTests(flags, []string{t.path})
		if result.passed && (t.test == "" || result.tests == 1) {
			r.failedOnce = append(r.failedOnce, t.String())
		} else {
			r.failed = append(r.failed, t.String()+" (twice)")
		}
	}
}

// splitGroup returns the flags and the packages of a group.
func splitGroup(text string) (flags, paths []string) {
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "-") {
			flags = append(flags, word)
		} else {
			paths = append(paths, word)
		}
	}
	return flags, paths
}
