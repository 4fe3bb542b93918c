package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// WorkCmd is a worker of a pool that runs a command for each request.
type WorkCmd struct {
	Command            []string `arg:"" optional:"" passthrough:"" help:"Command and its arguments."`
	CommandFromPayload bool     `help:"Run what the request contains, in place of a command: a JSON list of words, or a line for sh."`
}

func (WorkCmd) Help() string {
	return `A pool starts it with the variables that say what its requests are. For each of them it runs the command, with the request on stdin
and the worker's own environment; what that prints is the answer. A command that fails has the request tried again.
With --command-from-payload, who may call the pool or create timers for it runs any command as the user of the worker.
With access control, it uses the token that the pool gives it, unless it has a key. That needs the role worker in the namespace
of the requests, or in "*" if the pool shares the workers of a key among namespaces.

Examples:

    rouse work tr a-z A-Z
    rouse work ./handle-one-request --verbose
    rouse work --command-from-payload
    rouse work --key-file worker.key --ca ca.crt tr a-z A-Z`
}

// Run works until a signal.
func (c *WorkCmd) Run(a *cli.App) error {
	if c.CommandFromPayload == (len(c.Command) > 0) {
		return &cli.Usage{Text: "give a command, or --command-from-payload", Help: "rouse work --help"}
	}
	w, err := client.ThisWorker()
	if err != nil {
		return &cli.Usage{Text: err.Error()}
	}
	o, err := a.DialOptions()
	if err != nil {
		return err
	}
	lost := func(err error) { a.PrintNote("%v", err) }
	return w.Work(a.Ctx, client.WorkOptions{Lost: lost, Client: o},
		func(ctx context.Context, f client.Fire) (*client.Answer, error) {
			command, in := c.Command, f.Payload
			if c.CommandFromPayload {
				var err error
				if command, err = commandOf(f.Payload); err != nil {
					return nil, err
				}
				in = nil
			}
			out, err := runCommand(ctx, command, in, a.ErrOut)
			if err != nil {
				return nil, err
			}
			return &client.Answer{Payload: out}, nil
		})
}

// commandOf returns the command that a payload is: a JSON list of words, a JSON string, or text. Text is a
// line for sh. What is none fails for good, as another attempt would.
func commandOf(payload []byte) ([]string, error) {
	var words []string
	var line *string
	switch {
	case json.Unmarshal(payload, &words) == nil && len(words) > 0 && words[0] != "":
		return words, nil
	case !json.Valid(payload):
		line = new(string(payload))
	default:
		_ = json.Unmarshal(payload, &line) // else it is none
	}
	if line == nil || strings.TrimSpace(*line) == "" {
		return nil, client.Permanent(rouse.Refuse("payload", rouse.Shorten(string(payload), 100), "is no command",
			`give a list of words, such as ["df", "-h"], or a line for sh`))
	}
	return []string{"sh", "-c", *line}, nil
}

// runCommand runs a command with its input, and returns its output until a second after it ended. It is
// killed when ctx ends.
func runCommand(ctx context.Context, command []string, in []byte, errOut io.Writer) ([]byte, error) {
	var out limited
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, errOut
	cmd.WaitDelay = time.Second // processes that it started may keep its output open
	err := cmd.Run()
	if out.over { // the command's own error is only a consequence
		err = errLongAnswer
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("%s: %w", command[0], err)
	}
	return out.text, nil
}

// limited collects output up to the maximum size of an answer.
type limited struct {
	text []byte
	over bool // there was more
}

// errLongAnswer is the error of a command that printed too much.
var errLongAnswer = fmt.Errorf("the command has printed more than the %d bytes that an answer may have",
	rouse.MaxPayload)

// Write adds to the text.
func (l *limited) Write(p []byte) (int, error) {
	if len(l.text)+len(p) > rouse.MaxPayload {
		l.over = true
		return 0, errLongAnswer
	}
	l.text = append(l.text, p...)
	return len(p), nil
}
