package timer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// ReportCmd reports on the work of a check, which it may run.
type ReportCmd struct {
	Name    string   `arg:"" help:"Name of the check, a timer with the target check:."`
	Command []string `arg:"" optional:"" help:"After --: the work, a command with its arguments, which is run."`
	Start   bool     `help:"The work begins." xor:"status"`
	Fail    bool     `help:"The work has failed." xor:"status"`
	Log     string   `help:"Send the end of a file, up to 10 KiB, as the output of the work; - is stdin." placeholder:"FILE"`
}

func (ReportCmd) Help() string {
	return `Without a command or a flag, the work has succeeded. A command is run between two reports: that it begins, and how it ended, with
the end of its output. It is run also if the server cannot be reached, and its exit code is that of rouse report, 127 if it cannot
be started.

Examples:

    rouse report backup
    rouse report backup --fail --log backup.log
    rouse report backup -- backup --to /mnt/backups`
}

// Run reports.
func (c *ReportCmd) Run(a *cli.App) error {
	if len(c.Command) > 0 {
		if c.Start || c.Fail || c.Log != "" {
			return &cli.Usage{Text: "--start, --fail and --log do not go with a command", Help: "rouse report --help"}
		}
		return c.runWork(a)
	}
	r := rouse.CheckReport{Status: rouse.ReportSuccess}
	switch {
	case c.Start:
		r.Status = rouse.ReportStart
	case c.Fail:
		r.Status = rouse.ReportFail
	}
	if c.Log != "" {
		text, err := readTail(a.In, c.Log)
		if err != nil {
			return err
		}
		r.Log = text
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		by, err := s.ReportCheck(ctx, a.Flags.Namespace, c.Name, r)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return a.ShowValue(api.Reported{ExpectedBy: api.TimeOf(by)}, func() error {
			next := ""
			if by != 0 {
				next = ": expected to succeed until " + cli.FormatWithRelative(by, a.ServerTime())
			}
			a.PrintLine("reported %v of %s%s", r.Status, c.Name, next)
			return nil
		})
	})
}

// readTail returns the end of a file, or of in for "-".
func readTail(in io.Reader, name string) (string, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", rouse.Refuse("log", name, "cannot be read: "+cli.BareFileError(err), "name a file that can")
		}
		defer f.Close()
		in = f
	}
	end := &tail{most: rouse.MaxReportLog}
	if _, err := io.Copy(end, in); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return end.text(), nil
}

// Bounds of the command that is run.
const (
	exitNotStarted = 127              // as a shell's
	headOfReport   = 256              // bytes of a report for how the command ended
	endOfWork      = 10 * time.Second // for the command after a signal, and for processes that keep its output open
)

// runWork runs the command between two reports. One that cannot be made is only noted.
func (c *ReportCmd) runWork(a *cli.App) error {
	return a.WithClient(func(s *client.Client) error {
		report := func(r rouse.CheckReport) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), a.Flags.Timeout) // also after a signal
			defer cancel()
			if _, err := s.ReportCheck(ctx, a.Flags.Namespace, c.Name, r); err != nil {
				a.PrintNote("%v of %s was not reported: %v", r.Status, c.Name, cli.AddObjectName("timer", c.Name, err))
			}
		}
		report(rouse.CheckReport{Status: rouse.ReportStart})
		out := &tail{most: rouse.MaxReportLog - headOfReport}
		cmd := exec.CommandContext(a.Ctx, c.Command[0], c.Command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, io.MultiWriter(a.Out, out), io.MultiWriter(a.ErrOut, out)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = endOfWork
		err := cmd.Run()
		if err == nil || errors.Is(err, exec.ErrWaitDelay) {
			report(rouse.CheckReport{Log: out.text()})
			return nil
		}
		report(rouse.CheckReport{Status: rouse.ReportFail, Log: rouse.Shorten(err.Error(), headOfReport-1) + "\n" + out.text()})
		code := exitNotStarted
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			code = ended.ExitCode()
			if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				code = cli.ExitSignal + int(status.Signal())
			}
		} else {
			a.PrintNote("%v", err)
		}
		return cli.Silent(code)
	})
}

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	most int
	kept []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-t.most):]...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// text returns what is kept, as UTF-8.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "?")
}
