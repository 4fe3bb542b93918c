package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// failure is a test that ran to its end and failed, or a whole package, if test is empty, which the race
// detector ended by a fault of its own.
type failure struct{ path, test string }

func (f failure) String() string { return strings.TrimSpace(f.path + " " + f.test) }

// results are those of one go test.
type results struct {
	packages, tests int  // that ran and were not skipped
	passed          bool // go test ended well
	failures        []failure
	broken          []string // packages that failed in another way, and how
}

// event is a line of go test -json: cmd/test2json, and cmd/go for builds.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build, in place of Package
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// runTests runs go test once, and prints the results.
func (r *runner) runTests(flags, paths []string) results {
	c := exec.Command(r.command, slices.Concat([]string{"test"}, flags, []string{"-json"}, paths)...)
	c.Stderr = os.Stderr
	p := parser{out: r.out, running: map[string]*suite{}, builds: map[string]*strings.Builder{}}
	lines, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		p.parseEvents(lines)
		err = c.Wait()
	}
	p.passed = err == nil
	if err != nil && len(p.failures)+len(p.broken) == 0 {
		p.broken = []string{fmt.Sprintf("go test %s: %v", strings.Join(paths, " "), err)}
	}
	return p.results
}

// parser follows the events of a go test.
type parser struct {
	out     io.Writer
	running map[string]*suite           // by package
	builds  map[string]*strings.Builder // the output of the compiler, by build
	results
}

// suite is the tests of a package while they run.
type suite struct {
	output map[string]*strings.Builder // by test that has not ended, and "" for the package
	failed []string                    // tests, none of which is part of another one
	ended  bool                        // the process has run all its tests
	race   bool
	fault  bool // the race detector has found one in itself, and ended the process
}

func (p *parser) parseEvents(lines io.Reader) {
	in := bufio.NewReader(lines)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case json.Unmarshal(line, &e) != nil: // not of tests, such as a warning of the linker
			fmt.Fprintf(p.out, "%s", line)
		default:
			p.applyEvent(&e)
		}
		if err != nil {
			return
		}
	}
}

func (p *parser) applyEvent(e *event) {
	if e.Action == "build-output" {
		if p.builds[e.ImportPath] == nil {
			p.builds[e.ImportPath] = &strings.Builder{}
		}
		p.builds[e.ImportPath].WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	s := p.running[e.Package]
	if s == nil {
		s = &suite{output: map[string]*strings.Builder{"": {}}}
		p.running[e.Package] = s
	}
	switch e.Action {
	case "run":
		s.output[e.Test] = &strings.Builder{}
	case "output":
		s.addOutput(e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.endPackage(e, s)
			delete(p.running, e.Package)
		} else {
			p.endTest(e, s)
		}
	}
}

// addOutput keeps the output of a test until it is known whether that is of interest.
func (s *suite) addOutput(e *event) {
	s.race = s.race || strings.HasPrefix(e.Output, "WARNING: DATA RACE")
	s.fault = s.fault || strings.HasPrefix(e.Output, "ThreadSanitizer: CHECK failed") ||
		strings.HasPrefix(e.Output, "SIGSEGV: segmentation violation")
	s.ended = s.ended || e.Test == "" && (e.Output == "FAIL\n" || e.Output == "PASS\n")
	if strings.HasPrefix(e.Output, "=== ") {
		return
	}
	b := s.output[e.Test]
	if b == nil { // printed after the end of the test
		b = s.output[""]
	}
	b.WriteString(e.Output)
}

// endTest drops the output of a test that did not fail, and prints that of one that did, with its parts.
func (p *parser) endTest(e *event, s *suite) {
	b := s.output[e.Test]
	delete(s.output, e.Test)
	root, _, isPart := strings.Cut(e.Test, "/")
	if !isPart && e.Action != "skip" {
		p.tests++
	}
	if e.Action != "fail" || b == nil {
		return
	}
	if whole := s.output[root]; isPart && whole != nil {
		whole.WriteString(b.String())
		return
	}
	s.failed = append(s.failed, e.Test)
	fmt.Fprintf(p.out, "%s %s failed:\n%s", e.Package, e.Test, b)
}

// endPackage prints the line of a package, and decides which of its tests may be run again.
func (p *parser) endPackage(e *event, s *suite) {
	output := s.output[""].String()
	if strings.Contains(output, "[no test files]") {
		return
	}
	p.packages++
	if e.Action != "fail" {
		for line := range strings.Lines(output) {
			if strings.HasPrefix(line, "ok  \t") {
				fmt.Fprint(p.out, line)
			}
		}
		return
	}
	delete(s.output, "")
	why := ""
	switch {
	case e.FailedBuild != "":
		why = "does not build"
		if b := p.builds[e.FailedBuild]; b != nil {
			fmt.Fprint(p.out, b)
		}
	case s.race:
		why = "has a data race"
	case !s.ended || len(s.output) > 0:
		why = "ended before its tests did"
	case len(s.failed) == 0:
		why = "failed, and none of its tests did"
	}
	unfinished := make([]string, 0, len(s.output))
	for test := range s.output {
		unfinished = append(unfinished, test)
	}
	slices.Sort(unfinished)
	for _, test := range unfinished {
		fmt.Fprintf(p.out, "%s %s did not end:\n%s", e.Package, test, s.output[test])
	}
	fmt.Fprint(p.out, output)
	if s.fault && !s.race {
		p.failures = append(p.failures, failure{path: e.Package})
		return
	}
	if why != "" {
		p.broken = append(p.broken, e.Package+" "+why)
	}
	for _, test := range s.failed {
		if why == "" {
			p.failures = append(p.failures, failure{e.Package, test})
		} else {
			p.broken = append(p.broken, e.Package+" "+test)
		}
	}
}
