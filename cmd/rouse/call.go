package main

import (
	"context"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

// callCmd sends a request to a pool.
type callCmd struct {
	Pool string `arg:"" help:"Name of the pool."`
	Key  string `arg:"" help:"Key of the workers; they are started if necessary."`

	File        string        `short:"f" help:"File with the request; - is stdin." default:"-" placeholder:"FILE"`
	ContentType string        `help:"Type of the request." placeholder:"TYPE"`
	Wait        time.Duration `help:"How long to wait for the answer." default:"30s" placeholder:"DURATION"`
	Raw         bool          `help:"Print the answer as it is on a terminal, too."`
	Async       bool          `help:"Do not wait: print the id of the request; fetch its answer with rouse answer."`
	ID          string        `name:"id" help:"Id of the request, so that it can be sent again without being processed twice; default generated." placeholder:"ID"`
	Deadline    time.Duration `help:"The request expires if no worker has taken it so long after it was sent." placeholder:"DURATION"`
	Keep        time.Duration `help:"How long to keep the outcome; default 10m with an id or --async." placeholder:"DURATION"`
	Attempts    uint32        `help:"Maximum number of attempts; default 3." placeholder:"N"`
	Attempt     time.Duration `help:"Timeout of an attempt, which the worker may extend; default 30s." placeholder:"DURATION"`
}

func (callCmd) Help() string {
	return `The request is read from stdin, and the answer goes to stdout as it is; a terminal gets its control characters quoted, unless --raw is
given. The server keeps the request until it has ended, whatever
happens to it or to the worker. docs/pools.md describes pools.

Examples:

    rouse call core 42 < request.json
    echo 'hello' | rouse call core 42 --wait 5s --attempts 1
    rouse call core 42 --async --id report-17 < request.json`
}

// Run sends it.
func (c *callCmd) Run(a *app) error {
	a.raw = c.Raw
	body, err := c.readCallBody(a)
	if err != nil {
		return err
	}
	r := client.Call{Namespace: a.flags.Namespace, Pool: c.Pool, Key: c.Key, Payload: body, ContentType: c.ContentType,
		ID: c.ID, Wait: c.Wait,
		Deadline: c.Deadline, Keep: c.Keep, Attempts: c.Attempts, Timeout: c.Attempt}
	if c.Async {
		r.Wait = 0
	}
	return a.waitForAnswer(r.Wait, func(ctx context.Context, s *client.Client) (client.Called,
		error) {
		return s.Call(ctx, r)
	})
}

func (c *callCmd) readCallBody(a *app) ([]byte, error) {
	in := a.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, rouse.Refuse("file", c.File, "cannot be read: "+bareFileError(err),
				"name a file that can, or - for stdin")
		}
		defer f.Close()
		in = f
	}
	return readUpTo(in, "file", c.File, rouse.MaxPayload)
}

// answerCmd fetches the answer to a request.
type answerCmd struct {
	ID   string        `arg:"" name:"id" help:"Id of the request."`
	Raw  bool          `help:"Print the answer as it is on a terminal, too."`
	Wait time.Duration `help:"How long to wait for the answer if there is none yet." default:"0s" placeholder:"DURATION"`
}

func (answerCmd) Help() string {
	return `The answer goes to stdout as it is; a terminal gets its control characters quoted, unless --raw is given. What became of a request is kept as long as rouse call has asked for with --keep.

Examples:

    rouse answer report-17
    rouse answer report-17 --wait 1m`
}

// Run fetches it.
func (c *answerCmd) Run(a *app) error {
	a.raw = c.Raw
	return a.waitForAnswer(c.Wait, func(ctx context.Context, s *client.Client) (client.Called, error) {
		out, err := s.Fetch(ctx, a.flags.Namespace, c.ID, c.Wait)
		return out, addObjectName("request", c.ID, err)
	})
}

// waitForAnswer makes a call that may take longer than others, and prints the outcome of the request.
func (a *app) waitForAnswer(wait time.Duration, do func(ctx context.Context, s *client.Client) (client.Called,
	error)) error {
	return a.withClient(func(s *client.Client) error {
		ctx, cancel := context.WithTimeout(a.ctx, wait+a.flags.Timeout)
		defer cancel()
		out, err := do(ctx, s)
		if err != nil {
			return err
		}
		return a.printAnswer(out)
	})
}

func (a *app) printAnswer(out client.Called) error {
	status := "ok"
	if out.Pending {
		status = "pending"
	}
	if a.flags.JSON {
		return a.printJSON(struct {
			ID          string `json:"id"`
			Status      string `json:"status"`
			Answer      []byte `json:"answer,omitempty"`
			ContentType string `json:"content_type,omitempty"`
			Attempts    uint32 `json:"attempts,omitempty"`
		}{out.ID, status, out.Answer.Payload, out.Answer.ContentType, out.Attempts})
	}
	if out.Pending {
		a.printLine("%s", out.ID)
		a.printNote("it has not ended yet; rouse answer %s", out.ID)
		return nil
	}
	return a.printBytes(out.Answer.Payload)
}
