package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// Bounds on memory and on batches in progress while a file is read.
const (
	maxLine    = 1 << 20 // bytes of one line: the largest payload in base64, and the rest
	bulkTimers = 500     // timers of one batch
	bulkBytes  = 1 << 20 // bytes of one batch, about
	bulkAhead  = 4       // batches in progress
	maxTold    = 20      // failures that are printed; others are only counted
)

// bulk is one batch in progress, with the lines of its timers.
type bulk struct {
	lines []int
	done  int64 // bytes of the file read so far
}

// fileFlags are the flags that may be combined with --file.
var fileFlags = map[string]bool{"file": true, "replace": true, "server": true, "namespace": true, "timeout": true,
	"json": true, "quiet": true, "no-color": true}

// createFile creates the timers of a file. It sends batches over a stream while the answers come back; each
// timer has its own outcome. One goroutine reads and sends; the caller's receives, prints and counts.
func (c *createCmd) createFile(a *app) error {
	only := c.Name == ""
	for name := range a.given {
		only = only && fileFlags[name]
	}
	if !only {
		return &usage{text: "--file takes all that a timer is from the file: leave out the others",
			help: "rouse create --help"}
	}
	if err := rouse.CheckNamespace(a.cli.Namespace); err != nil {
		return err
	}
	in, total := a.in, int64(0)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("file", c.File, "cannot be read: "+bareFileError(err), "name a file of JSON Lines")
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			total = info.Size()
		}
		in = f
	}
	mode := client.CreateOnly
	if c.Replace {
		mode = client.CreateOrReplace
	}
	return a.withClient(func(s *client.Client) error {
		ctx, cancel := context.WithCancel(a.ctx)
		defer cancel()
		stream, err := s.CreateStream(ctx, a.cli.Namespace, mode, bulkAhead)
		if err != nil {
			return err
		}
		t := &tally{a: a, did: "created", of: "line", bar: a.newProgress("timers", total)}
		err = t.runStream(ctx, cancel, in, stream)
		t.bar.clearBar()
		return t.printBulkTotals(err)
	})
}

// tally counts and prints the outcomes of the timers of a file.
type tally struct {
	a   *app
	did string // verb for timers without a problem
	of  string // the numbered unit, such as a line
	bar *progress

	mu     sync.Mutex // guards the bar, the output and the counts, because both goroutines have outcomes
	good   int64
	failed int64
}

// runStream reads, sends and receives until every timer has an outcome.
func (t *tally) runStream(ctx context.Context, cancel func(), in io.Reader, stream *client.Creator) error {
	defer stream.Close()
	sent := make(chan bulk, bulkAhead+1)
	var sender sync.WaitGroup
	var sendErr error
	sender.Go(func() {
		defer close(sent)
		sendErr = t.sendBatches(ctx, in, stream, sent)
		if err := stream.CloseSend(); sendErr == nil {
			sendErr = err
		}
	})
	err := t.receiveAnswers(stream, sent)
	if err != nil {
		cancel() // the sender may be blocked on the stream
	}
	for range sent { // the sender may also be blocked on this reader
	}
	sender.Wait()
	if err != nil {
		return err
	}
	return sendErr
}

// sendBatches reads lines and sends them in batches.
func (t *tally) sendBatches(ctx context.Context, in io.Reader, stream *client.Creator, sent chan<- bulk) error {
	r := bufio.NewReaderSize(in, maxLine)
	var timers []client.NewTimer
	var now bulk
	size, done := 0, int64(0)
	flush := func() error {
		if len(timers) == 0 {
			return nil
		}
		now.done = done
		select {
		case sent <- now: // before the batch is sent, so that its answer finds it
		case <-ctx.Done():
			return ctx.Err()
		}
		err := stream.Send(timers)
		timers, now, size = nil, bulk{}, 0
		return err
	}
	for number := 1; ; number++ {
		line, read, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		done += read
		if len(line) > 0 {
			timer, refused := readTimer(line)
			if refused != nil {
				if err := t.reportLine(number, client.Created{Err: refused}); err != nil {
					return err
				}
			} else {
				timers, now.lines, size = append(timers, timer), append(now.lines, number), size+len(line)
			}
		}
		if err != nil || len(timers) == bulkTimers || size > bulkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine returns a line without surrounding space, and the number of bytes read. A line that is too long
// is cut to a length that is still too long. The line is valid until the next call.
func readLine(r *bufio.Reader) (line []byte, read int64, err error) {
	line, err = r.ReadSlice('\n')
	read = int64(len(line))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSpace(line), read, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		var rest []byte
		rest, err = r.ReadSlice('\n')
		read += int64(len(rest))
	}
	return line, read, err
}

// readTimer parses one line.
func readTimer(line []byte) (client.NewTimer, error) {
	if len(line) >= maxLine {
		return client.NewTimer{}, tooLong(maxLine)
	}
	var n api.NewTimer
	if err := api.Decode(bytes.Clone(line), &n); err != nil { // the payload refers to the bytes that it was parsed from
		if isTimer(line) {
			return client.NewTimer{}, rouse.Refuse("state", "", "is that of a timer as get, list and export print it",
				"read the file with rouse import")
		}
		return client.NewTimer{}, err
	}
	spec, err := n.Parse()
	return client.NewTimer{Name: n.Name, Spec: spec}, err
}

// receiveAnswers handles the answers.
func (t *tally) receiveAnswers(stream *client.Creator, sent <-chan bulk) error {
	for {
		created, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b := <-sent
		for i, c := range created {
			if err := t.reportLine(b.lines[i], c); err != nil {
				return err
			}
		}
		t.drawProgress(b.done)
	}
}

// reportLine counts and prints the outcome of the timer of a line.
func (t *tally) reportLine(line int, c client.Created) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Err == nil {
		t.good++
		if t.a.cli.JSON {
			return t.a.printJSON(bulkLine{line, api.Created{Name: c.Name, Generation: c.Generation, Revision: c.Revision,
				Due: api.TimeOf(c.Due), InFlight: c.InFlight,
				Unchanged: c.Unchanged, Notes: c.Notes}})
		}
		return nil
	}
	t.failed++
	if t.a.cli.JSON {
		_, p := problemOf(c.Err)
		return t.a.printJSON(bulkLine{line, api.Created{Name: c.Name, Problem: &p}})
	}
	if t.failed <= maxTold {
		t.bar.clearBar()
		text := c.Err.Error()
		if c.Name != "" {
			text = c.Name + ": " + strings.TrimPrefix(text, fmt.Sprintf("timer %q: ", c.Name)) // which also names it
		}
		fmt.Fprintf(t.a.errOut, "%s %s %d: %s\n", t.a.styleErr.red("rouse:"), t.of, line, cleanText(text))
	}
	return nil
}

// bulkLine is the JSON output for one timer.
type bulkLine struct {
	Line int `json:"line"`
	api.Created
}

func (t *tally) drawProgress(done int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar.drawBar(done, t.good+t.failed)
}

// printBulkTotals prints the totals.
func (t *tally) printBulkTotals(err error) error {
	if t.failed > maxTold && !t.a.cli.JSON {
		t.a.printNote("and %d more failures", t.failed-maxTold)
	}
	if !t.a.cli.JSON {
		t.a.printLine("%d %s, %d failed", t.good, t.did, t.failed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not known to be %s: %w", t.did, err)
	case t.failed > 0:
		return silent{exitFailure}
	}
	return nil
}
