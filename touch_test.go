package rouse_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxField and maxOperation are how many hand-written files, without tests, a new field of a spec and a new
// operation need. ARCHITECTURE.md lists them.
const (
	maxField     = 6
	maxOperation = 7
)

// touched are changes that were made before, with the words by which their files are found.
var touched = []struct {
	change string
	words  string   // a regular expression
	effect []string // the beginnings of paths of files where the words are what the change is for, not a form of it
}{
	{"the field PauseAfter of a spec", `PauseAfter|pause_after|pause-after`, []string{"selfpause.go", "internal/timers/coalesce.go"}},
	{"the field Criticality of a spec", `Criticality|criticality`, []string{"rouse.go", "store/", "node/", "internal/migrate/"}},
	{"the field MaxOccurrences of a spec", `MaxOccurrences|max_occurrences|max-occurrences`,
		[]string{"walk.go", "timer.go", "internal/timers/", "internal/dapr/", "internal/reminder/", "internal/foreign/", "cmd/rouse/internal/timer/next.go", "internal/declare/"}},
	{"the operation Backfill", `Backfill|BackfillRequest|backfillCmd|backfillTimer`, []string{"edit.go"}},
	{"the operation Explain", `Explain|ExplainRequest|explainCmd|explainTimer|Explanation`, []string{"internal/timers/explaincause.go", embedded}},
	{"the operation Patch", `\.Patch\(|PatchRequest|patchTimer`, []string{"api/patch.go", "client/change.go", "internal/timers/rewrite.go", embedded}},
	{"the operation Reschedule", `Reschedule|RescheduleRequest|rescheduleCmd|rescheduleTimer`, []string{"edit.go", "client/bulk.go", "internal/timers/bulk.go", embedded}},
	{"the operation Skip", `Skip|SkipRequest|skipCmd|skipTimer`, []string{"edit.go", "internal/timers/bulk.go", embedded}},
	{"the operation Simulate", `Simulate|SimulateRequest|simulateCmd|simulateTimers`, []string{embedded}},
}

// embedded has the operations that programs with a node of their own call without a client: those that they
// need, not all.
const embedded = "node/verbs.go"

// madeOrTests are files that are made of others, and those of tests and examples.
var madeOrTests = regexp.MustCompile(`_test\.go$|\.pb\.go$|\.gen\.go$|^api/openapi\.yaml$|^packaging/helm/rouse/files/crds\.yaml$|^(store/storetest|sink/sinktest|rousetest|test|bench|examples|docs|tools)/`)

// TestChangesTouchFewFiles counts the files in which changes of two kinds are found: so that no form of a
// spec or of an operation is written by hand a second time.
func TestChangesTouchFewFiles(t *testing.T) {
	comment := regexp.MustCompile(`(?m)//.*$`)
	code := map[string]string{}
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go", "*.proto", "*.yaml")) {
		if b, err := os.ReadFile(file); err == nil && !madeOrTests.MatchString(file) {
			code[file] = comment.ReplaceAllString(string(b), "")
		}
	}
	for _, c := range touched {
		words := regexp.MustCompile(`\b(` + c.words + `)\b`)
		var files []string
		for file, text := range code {
			if words.MatchString(text) && !slices.ContainsFunc(c.effect, func(path string) bool { return strings.HasPrefix(file, path) }) {
				files = append(files, file)
			}
		}
		most := maxField
		if strings.HasPrefix(c.change, "the operation") {
			most = maxOperation
		}
		if slices.Sort(files); len(files) > most || len(files) == 0 {
			t.Errorf("%s is in %d files, at most %d are meant:\n\t%s", c.change, len(files), most, strings.Join(files, "\n\t"))
		}
	}
}

// maxLinked is how many files of a node, in addition to its own package, name a store, a sink or a queue.
const maxLinked = 2

// TestStoresAndSinksAreLinkedInFewPlaces: a new store, sink or queue is its package and the few places that
// assemble a node.
func TestStoresAndSinksAreLinkedInFewPlaces(t *testing.T) {
	for _, pkg := range []string{"store/sqlite", "store/front", "sink/broker/amqp", "sink/broker/nats", "sink/broker/redis", "sink/function",
		"sink/stream", "sink/webhook", "internal/queue/amqp"} {
		var files []string
		for _, file := range strings.Fields(output(t, "git", "grep", "-lF", `"github.com/rousehq/rouse/`+pkg+`"`, "--", "node/*.go")) {
			if !madeOrTests.MatchString(file) {
				files = append(files, file)
			}
		}
		if len(files) > maxLinked || len(files) == 0 {
			t.Errorf("%s is linked in %d files, at most %d are meant: %v", pkg, len(files), maxLinked, files)
		}
	}
}
