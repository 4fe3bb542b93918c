package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limitRow finds the value and the constant of a row of limits.md: | … | VALUE | … | `file.go` `name` |
var limitRow = regexp.MustCompile("(?m)^\\| [^|]* \\| ([^|]*) \\|.* `([a-z0-9_/]+\\.go)` `([A-Za-z0-9]+)` \\|$")

// TestLimitsAreThoseOfTheCode compares the values in limits.md with the constants that they name.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := limitRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 5 {
		t.Fatalf("limits.md has %d rows with constants", len(rows))
	}
	for _, row := range rows {
		shown, file, name := row[1], row[2], row[3]
		value, ok := constantIn(t, filepath.Join("..", file), name)
		if !ok {
			t.Errorf("limits.md names the constant %s of %s, which is not there, or no number", name, file)
			continue
		}
		if want, ok := limitValue(shown); !ok || want != value {
			t.Errorf("limits.md has %q for %s of %s, which is %d", shown, name, file, value)
		}
	}
}

// limitValue reads 2,000 or 16 MiB or 10 s, the first number of a cell; durations are in nanoseconds.
func limitValue(shown string) (int64, bool) {
	shown, _, _ = strings.Cut(shown, " (")
	number, unit, _ := strings.Cut(strings.TrimSpace(shown), " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	if err != nil {
		return 0, false
	}
	factor, ok := map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 24 * 3600e9}[unit]
	if !ok {
		factor = 1
	}
	return n * factor, true
}

// constantIn evaluates a constant of a file that is made of numbers, durations and constants of the same
// file.
func constantIn(t *testing.T, file, name string) (int64, bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Error(err)
		return 0, false
	}
	values := map[string]ast.Expr{"time.Millisecond": number("1000000"), "time.Second": number("1000000000"), "time.Minute": number("60000000000"),
		"time.Hour": number("3600000000000"), "rouse.MaxScheduleSteps": number("2000"),
		"MaxScheduleSteps": number("2000")}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, id := range spec.Names {
				if i < len(spec.Values) {
					values[id.Name] = spec.Values[i]
				}
			}
		}
		return true
	})
	v := evaluated(values[name], values, 0)
	if v == nil || v.Kind() != constant.Int {
		return 0, false
	}
	return constant.Int64Val(v)
}

func number(text string) ast.Expr { return &ast.BasicLit{Kind: token.INT, Value: text} }

func evaluated(e ast.Expr, values map[string]ast.Expr, depth int) constant.Value {
	if depth > 20 {
		return nil
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0))
	case *ast.ParenExpr:
		return evaluated(e.X, values, depth+1)
	case *ast.Ident:
		return evaluated(values[e.Name], values, depth+1)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return evaluated(values[x.Name+"."+e.Sel.Name], values, depth+1)
		}
	case *ast.BinaryExpr:
		x, y := evaluated(e.X, values, depth+1), evaluated(e.Y, values, depth+1)
		switch {
		case x == nil || y == nil:
		case e.Op == token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return nil
}

// bounding is what constants are called that bound something.
var bounding = regexp.MustCompile(`^(max|Max|longest|most)[A-Z]|(Limit|Size)$`)

