package rouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors of requests, except *Invalid. The server maps each to one code of gRPC and one of HTTP, the
// command line to one exit code.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	// ErrConflict: the row has another revision than the request expected, or the fire is not the one in
	// progress.
	ErrConflict = errors.New("conflict")
	// ErrFull: the store has no space; nothing was changed, and acknowledged timers are safe.
	ErrFull = errors.New("the store is full")
	// ErrOverloaded: the request was shed; try again later.
	ErrOverloaded = errors.New("overloaded")
	// ErrQuota: the request is beyond a quota of its namespace; see *QuotaError.
	ErrQuota = errors.New("quota exceeded")
	// ErrClosed: the part is shutting down.
	ErrClosed = errors.New("closed")
	// ErrUnavailable: the store does not answer.
	ErrUnavailable = errors.New("store unavailable")
	// ErrCorrupt: the store has lost or changed something that it had acknowledged. Trying again does not
	// help.
	ErrCorrupt = errors.New("the store is damaged")
	// ErrUnauthenticated: the caller has not shown valid credentials.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden: the caller is known, and may not do it.
	ErrForbidden = errors.New("forbidden")
)

// StoreError is the failure of a call to a store. It is ErrUnavailable. Its text is for logs and for programs
// that embed rouse: it can contain the address of a server, so clients of the API get the text of
// ErrUnavailable.
type StoreError struct{ Err error }

func (e *StoreError) Error() string {
	return ErrUnavailable.Error() + ": " + Shorten(e.Err.Error(), MaxDetail)
}
func (e *StoreError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Unavailable wraps the error of a call to a store in a *StoreError, except errors of this package, and the
// cancellation by the caller. An exceeded deadline is wrapped: the store did not answer in time.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, new(*Invalid)) {
		return err
	}
	if ErrorClass(err) != nil {
		return err
	}
	return &StoreError{Err: err}
}

// errorClasses are the errors of requests.
var errorClasses = []error{ErrUnavailable, ErrNotFound, ErrExists, ErrConflict, ErrFull, ErrOverloaded, ErrQuota,
	ErrClosed, ErrCorrupt,
	ErrUnauthenticated, ErrForbidden}

// ErrorClass returns which of the errors of this package an error is; nil if it is none, or an *Invalid.
func ErrorClass(err error) error {
	for _, class := range errorClasses {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}

// ErrorOf returns an error with the text, and the class that has this name; without one if there is none.
func ErrorOf(class, text string) error {
	for _, c := range errorClasses {
		if c.Error() == class {
			return &classified{c, text}
		}
	}
	return errors.New(text)
}

// classified is an error whose text is complete.
type classified struct {
	class error
	text  string
}

func (e *classified) Error() string { return e.text }
func (e *classified) Unwrap() error { return e.class }

// Problem is one fault of an input: the field, its value, the fault, and the cure.
type Problem struct {
	Field string // dotted path, such as "retry.attempts" or "timers[3].schedule"
	Value string // as given, shortened
	Wrong string // the fault, such as "is out of bounds"
	Cure  string // an instruction, such as "use 1s to 24h"
}

func (p Problem) String() string {
	s := p.Field
	if p.Value != "" {
		s = strings.TrimPrefix(fmt.Sprintf("%s %q", s, p.Value), " ")
	}
	if s != "" {
		s += ": "
	}
	s += p.Wrong
	if p.Cure != "" {
		s += "; " + p.Cure
	}
	return s
}

// Invalid is the error of an input that was refused: nothing was changed.
type Invalid struct{ Problems []Problem }

func (e *Invalid) Error() string {
	s := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		s[i] = p.String()
	}
	return strings.Join(s, "; ")
}

// Add adds the problems of err, or err itself as a problem if it is no *Invalid, so that a client gets all
// problems of an input at once. A nil error adds nothing.
func (e *Invalid) Add(err error) {
	if err == nil {
		return
	}
	if inv, ok := errors.AsType[*Invalid](err); ok {
		if inv != nil {
			e.Problems = append(e.Problems, inv.Problems...)
		}
		return
	}
	e.Problems = append(e.Problems, Problem{Wrong: err.Error()})
}

// Wrong adds a problem of a field. The text includes the value, if it may be shown, and the cure.
func (e *Invalid) Wrong(field, format string, args ...any) {
	e.Problems = append(e.Problems, Problem{Field: field, Wrong: fmt.Sprintf(format, args...)})
}

// Err returns an *Invalid with the problems that were added, or nil if there are none.
func (e *Invalid) Err() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return &Invalid{e.Problems}
}

// Refuse returns an *Invalid with one problem. The value is shortened to 128 bytes.
func Refuse(field, value, wrong, cure string) *Invalid {
	return &Invalid{[]Problem{{field, Shorten(value, 128), wrong, cure}}}
}

// Under returns err with every problem's field placed under the given path, if err is an *Invalid; otherwise
// err itself.
func Under(path string, err error) error {
	var inv *Invalid
	if !errors.As(err, &inv) {
		return err
	}
	out := &Invalid{Problems: make([]Problem, len(inv.Problems))}
	for i, p := range inv.Problems {
		if p.Field == "" {
			p.Field = path
		} else {
			p.Field = path + "." + p.Field
		}
		out.Problems[i] = p
	}
	return out
}

// RetryAfter is an error with the time of the next attempt.
type RetryAfter struct {
	Err   error
	After time.Duration
}

func (e *RetryAfter) Error() string { return e.Err.Error() }
func (e *RetryAfter) Unwrap() error { return e.Err }

// Shorten cuts s to at most n bytes at a rune's boundary and marks the cut.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
