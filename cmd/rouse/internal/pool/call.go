package pool

import (
	"context"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// CallCmd sends a request to a pool.
type CallCmd struct {
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

func (CallCmd) Help() string {
	return `The request is read from stdin, and the answer goes to stdout as it is; a terminal gets its control characters quoted, unless --raw is
given. The server keeps the request until it has ended, whatever
happens to it or to the worker. docs/pools.md describes pools.

Examples:

    rouse call core 42 < request.json
    echo 'hello' | rouse call core 42 --wait 5s --attempts 1
    rouse call core 42 --async --id report-17 < request.json`
}

// Run sends it.
func (c *CallCmd) Run(a *cli.App) error {
	a.Raw = c.Raw
	body, err := c.readCallBody(a)
	if err != nil {
		return err
	}
	r := client.Call{Namespace: a.Flags.Namespace, Pool: c.Pool, Key: c.Key, Payload: body, ContentType: c.ContentType,
		ID: c.ID, Wait: c.Wait,
		Deadline: c.Deadline, Keep: c.Keep, Attempts: c.Attempts, Timeout: c.Attempt}
	if c.Async {
		r.Wait = 0
	}
	return waitForAnswer(a, r.Wait, func(ctx context.Context, s *client.Client) (client.Called,
		error) {
		return s.Call(ctx, r)
	})
}

func (c *CallCmd) readCallBody(a *cli.App) ([]byte, error) {
	in := a.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, rouse.Refuse("file", c.File, "cannot be read: "+cli.BareFileError(err),
				"name a file that can, or - for stdin")
		}
		defer f.Close()
		in = f
	}
	return cli.ReadUpTo(in, "file", c.File, rouse.MaxPayload)
}

// AnswerCmd fetches the answer to a request.
type AnswerCmd struct {
	ID   string        `arg:"" name:"id" help:"Id of the request."`
	Raw  bool          `help:"Print the answer as it is on a terminal, too."`
	Wait time.Duration `help:"How long to wait for the answer if there is none yet." default:"0s" placeholder:"DURATION"`
}

func (AnswerCmd) Help() string {
	return `The answer goes to stdout as it is; a terminal gets its control characters quoted, unless --raw is given. What became of a request is kept as long as rouse call has asked for with --keep.

Examples:

    rouse answer report-17
    rouse answer report-17 --wait 1m`
}

// Run fetches it.
func (c *AnswerCmd) Run(a *cli.App) error {
	a.Raw = c.Raw
	return waitForAnswer(a, c.Wait, func(ctx context.Context, s *client.Client) (client.Called, error) {
		out, err := s.Fetch(ctx, a.Flags.Namespace, c.ID, c.Wait)
		return out, cli.AddObjectName("request", c.ID, err)
	})
}

// waitForAnswer makes a call that may take longer than others, and prints the outcome of the request.
func waitForAnswer(a *cli.App, wait time.Duration, do func(ctx context.Context, s *client.Client) (client.Called,
	error)) error {
	return a.WithClient(func(s *client.Client) error {
		ctx, cancel := context.WithTimeout(a.Ctx, wait+a.Flags.Timeout)
		defer cancel()
		out, err := do(ctx, s)
		if err != nil {
			return err
		}
		return printAnswer(a, out)
	})
}

func printAnswer(a *cli.App, out client.Called) error {
	status := "ok"
	if out.Pending {
		status = "pending"
	}
	if a.Flags.JSON {
		return a.PrintJSON(struct {
			ID          string `json:"id"`
			Status      string `json:"status"`
			Answer      []byte `json:"answer,omitempty"`
			ContentType string `json:"content_type,omitempty"`
			Attempts    uint32 `json:"attempts,omitempty"`
		}{out.ID, status, out.Answer.Payload, out.Answer.ContentType, out.Attempts})
	}
	if out.Pending {
		a.PrintLine("%s", out.ID)
		a.PrintNote("it has not ended yet; rouse answer %s", out.ID)
		return nil
	}
	return a.PrintBytes(out.Answer.Payload)
}
