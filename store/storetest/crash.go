package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
)

// OpenDir opens the store in a directory, which is empty the first time.
type OpenDir func(dir string) (rouse.Store, error)

// In opens the store in a directory, for a test.
func (open OpenDir) In(t *testing.T, dir string) rouse.Store {
	t.Helper()
	s, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Empty opens a store in a directory of its own, for a test.
func (open OpenDir) Empty(t *testing.T) rouse.Store {
	t.Helper()
	return open.In(t, t.TempDir())
}

// childDir passes the directory to a writer, which is a copy of the test binary; childRound makes the names
// of its rows unique.
const (
	childDir   = "ROUSE_STORETEST_DIR"
	childRound = "ROUSE_STORETEST_ROUND"
)

// crashRounds is how often a writer is killed, each in another shape of the store.
var crashRounds = len(Shapes)

// Crash kills a process that writes to a store, and tests that the store contains everything acknowledged,
// each call completely or not at all. Call it from a test that does nothing else: Crash runs that test again
// as the process to kill.
func Crash(t *testing.T, open OpenDir) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(t, dir, open)
		return
	}
	dir := t.TempDir()
	v := verifier{acked: map[int]int{}}
	for round := range crashRounds {
		w := startWriter(t, dir, round)
		v.readAcknowledgements(t, w, 5+rand.IntN(60))
		w.killWriter()
		v.drainWriter(w)
		v.verifyStore(t, dir, open)
	}
}

// Each batch of a writer creates batchRows rows, deletes half of those of the previous batch, and logs one
// record.
const batchRows = 20

func rowOf(round, batch, i int) rouse.Row {
	r := dueRow(fmt.Sprintf("r%d-b%05d-%02d", round, batch, i), batch)
	r.Key.Namespace = fmt.Sprintf("round-%d", round)
	r.Body = []byte(strings.Repeat(r.Key.Name, 1+i*20))
	return r
}

func batchOf(round, batch int) (changes []rouse.Change) {
	for i := range batchRows {
		r := rowOf(round, batch, i)
		changes = append(changes, rouse.Change{Key: r.Key, If: rouse.NoRow, To: &r})
	}
	if batch > 0 {
		for i := range batchRows / 2 {
			changes = append(changes, rouse.Change{Key: rowOf(round, batch-1, i).Key, If: rouse.AnyRevision})
		}
	}
	changes[0].Log = []rouse.Record{{Namespace: rowOf(round, 0, 0).Key.Namespace, Name: "log", Ending: rouse.EndFired,
		Due: rouse.Instant(batch), Ended: start + rouse.Instant(batch)}}
	return changes
}

// writeUntilKilled is the writer. It reports each batch after the store has acknowledged it.
func writeUntilKilled(t *testing.T, dir string, open OpenDir) {
	round, err := strconv.Atoi(os.Getenv(childRound))
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	Shapes[round%len(Shapes)].Make(t, s)
	for batch := 0; ; batch++ {
		results, err := s.Apply(context.Background(), batchOf(round, batch))
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for i, r := range results {
			if !r.Applied {
				t.Fatalf("batch %d: change %d was refused: %+v", batch, i, r)
			}
			last = max(last, r.Revision)
		}
		if _, err := fmt.Printf("ack %d %d\n", batch, last); err != nil {
			t.Fatal(err)
		}
	}
}

// writer is a process that writes.
type writer struct {
	t     *testing.T
	round int
	cmd   *exec.Cmd
	out   *bufio.Reader
	tail  strings.Builder // its output apart from acknowledgements
}

