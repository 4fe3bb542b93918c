package rousev1

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
)

// kinds is the one table between the errors of package rouse and the codes that cross the wire. The reason
// distinguishes errors of one gRPC code, and is the code of a Problem in lower case.
var kinds = []kind{
	{ErrFailedPrecondition, codes.FailedPrecondition, "FAILED_PRECONDITION"}, // these two before the errors they wrap
	{ErrBusy, codes.ResourceExhausted, "BUSY"},
	{ErrUnimplemented, codes.Unimplemented, "UNIMPLEMENTED"},
	{rouse.ErrUnauthenticated, codes.Unauthenticated, "UNAUTHENTICATED"},
	{rouse.ErrForbidden, codes.PermissionDenied, "FORBIDDEN"},
	{rouse.ErrCorrupt, codes.DataLoss, "DAMAGED"},
	{rouse.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{rouse.ErrExists, codes.AlreadyExists, "ALREADY_EXISTS"},
	{rouse.ErrConflict, codes.Aborted, "CONFLICT"},
	{rouse.ErrFull, codes.ResourceExhausted, "FULL"},
	{rouse.ErrQuota, codes.ResourceExhausted, "QUOTA"},
	{rouse.ErrOverloaded, codes.ResourceExhausted, "OVERLOADED"},
	{rouse.ErrClosed, codes.Unavailable, "CLOSED"},
	{ErrStarting, codes.Unavailable, "STARTING"}, // before the error that it wraps
	{rouse.ErrUnavailable, codes.Unavailable, "UNAVAILABLE"},
	{context.Canceled, codes.Canceled, "CANCELED"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE_EXCEEDED"},
}

// Errors that only calls of a server have, in addition to those of package rouse.
var (
	// ErrFailedPrecondition: this server cannot do it as it runs now. It is a rouse.ErrConflict.
	ErrFailedPrecondition error = &itemError{"failed precondition", rouse.ErrConflict}
	// ErrBusy: the server does it for another client already, and does it once at a time. It is a
	// rouse.ErrOverloaded.
	ErrBusy error = &itemError{"busy", rouse.ErrOverloaded}
	// ErrStarting: the server waits for its store, and has not begun the call. It is a rouse.ErrUnavailable.
	ErrStarting error = &itemError{"the server is starting, or waits for its store; try again", rouse.ErrUnavailable}
	// ErrUnimplemented: this server does not offer it.
	ErrUnimplemented = errors.New("not offered")
	// ErrUnexpectedAnswer: the answer is not the server's but, for example, the page of a proxy. The outcome
	// of the request is unknown.
	ErrUnexpectedAnswer = errors.New("unexpected answer")
)

type kind struct {
	err    error
	code   codes.Code
	reason string
}

const (
	domain  = "rouse" // of reasons
	invalid = "INVALID"

	// A status travels in a header, and headers are small: violations beyond these bounds are only counted.
	maxViolations = 32
	maxDetails    = 4 << 10 // bytes of all violations
	maxMessage    = 1 << 10
)

// ErrorToStatus returns the gRPC status of an error. Problems of an input become a google.rpc.BadRequest,
// RetryAfter becomes a google.rpc.RetryInfo, and a google.rpc.ErrorInfo names the error. An error that is not
// known is Internal, without its text: that is for the log, not for clients. Nil is OK.
func ErrorToStatus(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	var details []protoadapt.MessageV1
	var st *status.Status
	message := clientMessage(err)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		st = status.New(codes.InvalidArgument, message)
		details = append(details, badRequest(inv), newErrorInfo(invalid))
	} else if k := kindOfError(err); k != nil {
		st = status.New(k.code, message)
		details = append(details, newErrorInfo(k.reason))
	} else if s, ok := status.FromError(err); ok {
		return s
	} else {
		return status.New(codes.Internal, "internal error")
	}
	if again, ok := errors.AsType[*rouse.RetryAfter](err); ok {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(max(0, again.After))})
	}
	with, detailErr := st.WithDetails(details...)
	if detailErr != nil { // a detail that cannot be encoded; the code and the message still describe the fault
		return st
	}
	return with
}

// kindOfError returns the table's line of an error, if it has one.
func kindOfError(err error) *kind {
	for i := range kinds {
		if errors.Is(err, kinds[i].err) {
			return &kinds[i]
		}
	}
	return nil
}

func newErrorInfo(r string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: r, Domain: domain}
}

func badRequest(inv *rouse.Invalid) *errdetails.BadRequest {
	br := &errdetails.BadRequest{}
	size := 0
	for i, p := range inv.Problems {
		v := &errdetails.BadRequest_FieldViolation{Field: validUTF8(p.Field),
			Description: rouse.Shorten(validUTF8(describeProblem(p)), maxMessage)}
		size += len(v.Field) + len(v.Description)
		if i == maxViolations || i > 0 && size > maxDetails {
			br.FieldViolations = append(br.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Description: "and " + strconv.Itoa(len(inv.Problems)-i) + " more problems"})
			break
		}
		br.FieldViolations = append(br.FieldViolations, v)
	}
	return br
}

// clientMessage returns the message for clients of an error that is known. The failure of a store is for the
// log: it may name a server.
func clientMessage(err error) string {
	if errors.As(err, new(*rouse.StoreError)) {
		return rouse.ErrUnavailable.Error() + "; try again"
	}
	return rouse.Shorten(validUTF8(err.Error()), maxMessage)
}

