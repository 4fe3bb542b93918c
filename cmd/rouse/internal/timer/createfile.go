package timer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// Bounds on memory and on batches in progress while a file is read.
const (
	maxLine   = 1 << 20 // bytes of one line: the largest payload in base64, and the rest
	bulkAhead = 4       // batches in progress
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
func (c *CreateCmd) createFile(a *cli.App) error {
	only := c.Name == ""
	for name := range a.Given {
		only = only && fileFlags[name]
	}
	if !only {
		return &cli.Usage{Text: "--file takes all that a timer is from the file: leave out the others",
			Help: "rouse create --help"}
	}
	if err := rouse.CheckNamespace(a.Flags.Namespace); err != nil {
		return err
	}
	in, total := a.In, int64(0)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("file", c.File, "cannot be read: "+cli.BareFileError(err), "name a file of JSON Lines")
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
	return a.WithClient(func(s *client.Client) error {
		ctx, cancel := context.WithCancel(a.Ctx)
		defer cancel()
		stream, err := s.CreateStream(ctx, a.Flags.Namespace, mode, bulkAhead)
		if err != nil {
			return err
		}
		t := a.NewTally("created", "line", total)
		return t.PrintBulkTotals(runStream(t, ctx, cancel, in, stream))
	})
}

// runStream reads, sends and receives until every timer has an outcome.
func runStream(t *cli.Tally, ctx context.Context, cancel func(), in io.Reader, stream *client.Creator) error {
	defer stream.Close()
	sent := make(chan bulk, bulkAhead+1)
	var sender sync.WaitGroup
	var sendErr error
	sender.Go(func() {
		defer close(sent)
		sendErr = sendBatches(t, ctx, in, stream, sent)
		if err := stream.CloseSend(); sendErr == nil {
			sendErr = err
		}
	})
	err := receiveAnswers(t, stream, sent)
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
func sendBatches(t *cli.Tally, ctx context.Context, in io.Reader, stream *client.Creator, sent chan<- bulk) error {
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
		line, read, err := cli.ReadLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		done += read
		if len(line) > 0 {
			timer, refused := readTimer(line)
			if refused != nil {
				if err := t.ReportLine(number, client.Created{Err: refused}); err != nil {
					return err
				}
			} else {
				timers, now.lines, size = append(timers, timer), append(now.lines, number), size+len(line)
			}
		}
		if err != nil || len(timers) == cli.BulkTimers || size > cli.BulkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readTimer parses one line.
func readTimer(line []byte) (client.NewTimer, error) {
	if len(line) >= maxLine {
		return client.NewTimer{}, cli.TooLong(maxLine)
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
func receiveAnswers(t *cli.Tally, stream *client.Creator, sent <-chan bulk) error {
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
			if err := t.ReportLine(b.lines[i], c); err != nil {
				return err
			}
		}
		t.DrawProgress(b.done)
	}
}

// isTimer reports whether a line is a timer as it is printed, with its state.
func isTimer(line []byte) bool {
	var o struct {
		State    string `json:"state"`
		Revision uint64 `json:"revision"`
		Export   string `json:"export"`
	}
	return json.Unmarshal(line, &o) == nil && (o.State != "" || o.Revision != 0 || o.Export != "")
}
