package rousev1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
)

// overTheWire returns the error that a client gets for an error of the server.
func overTheWire(t *testing.T, err error) error {
	t.Helper()
	p := wire(t, proto.Message(ErrorToStatus(err).Proto()), proto.Message(&spb.Status{})).(*spb.Status)
	return StatusToError(status.FromProto(p))
}

func TestErrorsSurviveTheWire(t *testing.T) {
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{rouse.ErrNotFound, codes.NotFound},
		{rouse.ErrExists, codes.AlreadyExists},
		{rouse.ErrConflict, codes.Aborted},
		{rouse.ErrFull, codes.ResourceExhausted},
		{rouse.ErrOverloaded, codes.ResourceExhausted},
		{rouse.ErrClosed, codes.Unavailable},
		{rouse.ErrUnavailable, codes.Unavailable},
		{rouse.ErrUnauthenticated, codes.Unauthenticated},
		{rouse.ErrForbidden, codes.PermissionDenied},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{ErrFailedPrecondition, codes.FailedPrecondition},
		{ErrBusy, codes.ResourceExhausted},
		{ErrUnimplemented, codes.Unimplemented},
	} {
		err := fmt.Errorf("timer %q: %w", "a", c.err)
		got := overTheWire(t, err)
		if !errors.Is(got, c.err) || got.Error() != err.Error() || status.Code(got) != c.code {
			t.Errorf("%v came as %v (%v), want code %v", err, got, status.Code(got), c.code)
		}
		for _, k := range kinds {
			if !errors.Is(c.err, k.err) && errors.Is(got, k.err) {
				t.Errorf("%v came as %v, too", err, k.err)
			}
		}
	}
	if ErrorToStatus(nil).Code() != codes.OK || StatusToError(ErrorToStatus(nil)) != nil || StatusToError(nil) != nil {
		t.Error("no error became one")
	}
}

func TestInvalidSurvivesTheWire(t *testing.T) {
	in := &rouse.Invalid{Problems: []rouse.Problem{
		{Field: "timers[3].schedule", Value: "0 25 * * *", Wrong: "has no hour 25", Cure: "use 0 to 23; or \"*\""},
		{Field: "payload", Wrong: "has 300000 bytes", Cure: "use at most 262144; keep what is larger elsewhere"},
		{Field: "name", Value: "a\n\"b\": c; d", Wrong: "contains U+000A"},
		{Field: "x"},
	}}
	got := overTheWire(t, fmt.Errorf("create: %w", in))
	var inv *rouse.Invalid
	if !errors.As(got, &inv) || !reflect.DeepEqual(inv, in) {
		t.Errorf("came as %+v", inv)
	}
	if status.Code(got) != codes.InvalidArgument || got.Error() != "create: "+in.Error() {
		t.Errorf("came as %v", got)
	}
}

// A status travels in a header: it stays small regardless of the number of problems, and reports that there
// are more.
func TestStatusesAreSmall(t *testing.T) {
	in := &rouse.Invalid{}
	for i := range 5000 {
		in.Problems = append(in.Problems, rouse.Problem{Field: fmt.Sprintf("timers[%d].schedule", i), Value: strings.Repeat("x", i%128), Wrong: "is wrong", Cure: "fix it"})
	}
	st := ErrorToStatus(in)
	if n := proto.Size(st.Proto()); n > 8<<10 {
		t.Errorf("a status of %d bytes", n)
	}
	var inv *rouse.Invalid
	errors.As(StatusToError(st), &inv)
	if last := inv.Problems[len(inv.Problems)-1]; last.Wrong != fmt.Sprintf("and %d more problems", 5000-len(inv.Problems)+1) {
		t.Errorf("%d problems, the last is %q", len(inv.Problems), last.Wrong)
	}
	one := ErrorToStatus(rouse.Refuse("f", "", strings.Repeat("é", 4<<10), ""))
	if n := proto.Size(one.Proto()); n > 4<<10 {
		t.Errorf("a status of %d bytes", n)
	}
}

func TestRetryAfterSurvivesTheWire(t *testing.T) {
	got := overTheWire(t, &rouse.RetryAfter{Err: rouse.ErrOverloaded, After: 1500 * time.Millisecond})
	var after *rouse.RetryAfter
	if !errors.As(got, &after) || after.After != 1500*time.Millisecond || !errors.Is(got, rouse.ErrOverloaded) || status.Code(got) != codes.ResourceExhausted {
		t.Errorf("came as %#v", got)
	}
}