// validUTF8 returns text that a message can carry: protobuf takes UTF-8 only, and an input may be refused for
// not being it.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// describeProblem returns the text of a violation without its field: `"value": wrong; cure`, without empty
// parts.
func describeProblem(p rouse.Problem) string {
	s := p.Wrong
	if p.Value != "" {
		s = strconv.Quote(p.Value) + ": " + s
	}
	if p.Cure != "" {
		s += "; " + p.Cure
	}
	return s
}

// parseProblem reads a text of describeProblem. The fault ends at the first semicolon.
func parseProblem(field, s string) rouse.Problem {
	p := rouse.Problem{Field: field}
	if q, err := strconv.QuotedPrefix(s); err == nil && strings.HasPrefix(s[len(q):], ": ") {
		if v, err := strconv.Unquote(q); err == nil {
			p.Value, s = v, s[len(q)+2:]
		}
	}
	p.Wrong, p.Cure, _ = strings.Cut(s, "; ")
	return p
}

// StatusToError returns the error that ErrorToStatus was given, as far as it can be told: errors.Is and
// errors.As find the errors of package rouse in it, and status.FromError finds the status. OK is nil.
func StatusToError(st *status.Status) error {
	if st == nil || st.Code() == codes.OK {
		return nil
	}
	e := &remoteError{st: st}
	var again *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			inv := &rouse.Invalid{}
			for _, v := range d.FieldViolations {
				inv.Problems = append(inv.Problems, parseProblem(v.Field, v.Description))
			}
			e.is = inv
		case *errdetails.ErrorInfo:
			if d.Domain == domain && e.is == nil {
				e.is = kindError(d.Reason)
			}
		case *errdetails.RetryInfo:
			again = d
		}
	}
	if e.is == nil {
		e.is = codeError(st)
	}
	if again != nil {
		return &rouse.RetryAfter{Err: e, After: again.RetryDelay.AsDuration()}
	}
	return e
}

func kindError(reason string) error {
	for _, k := range kinds {
		if k.reason == reason {
			return k.err
		}
	}
	return nil
}

// notGRPC begins the message of a status that gRPC makes of an answer that is not one of gRPC, such as the
// page of a proxy. The code is that of the page's HTTP status.
const notGRPC = "unexpected HTTP status code received from server"

// codeError uses the code alone: the status comes from gRPC itself, a proxy, or another implementation.
func codeError(st *status.Status) error {
	if st.Code() != codes.Unavailable && strings.HasPrefix(st.Message(), notGRPC) {
		return ErrUnexpectedAnswer
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.OutOfRange:
		return &rouse.Invalid{Problems: []rouse.Problem{{Field: "request", Wrong: st.Message()}}}
	case codes.FailedPrecondition:
		return rouse.ErrConflict
	case codes.ResourceExhausted:
		return rouse.ErrOverloaded
	case codes.Unavailable:
		return rouse.ErrUnavailable
	}
	for _, k := range kinds {
		if k.code == st.Code() {
			return k.err
		}
	}
	return nil
}

// remoteError is an error that came as a status: it has the words of the status and is the error behind it.
type remoteError struct {
	st *status.Status
	is error // may be nil
}

func (e *remoteError) Error() string {
	if e.is == nil {
		return e.st.Code().String() + ": " + e.st.Message()
	}
	return e.st.Message()
}

func (e *remoteError) Unwrap() error              { return e.is }
func (e *remoteError) GRPCStatus() *status.Status { return e.st }

// ErrorToProblem returns the problem that a batch reports for a failed item; nil for no error. Several
// problems of one item become one, whose cure lists the others.
func ErrorToProblem(err error) *Problem {
	if err == nil {
		return nil
	}
	var inv *rouse.Invalid
	if errors.As(err, &inv) && len(inv.Problems) > 0 {
		first := inv.Problems[0]
		p := &Problem{Code: strings.ToLower(invalid), Field: validUTF8(first.Field), Value: validUTF8(first.Value),
			Wrong: validUTF8(first.Wrong), Cure: first.Cure}
		for _, other := range inv.Problems[1:] {
			p.Cure = strings.TrimPrefix(p.Cure+"; also ", "; ") + other.String()
		}
		p.Cure = rouse.Shorten(validUTF8(p.Cure), maxMessage)
		return p
	}
	if k := kindOfError(err); k != nil {
		return &Problem{Code: strings.ToLower(k.reason), Wrong: clientMessage(err)}
	}
	if s, ok := status.FromError(err); ok { // of a service with texts of its own
		text := rouse.Shorten(validUTF8(s.Message()), maxMessage)
		for _, k := range slices.Backward(kinds) { // the last one of a code is the most general
			if k.code == s.Code() {
				return &Problem{Code: strings.ToLower(k.reason), Wrong: text}
			}
		}
		if s.Code() == codes.InvalidArgument {
			return &Problem{Code: strings.ToLower(invalid), Wrong: text}
		}
	}
	return &Problem{Code: "internal", Wrong: "internal error"}
}

// ProblemToError reads a Problem of ErrorToProblem.
func ProblemToError(p *Problem) error {
	if p == nil {
		return nil
	}
	if p.Code == strings.ToLower(invalid) {
		return &rouse.Invalid{Problems: []rouse.Problem{{Field: p.Field, Value: p.Value, Wrong: p.Wrong, Cure: p.Cure}}}
	}
	is := kindError(strings.ToUpper(p.Code))
	if is == nil {
		return errors.New(p.Code + ": " + p.Wrong)
	}
	return &itemError{p.Wrong, is}
}

// itemError is an error with words of its own, such as that of one item of a batch.
type itemError struct {
	text string
	is   error
}

func (e *itemError) Error() string { return e.text }
func (e *itemError) Unwrap() error { return e.is }
