package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/grpclink"
)

// Exit codes. A test compares them with docs/cli.md.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitWouldChange = 2 // of apply --dry-run, whose faults print an error
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitUnavailable = 5
	exitTimeout     = 6
	exitDamaged     = 7
	exitRefused     = 8
	ExitWarning     = 9
	ExitSignal      = 128 // plus the signal's number: 130 for SIGINT
)

// ExitCodes are the meanings of the codes, for the documentation.
var ExitCodes = []struct {
	Code int
	What string
}{
	{ExitOK, "done"},
	{ExitFailure,
		"failed; for `check`: the history violates a rule; for `create --file` and `import`: some timers were not created; for `apply`: some objects are not as declared; for `migrate-store`: the stores differ; for `doctor`: something is critical; for commands with a filter: some timers were not changed"},
	{ExitUsage,
		"the command line, an input or the configuration is wrong, and nothing was changed; for `check`: the history cannot be judged; for `apply --dry-run`: without an error on stderr, something would be changed"},
	{ExitNotFound,
		"the timer, dead letter or calendar does not exist; `explain` of a timer that is gone answers with its history, and 0, as long as there is one"},
	{ExitConflict, "it exists already, has changed since the revision that was given, or its state does not allow it"},
	{ExitUnavailable, "the server cannot be reached, is shutting down, is overloaded or has no room; try again later"},
	{exitTimeout, "no answer within the timeout; what was asked for may still happen"},
	{exitDamaged, "the store, or what was read of it, is damaged: [what to do](operations.md#a-damaged-store)"},
	{exitRefused, "the server has refused the credentials, or they do not allow the request"},
	{ExitWarning, "for `doctor`: there are warnings, or checks that could not be made, and nothing is critical"},
	{ExitSignal + int(syscall.SIGINT), "interrupted by SIGINT (`serve` and `listen` end with 0)"},
	{ExitSignal + int(syscall.SIGTERM), "ended by SIGTERM (`serve` and `listen` end with 0)"},
}

// kinds maps errors to exit codes and problems; the first match counts.
var kinds = []struct {
	err    error
	exit   int
	status int
	code   string
	title  string
}{
	// these two before the errors that they wrap
	{rousev1.ErrFailedPrecondition, ExitConflict, http.StatusConflict, "failed_precondition", "Not as it is now"},
	{rousev1.ErrBusy, ExitUnavailable, http.StatusTooManyRequests, "busy", "Busy"},
	{rousev1.ErrUnimplemented, ExitFailure, http.StatusNotImplemented, "unimplemented", "Not offered"},
	{rouse.ErrUnauthenticated, exitRefused, http.StatusUnauthorized, "unauthenticated", "Unauthenticated"},
	{rouse.ErrForbidden, exitRefused, http.StatusForbidden, "forbidden", "Forbidden"},
	{rouse.ErrCorrupt, exitDamaged, http.StatusInternalServerError, "damaged", "The store is damaged"},
	{rouse.ErrNotFound, ExitNotFound, http.StatusNotFound, "not_found", "Not found"},
	{rouse.ErrExists, ExitConflict, http.StatusConflict, "already_exists", "Already exists"},
	{rouse.ErrConflict, ExitConflict, http.StatusConflict, "conflict", "Conflict"},
	{rouse.ErrFull, ExitUnavailable, http.StatusInsufficientStorage, "full", "The store is full"},
	{rouse.ErrOverloaded, ExitUnavailable, http.StatusTooManyRequests, "overloaded", "Overloaded"},
	{rouse.ErrClosed, ExitUnavailable, http.StatusServiceUnavailable, "closed", "Shutting down"},
	{rouse.ErrUnavailable, ExitUnavailable, http.StatusServiceUnavailable, "unavailable", "Unavailable"},
	{context.DeadlineExceeded, exitTimeout, http.StatusGatewayTimeout, "deadline_exceeded", "Timed out"},
}

// Silent is an error that the command has already printed: only the exit code is left to set.
type Silent int

func (e Silent) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ProblemOf returns the exit code of an error and its JSON form.
func ProblemOf(err error) (int, api.Problem) {
	p := api.Problem{Type: "about:blank", Title: "Failed", Status: http.StatusInternalServerError, Detail: textOf(err),
		Code: "failed"}
	var inv *rouse.Invalid
	var use *Usage
	var signal *Interrupted
	switch {
	case errors.As(err, &inv):
		p.Title, p.Status, p.Code, p.Errors = "Invalid input", http.StatusBadRequest, "invalid", api.FaultsOf(inv)
		return ExitUsage, p
	case errors.As(err, &use):
		p.Title, p.Status, p.Code = "Wrong usage", http.StatusBadRequest, "usage"
		return ExitUsage, p
	case errors.As(err, &signal):
		p.Title, p.Code = "Interrupted", "interrupted"
		return ExitSignal + int(signal.Signal), p
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			p.Title, p.Status, p.Code = k.title, k.status, k.code
			return k.exit, p
		}
	}
	if os.IsTimeout(err) {
		p.Title, p.Status, p.Code = "Timed out", http.StatusGatewayTimeout, "deadline_exceeded"
		return exitTimeout, p
	}
	return ExitFailure, p
}