func startWriter(t *testing.T, dir string, round int) *writer {
	t.Helper()
	w := &writer{t: t, round: round, cmd: exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")}
	w.cmd.Env = append(os.Environ(), childDir+"="+dir, childRound+"="+strconv.Itoa(round))
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		w.cmd.Stderr = w.cmd.Stdout
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewReader(out)
	t.Cleanup(w.killWriter)
	return w
}

// killWriter ends the writer without a warning.
func (w *writer) killWriter() { _ = w.cmd.Process.Kill() }

// nextAcknowledgement returns the next acknowledgement; ok is false at the end of the output.
func (w *writer) nextAcknowledgement() (batch int, revision uint64, ok bool) {
	for {
		line, err := w.out.ReadString('\n')
		if err != nil {
			_, _ = io.Copy(&w.tail, w.out)
			return 0, 0, false
		}
		if n, _ := fmt.Sscanf(line, "ack %d %d", &batch, &revision); n == 2 {
			return batch, revision, true
		}
		w.tail.WriteString(line)
	}
}

// verifier records acknowledged batches.
type verifier struct {
	acked map[int]int // the last batch of each round
	last  uint64      // the highest revision
}

// readAcknowledgements reads n acknowledgements.
func (v *verifier) readAcknowledgements(t *testing.T, w *writer, n int) {
	t.Helper()
	for range n {
		batch, revision, ok := w.nextAcknowledgement()
		if !ok {
			_ = w.cmd.Wait()
			t.Fatalf("the writer ended: %s", w.tail.String())
		}
		v.noteAcknowledged(w.round, batch, revision)
	}
}

// drainWriter reads the remaining acknowledgements of a dead writer, and waits for its end.
func (v *verifier) drainWriter(w *writer) {
	for {
		batch, revision, ok := w.nextAcknowledgement()
		if !ok {
			_ = w.cmd.Wait()
			return
		}
		v.noteAcknowledged(w.round, batch, revision)
	}
}

func (v *verifier) noteAcknowledged(round, batch int, revision uint64) {
	v.acked[round] = batch
	v.last = max(v.last, revision)
}

// verifyStore opens the store and compares it with the acknowledged batches. Of the calls after the last
// acknowledged one, the store may contain some, in their order and each completely.
func (v *verifier) verifyStore(t *testing.T, dir string, open OpenDir) {
	t.Helper()
	s, err := open(dir)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	b := &bench{T: t, Store: s}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for round, acked := range v.acked {
		ns := rowOf(round, 0, 0).Key.Namespace
		rows := b.mustList(rouse.Query{Namespace: ns})
		have := map[string]bool{}
		newest := -1
		for i := range rows {
			have[rows[i].Key.Name] = true
			var r, batch, n int
			if _, err := fmt.Sscanf(rows[i].Key.Name, "r%d-b%d-%d", &r, &batch, &n); err != nil {
				t.Fatal(err)
			}
			newest = max(newest, batch)
			want := rowOf(round, batch, n)
			if string(rows[i].Body) != string(want.Body) || rows[i].Visible != want.Visible ||
				rows[i].Generation != rows[i].Revision {
				t.Fatalf("%s came back changed: %+v", want.Key.Name, rows[i])
			}
		}
		if newest < acked {
			t.Fatalf("round %d: batch %d was acknowledged, the store ends at %d", round, acked, newest)
		}
		for batch := range newest + 1 {
			for i := range batchRows {
				name := rowOf(round, batch, i).Key.Name
				if gone := i < batchRows/2 && batch < newest; have[name] == gone {
					t.Fatalf("round %d: %s there: %v; batch %d was acknowledged, %d is the newest", round, name, have[name],
						acked, newest)
				}
			}
		}
		if n := b.mustCount(rouse.Query{Namespace: ns}); n != int64(len(rows)) {
			t.Errorf("round %d: count is %d of %d rows", round, n, len(rows))
		}
		if h := b.mustReadHistory(rouse.RecordQuery{Namespace: ns, Limit: 1000}); len(h) != newest+1 {
			t.Errorf("round %d: %d records of %d batches", round, len(h), newest+1)
		}
		claimed := 0
		for _, r := range b.mustClaim(rouse.Window{}).Rows {
			if r.Key.Namespace == ns {
				claimed++
			}
		}
		if claimed != len(rows) {
			t.Errorf("round %d: %d rows of %d are due", round, claimed, len(rows))
		}
	}
	r := b.mustCreate(dueRow("after the crash", 0))[0]
	if r.Revision <= v.last {
		t.Errorf("revision %d after %d was acknowledged", r.Revision, v.last)
	}
	v.last = r.Revision
	b.mustApply(rouse.Change{Key: r.Key, If: r.Revision})
}
