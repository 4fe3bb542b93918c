package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rousehq/rouse/internal/poll"
)

// TestMain makes the real command available to the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rouse": main})
}

// TestScripts runs the scripts of testdata/script: every command, as a person or a program uses it. In
// addition to testscript's own commands they have
//
//	start NAME ARGS…     run rouse in the background
//	await NAME REGEXP    wait until what it printed matches; named groups become variables
//	finish NAME CODE     wait until it ends by itself, with this exit code; what it printed is in NAME.out and NAME.err
//	signal NAME SIG CODE the same after a signal: TERM, INT or KILL
//	until REGEXP ARGS…   run rouse again and again until its output matches
//	untilended NAME ARGS…           run rouse again and again until the process NAME has ended
//	untilprinted NAME REGEXP ARGS…  the same until it has printed something
//	exit CODE rouse ARGS…           run rouse, which ends with this exit code
//	silent               a listener that takes connections and never answers, at $SILENT
//	taken                wait until it has taken one
//
// With the race detector, start runs a rouse with it. All others run one without it, which starts several
// times as fast, unless ROUSE_LONG=1 is set, or the script of a command with goroutines puts $WATCHED into
// its PATH.
func TestScripts(t *testing.T) {
	for _, name := range variables() { // the settings of the user must not affect the scripts
		if old, ok := os.LookupEnv(name); ok {
			os.Unsetenv(name)
			defer os.Setenv(name, old)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": startCommand, "await": awaitCommand, "finish": finishCommand, "signal": signalCommand, "until": untilCommand,
			"untilended": untilEndedCommand, "untilprinted": untilPrintedCommand, "exit": exitCommand,
			"silent": silentCommand, "taken": takenCommand, "capture": captureCommand,
		},
	})
}

// setUp prepares the environment of a script.
func setUp(env *testscript.Env) error {
	watched, err := exec.LookPath("rouse")
	if err != nil {
		return err
	}
	dir, err := unwatched()
	if err != nil {
		return err
	}
	env.Setenv("WATCHED", filepath.Dir(watched))
	env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
	// The race detector would have each process wait a second before it ends.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Values[backgroundKey{}] = &background{processes: map[string]*process{}}
	return nil
}

// unwatched returns the directory of a rouse without the race detector. It is removed with that of the other
// one.
var unwatched = sync.OnceValues(func() (string, error) {
	watched, err := exec.LookPath("rouse")
	if err != nil || poll.Long || !raceEnabled() {
		return filepath.Dir(watched), err
	}
	dir := filepath.Join(filepath.Dir(watched), "unwatched")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", filepath.Join(dir, "rouse"), ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// raceEnabled reports whether this program was built with the race detector.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func silentCommand(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	taken := make(chan struct{}, 100)
	backgroundOf(ts).taken = taken
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			taken <- struct{}{}
		}
	})
	ts.Defer(func() { l.Close(); wg.Wait() })
	ts.Setenv("SILENT", l.Addr().String())
}

func takenCommand(ts *testscript.TestScript, _ bool, _ []string) {
	<-backgroundOf(ts).taken
}