// What is not known may tell a secret, such as a store's address: clients hear that it went wrong, and no
// more.
func TestUnknownErrorsAreNotTold(t *testing.T) {
	st := ErrorToStatus(fmt.Errorf("postgres://user:password@host: %w", io.ErrUnexpectedEOF))
	if st.Code() != codes.Internal || strings.Contains(st.Message(), "password") {
		t.Errorf("told %v", st)
	}
	denied := status.Error(codes.PermissionDenied, "no")
	if st := ErrorToStatus(fmt.Errorf("x: %w", denied)); st.Code() != codes.PermissionDenied {
		t.Errorf("a status became %v", st)
	}
}

func TestStatusesOfOthers(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		is   error
	}{
		{codes.Unavailable, rouse.ErrUnavailable}, {codes.ResourceExhausted, rouse.ErrOverloaded}, {codes.NotFound, rouse.ErrNotFound},
		{codes.FailedPrecondition, rouse.ErrConflict}, {codes.Canceled, context.Canceled}, {codes.DataLoss, rouse.ErrCorrupt},
	} {
		if err := StatusToError(status.New(c.code, "x")); !errors.Is(err, c.is) {
			t.Errorf("%v came as %v", c.code, err)
		}
	}
	var inv *rouse.Invalid
	if err := StatusToError(status.New(codes.InvalidArgument, "x")); !errors.As(err, &inv) || inv.Problems[0].Wrong != "x" {
		t.Errorf("came as %v", err)
	}
	for _, page := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented} { // as gRPC reads 401, 403 and 404
		if err := StatusToError(status.New(page, notGRPC+": 404 (Not Found)")); !errors.Is(err, ErrUnexpectedAnswer) || kindOfError(err) != nil || status.Code(err) != page {
			t.Errorf("a page came as %v", err)
		}
	}
	if err := StatusToError(status.New(codes.Unknown, "x")); err == nil || status.Code(err) != codes.Unknown || err.Error() != "Unknown: x" {
		t.Errorf("came as %v", err)
	}
}

func TestWhatIsNotUTF8CanBeRefused(t *testing.T) {
	in := rouse.Refuse("labels.\xff", "\xfe", "is not UTF-8 \xfd", "\xfc")
	var inv *rouse.Invalid
	if got := overTheWire(t, in); !errors.As(got, &inv) || len(inv.Problems) != 1 || inv.Problems[0].Field != "labels.\uFFFD" {
		t.Errorf("came as %v", got)
	}
	wire(t, ErrorToProblem(in), &Problem{})
}

func TestProblems(t *testing.T) {
	if ErrorToProblem(nil) != nil || ProblemToError(nil) != nil {
		t.Error("no error became one")
	}
	for _, err := range []error{rouse.ErrExists, rouse.ErrNotFound, rouse.ErrConflict, rouse.ErrFull} {
		p := ErrorToProblem(fmt.Errorf("timer a: %w", err))
		if got := ProblemToError(p); !errors.Is(got, err) || got.Error() != "timer a: "+err.Error() {
			t.Errorf("%v came as %v", err, got)
		}
	}
	if code := ErrorToProblem(rouse.ErrExists).Code; code != "already_exists" {
		t.Errorf("code %q", code)
	}
	one := rouse.Refuse("f", "v", "w", "c")
	var inv *rouse.Invalid
	if got := ProblemToError(ErrorToProblem(one)); !errors.As(got, &inv) || !reflect.DeepEqual(inv, one) {
		t.Errorf("came as %v", got)
	}
	two := &rouse.Invalid{Problems: []rouse.Problem{{Field: "f", Wrong: "w"}, {Field: "g", Value: "v", Wrong: "x", Cure: "y"}}}
	if got := ProblemToError(ErrorToProblem(two)).Error(); got != `f: w; also g "v": x; y` {
		t.Errorf("two problems came as %q", got)
	}
	if p := ErrorToProblem(io.EOF); p.Code != "internal" || strings.Contains(p.Wrong, "EOF") {
		t.Errorf("told %v", p)
	}
	if err := ProblemToError(&Problem{Code: "new", Wrong: "x"}); err == nil || err.Error() != "new: x" {
		t.Errorf("came as %v", err)
	}
}