// ReportError prints the error to stderr and returns the exit code.
func (a *App) ReportError(err error) int {
	if err == nil {
		return ExitOK
	}
	if s, ok := errors.AsType[Silent](err); ok {
		return int(s)
	}
	code, p := ProblemOf(err)
	if a.Flags.JSON {
		body, encodeErr := api.Encode(p)
		if encodeErr != nil { // not UTF-8
			body = fmt.Appendf(nil, `{"type":"about:blank","title":%q,"status":%d,"code":%q}`, p.Title, p.Status, p.Code)
		}
		fmt.Fprintf(a.ErrOut, "%s\n", body)
		return code
	}
	for _, line := range a.explainError(err) {
		fmt.Fprintln(a.ErrOut, a.StyleErr.Red("rouse:"), CleanText(line))
	}
	return code
}

// explainError returns the text of an error for users: one line for each problem, with the cure.
func (a *App) explainError(err error) []string {
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		var lines []string
		for _, p := range inv.Problems {
			lines = append(lines, p.String())
		}
		return lines
	}
	lines := strings.Split(strings.TrimSpace(textOf(err)), "\n")
	if u, ok := errors.AsType[*Usage](err); ok && u.Help != "" {
		lines = append(lines, "see "+u.Help)
	}
	if a.Dialled == "" {
		return lines
	}
	if cure := cureOf(err); cure != "" {
		return append(lines, cure)
	}
	if errors.Is(err, rouse.ErrUnavailable) && !cameFromServer(err) {
		lines = append(lines,
			"is a server running at "+a.Dialled+"? start one with \"rouse serve\", or name another with --server")
	}
	return lines
}

// cameFromServer reports whether an error came from a rouse server, rather than from the attempt to reach
// one.
func cameFromServer(err error) bool {
	st, ok := status.FromError(err)
	return ok && len(st.Details()) > 0
}

// mistakes are parts of errors whose cure is on the command line.
var mistakes = []struct{ part, cure string }{
	{grpclink.NeedsTLS,
		"if the system does not trust its certificate, name its authority with --ca or ROUSE_CA, which turns TLS on as well"},
	{grpclink.LacksTLS,
		"https:// turns TLS on, and so does any of --ca, --client-cert and --client-key, or of their variables (ROUSE_CA): leave them out"},
	{grpclink.LacksGRPC, "a server has its API at port 7411 by default; 7412 is its admin port"},
	{grpclink.Untrusted, "--ca or ROUSE_CA names the file with its authority"},
	{"unknown service rouse.v1.Timers",
		"it speaks gRPC, but it is not the API: is this another port of rouse? The API is at 7411 by default"},
	{"unknown service rouse.v1.",
		"the server is of an earlier version than this program, and does not have the command: update it"},
}

// cureOf returns the remedy for a wrong address or a wrong way to connect; "" for other errors.
func cureOf(err error) string {
	for _, m := range mistakes {
		if strings.Contains(err.Error(), m.part) {
			return m.cure
		}
	}
	return ""
}

// textOf returns the text of an error without the frame that gRPC puts around a connection error.
func textOf(err error) string {
	text := err.Error()
	before, quoted, found := strings.Cut(text, "connection error: desc = ")
	if !found {
		text, _, _ = strings.Cut(text, "\ndata: ") // the body that a proxy answered
		return text
	}
	reason, err := strconv.Unquote(quoted)
	if err != nil {
		return text
	}
	for _, of := range []string{"transport: Error while dialing: ", "transport: authentication handshake failed: ",
		"error reading server preface: "} {
		reason = strings.TrimPrefix(reason, of)
	}
	return before + reason
}

// Usage is an error in the use of the command line.
type Usage struct {
	Text string
	Help string // the command that prints the help
}

func (e *Usage) Error() string { return e.Text }

// AddObjectName prefixes an error with the name of the object of the call if the error lacks it.
func AddObjectName(what, name string, err error) error {
	if err == nil || name == "" {
		return err
	}
	for _, bare := range []error{rouse.ErrNotFound, rouse.ErrExists, rouse.ErrConflict} {
		if errors.Is(err, bare) && strings.HasPrefix(err.Error(), fmt.Sprintf("%s %q", what, name)) {
			return err
		}
		if errors.Is(err, bare) {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
	}
	return err
}