// notInTheTable are the bounding constants that limits.md leaves out, by why.
var notInTheTable = map[string][]string{
	"the longest pause between two tries of what goes on until it succeeds": {
		"client/follow.go mostPause", "client/reminder/link.go mostPause", "client/reminder/try.go mostTry", "internal/claim/kubelease/kubelease.go maxPause",
		"internal/hub/place.go mostPutOff", "internal/pool/amqp/amqp.go longestWait", "internal/pool/driver/docker/loop.go longestRetry", "internal/pool/groupcalls.go longestAsk",
		"internal/pool/groupcalls.go longestFailing", "internal/kubelink/link.go longestAfter",
		"internal/pool/local/local.go maxPutOff", "internal/pool/local/queues.go longestLook", "internal/queue/amqp/link.go longestWait",
		"internal/queue/jetstream/consume.go longestWait", "internal/queue/redisstream/consume.go longestWait", "internal/relay/check.go longestLook", "internal/reminder/call/sink.go maxPutOff",
		"sink/broker/amqp/link.go longestWait", "sink/broker/redis/link.go longestWait"},
	"how long a lease is believed whose owner does not tell: all that nodes may have end sooner": {"internal/claim/sighting.go longestLease"},
	"a page, message or batch: what it does not hold is in the next one": {
		"client/timers.go pageSize", "client/inprogress.go maxAnswers", "internal/engine/attend.go maxExpectations", "internal/engine/away.go maxAwayKeys", "client/inprogress.go maxFailures", "internal/kubelink/follow.go PageSize",
		"internal/pool/local/local.go maxBatch", "internal/queue/jetstream/consume.go maxFetch", "internal/queue/redisstream/publish.go maxCall",
		"internal/queue/redisstream/publish.go maxCallBytes", "internal/queue/amqp/consume.go maxPrefetch", "internal/relay/check.go maxLook", "node/verbs.go pageSize",
		"sink/stream/stream.go maxBytes", "sink/stream/stream.go maxFires", "store/front/source.go mostEntries", "store/redis/apply.go maxBytes",
		"store/redis/apply.go maxChanges", "store/redis/apply.go maxNumbers", "store/redis/get.go maxKeys", "store/redis/record.go maxRecords",
		"internal/claim/tick.go missedLimit"},
	"tries of a write that another one came before; then it is reported": {"internal/engine/held.go maxEdits", "store/postgres/apply.go maxTries"},
	"what is kept in memory to be quick, and found again when it is gone": {
		"internal/engine/gate.go maxIdle", "internal/engine/gatetarget.go maxHeldSeen", "internal/engine/waits.go maxHindrances", "internal/limit/book.go maxAbsent", "internal/limit/book.go maxUnknown", "internal/pool/driver/docker/ends.go maxProved", "internal/pool/driver/kubernetes/kubernetes.go maxAsked",
		"internal/reminder/actor/hosts.go maxMoves", "internal/wheel/advance.go maxScratch", "store/front/token.go maxTokens"},
	"how much of a text or list is shown": {
		"internal/server/badge.go maxBadgeLabel", "internal/declare/diff.go maxFieldText", "internal/doctor/doctor.go maxNames", "internal/doctor/doctor.go maxText", "internal/foreign/dapr/state.go maxParts",
		"api/rouse/v1/errors.go maxDetails", "api/rouse/v1/errors.go maxMessage", "api/rouse/v1/errors.go maxViolations", "internal/dapr/job/job.go maxShown",
		"internal/migrate/migrate.go mostDifferences", "internal/reminder/service/move.go maxUnmoved", "internal/reminder/service/round.go mostRates",
		"schedule/describe.go maxListed", "sink/stream/settle.go maxFaults"},
	"the answer of a peer that the operator has chosen, which is read in full or not at all": {
		"internal/dapr/identity/sentry.go maxAnswer", "internal/kubelink/link.go MaxAnswer", "internal/kubelink/link.go maxError", "internal/kubelink/plugin.go maxCredential",
		"internal/kubelink/follow.go longestWatch", "internal/pool/handler.go longestCall"},
	"a form of files, names or numbers that something else prescribes": {
		"internal/backup/archive.go blockSize", "internal/pool/amqp/names.go longestName", "internal/pool/driver/docker/names.go longestKeyPart",
		"internal/kubelink/names.go maxLabel", "internal/kubelink/names.go maxSubdomain", "internal/pool/driver/kubernetes/names.go longestName", "internal/pool/driver/systemd/names.go longestInstance",
		"internal/pool/driver/systemd/names.go longestUnit", "internal/queue/check.go maxID", "internal/reminder/allocation/id.go maxPrefix",
		"internal/wheel/slab.go chunkSize", "internal/witness/witness.go MaxMore", "internal/witness/witness.go headSize", "internal/witness/witness.go slotSize",
		"schedule/zone.go maxShift", "sink/stream/settle.go maxContentType", "store/pebble/disk.go mostZeros", "store/pebble/notes.go mostLogs", "internal/storekit/faults.go mostRevision", "internal/foreign/eventbridge.go maxSeconds", "internal/foreign/dapr/period.go maxPeriodYears",
		"store/postgres/part.go blockSize", "store/redis/blob.go headSize", "store/redis/chunk.go oddSize", "store/redis/chunk.go refusedSize",
		"store/redis/get.go maxRaise", "store/redis/record.go markSize", "store/postgres/places.go tidSize", "store/sqlite/checksum.go pageSize", "store/sqlite/wal.go frameSize"},
	"another limit by another name, or a default of a setting": {
		"internal/dapr/job/policy.go mostRetries", "internal/queue/amqp/amqp.go deliveryLimit", "internal/reminder/allocation/allocation.go DefaultSize",
		"internal/server/audit.go maxFollowed", "internal/server/grpc.go maxMessage", "internal/server/secrets.go maxSecretBody", "sink/webhook/secret.go maxHeader", "cause.go CauseOverlapLimit", "cause.go CauseLimit", "cause.go CauseNoticeLimit"},
}

// TestEveryLimitOfTheCodeIsInTheTable finds the constants whose names are those of limits: each is a row of
// limits.md, or has a reason not to be one.
func TestEveryLimitOfTheCodeIsInTheTable(t *testing.T) {
	text, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, excused, found := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, row := range limitRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[2]+" "+row[3]] = true
	}
	for _, m := range regexp.MustCompile("`([a-z0-9_/]+\\.go)` `([A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1) {
		if name := m[1] + " " + m[2]; !documented[name] {
			t.Errorf("limits.md names %s in a row that is not compared with it", name)
		}
	}
	for _, names := range notInTheTable {
		for _, name := range names {
			excused[name] = true
		}
	}
	for _, root := range []string{"api", "client", "internal", "node", "schedule", "sink", "store", "transact", "."} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(path, "test") || d.Name() == "testdata" || root == "." && path != filepath.Join("..", root)):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
				return nil
			}
			names, err := boundsIn(path)
			for _, name := range names {
				found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))+" "+name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range found {
		if documented[name] == excused[name] {
			t.Errorf("%s bounds something: give it either a row of limits.md, with what happens at it, or a reason in this test", name)
		}
	}
	for name := range excused {
		if !found[name] {
			t.Errorf("%s has a reason not to be in limits.md, and is not there", name)
		}
	}
}

// boundsIn returns the constants of a package whose names are those of limits, in a file.
func boundsIn(path string) (names []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, id := range v.Names {
				if !bounding.MatchString(id.Name) || i >= len(v.Values) {
					continue
				}
				if lit, is := v.Values[i].(*ast.BasicLit); !is || lit.Kind != token.STRING {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names, nil
}
