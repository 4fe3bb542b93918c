package rouse_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parsers are the functions of the standard library that read a kind of value for which rouse has a parser of
// its own, and the files that may call them: the parser itself, and what reads texts that others define or
// that rouse has written itself.
var parsers = []struct {
	call, cure string
	may        []string
}{
	{"time.ParseDuration(", "call rouse.ParseDuration", []string{
		"instant.go",
		"internal/dapr/job/when.go", "internal/dapr/job/time.go", // durations as Dapr takes them
		"internal/foreign/dapr/period.go", // what an actor runtime stored
	}},
	{"time.Parse(time.RFC3339", "call rouse.ParseInstant", []string{
		"instant.go",
		"cmd/rouse/internal/cli/timearg.go",                                                                         // after rouse.ParseInstant took it: before it is rounded
		"internal/dapr/job/time.go",                                                                                 // times as Dapr takes them
		"internal/foreign/dapr/reminder.go",                                                                         // what an actor runtime stored
		"client/times.go",                                                                                           // what a server answers: a local time with its offset
		"internal/claim/clock.go", "internal/pool/driver/systemd/files.go", "bench/webhook.go", "rousetest/want.go", // written by rouse
		"internal/pool/driver/docker/ends.go", // written by Docker
	}},
	{"http.ParseTime(", "call rouse.ParseInstant", []string{"sink/webhook/answer.go"}}, // a Retry-After
}

// TestOneParserForEachKindOfValue: a second parser of durations or times takes what other doors refuse.
func TestOneParserForEachKindOfValue(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", "bin", "tools", "test", "testdata", "brokertest"}, e.Name()):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, p := range parsers {
			if strings.Contains(string(body), p.call) && !slices.Contains(p.may, filepath.ToSlash(path)) {
				t.Errorf("%s calls %s): %s, or say in this test whose text it reads", path, p.call, p.cure)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
