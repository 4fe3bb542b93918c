package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// Caller is a caller as its door knows it.
type Caller struct {
	ID, Name, Source string // of its principal; empty: it has none
	Tenant           string // whose calls in progress share their places
	Remote           string // its address
	Request          string // the id that it gave its request
	Door             string
}

// Call is a call in progress, until its End.
type Call struct {
	log   *Log
	began time.Time
	ended atomic.Bool
	place bool // in the queue

	holder string // of the place

	mu     sync.Mutex
	event  Event
	sum    [2]uint64 // of the hashes of the names that were touched
	failed error     // of the first part that failed
	parts  bool      // the parts of the call have events of their own
	quiet  bool      // there is an event only if something is revealed
	checks bool      // nothing is changed: there is an event only of a refusal
}

type contextKey struct{}

// logs is how many logs are open in the process: without one, contexts need not be searched.
var logs atomic.Int32

// callFrom returns the call of a context; nil if it has none.
func callFrom(ctx context.Context) *Call {
	if logs.Load() == 0 {
		return nil
	}
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// Begin begins a call, whose End has to be called. err is why its door refused the call: then there is only
// its event. The error is err, or that no event can be taken now: the call must do nothing then.
func (l *Log) Begin(ctx context.Context, verb, method string, caller Caller,
	err error) (context.Context, *Call, error) {
	if l == nil {
		return ctx, nil, err
	}
	c := &Call{log: l, began: time.Now(), holder: cmp.Or(caller.Tenant, caller.ID, caller.Remote),
		event: Event{Node: l.opts.Node(), Door: caller.Door, Remote: caller.Remote, Request: caller.Request,
			Principal: shortenName(caller.ID),
			Name:      shortenName(caller.Name), Source: caller.Source, Verb: verb, Method: method}}
	if full := l.reservePlace(c); !c.place {
		return ctx, nil, cmp.Or(err, full)
	}
	return context.WithValue(ctx, contextKey{}, c), c, err
}

// BeginRead begins a call that has an event only if it reveals something, and only if the log is to have
// such events.
func (l *Log) BeginRead(ctx context.Context, verb, method string, caller Caller) (context.Context, *Call, error) {
	if l == nil || !l.opts.Reads {
		return ctx, nil, nil
	}
	ctx, c, err := l.Begin(ctx, verb, method, caller, nil)
	if c != nil {
		c.quiet = true
	}
	return ctx, c, err
}

// By notes the caller, where the door has not authenticated it.
func (c *Call) By(id, name, source string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event.Principal, c.event.Name, c.event.Source = shortenName(id), shortenName(name), source
}

// About notes the names in a request. They count unless the operation touches something.
func (c *Call) About(namespace string, names ...string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.event.Changed > 0 {
		return
	}
	if namespace != "" {
		c.event.Namespace = shortenName(namespace)
	}
	for _, name := range names {
		if name != "" && len(c.event.Names) < MaxNames {
			c.event.Names = append(c.event.Names, shortenName(name))
		}
	}
}

// Touched notes that the call of the context changed something from one revision to another; 0 is that it
// does not exist, rouse.AnyRevision that the revision is not known. An empty namespace is that of the
// request.
func Touched(ctx context.Context, namespace, name string, before, after uint64) {
	c := callFrom(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.event
	first := e.Changed == 0
	e.Changed++
	switch namespace = shortenName(namespace); {
	case first:
		e.Names, e.Before, e.After = nil, revisionText(before), revisionText(after)
		e.Namespace = cmp.Or(namespace, e.Namespace)
	default:
		e.Before, e.After = "", ""
		if namespace != "" && e.Namespace != namespace {
			e.Namespace = Several
		}
	}
	if len(e.Names) < MaxNames {
		e.Names = append(e.Names, shortenName(name))
	}
	addToDigest(&c.sum, namespace, name)
}

// Repeated notes that the call of the context, or a part of it, was carried out before, by a request with the
// same Idempotency-Key.
func Repeated(ctx context.Context) {
	if c := callFrom(ctx); c != nil {
		c.mu.Lock()
		c.event.Reason = Again
		c.mu.Unlock()
	}
}

// Failed notes that a part of the call of the context failed, such as one timer of a batch. An empty
// namespace is that of the request. If nothing is changed, the event has the names of the parts that failed.
func Failed(ctx context.Context, namespace, name string, err error) {
	c := callFrom(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.event
	if e.Failed++; c.failed == nil {
		c.failed = err
	}
	if e.Changed > 0 {
		return
	}
	if namespace = shortenName(namespace); e.Namespace != "" && namespace != "" && e.Namespace != namespace {
		namespace = Several
	}
	e.Namespace = cmp.Or(namespace, e.Namespace)
	if name = shortenName(name); name != "" && len(e.Names) < MaxNames && !slices.Contains(e.Names, name) {
		e.Names = append(e.Names, name)
	}
}

// Opened ends the call of the context, if it has one: the stream that it opened goes on.
func Opened(ctx context.Context) error { return callFrom(ctx).End(ctx, nil, nil) }

// Revealed notes that the call of the context shows contents.
func Revealed(ctx context.Context) {
	if c := callFrom(ctx); c != nil {
		c.mu.Lock()
		c.quiet = false
		c.mu.Unlock()
	}
}

// Checks notes that the call of the context changes nothing: it was asked to check or to count only. It has
// an event if access control refuses it.
func Checks(ctx context.Context) {
	if c := callFrom(ctx); c != nil {
		c.mu.Lock()
		c.checks = true
		c.mu.Unlock()
	}
}

// Part begins a part of the call of the context that has an event of its own, such as a message of a stream.
func Part(ctx context.Context) (context.Context, *Call, error) {
	c := callFrom(ctx)
	if c == nil {
		return ctx, nil, nil
	}
	c.mu.Lock()
	c.parts = true
	e := c.event
	c.mu.Unlock()
	e.Names, e.Changed, e.Failed, e.Before, e.After = nil, 0, 0, "", ""
	p := &Call{log: c.log, began: time.Now(), holder: c.holder, event: e}
	if err := c.log.reservePlace(p); err != nil || !p.place {
		return ctx, nil, err
	}
	return context.WithValue(ctx, contextKey{}, p), p, nil
}

// End ends the call with its error. codes returns the code of an error, and the reason of a refusal. End
// returns the error that the caller gets: err, or that the event could not be written in time. Only the first
// End counts.
func (c *Call) End(ctx context.Context, err error, codes func(error) (code, reason string)) error {
	if c == nil || !c.ended.CompareAndSwap(false, true) {
		return err
	}
	c.mu.Lock()
	e := c.event
	silent, checks := c.parts || c.quiet, c.checks
	because := err
	if because == nil && e.Changed == 0 {
		because = c.failed
	}
	sum := c.sum
	c.mu.Unlock()
	if silent {
		c.log.releasePlaces(c.holder)
		return err
	}
	e.Outcome = OK
	if because != nil {
		e.Outcome, e.Reason = codes(because)
	}
	if checks && e.Reason == "" {
		c.log.releasePlaces(c.holder)
		return err
	}
	if e.Outcome == stranger && !c.log.strangers.allowsStranger(time.Now()) {
		c.log.releasePlaces(c.holder)
		c.log.countDropped(1, dropFlood)
		return err
	}
	if e.Changed > 1 {
		e.Hash = hex.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sum[0]), sum[1]))
	}
	e.Duration = time.Since(c.began)
	if late := c.log.queueEvent(ctx, &e, c.holder, err == nil); late != nil {
		return late
	}
	return err
}

// Hash returns the hash of changed names, as events have it: the sum, modulo 2^64, of each half of the first
// 16 bytes of SHA-256(namespace, 0, name). It does not depend on the order.
func Hash(namespace string, names ...string) string {
	var sum [2]uint64
	for _, name := range names {
		addToDigest(&sum, namespace, name)
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sum[0]), sum[1]))
}

func addToDigest(sum *[2]uint64, namespace, name string) {
	var buffer [256]byte
	h := sha256.Sum256(append(append(append(buffer[:0], namespace...), 0), name...))
	sum[0] += binary.BigEndian.Uint64(h[:8])
	sum[1] += binary.BigEndian.Uint64(h[8:16])
}

func revisionText(revision uint64) string {
	switch revision {
	case rouse.NoRow:
		return None
	case rouse.AnyRevision:
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

// shortenName bounds a text that a caller chose.
func shortenName(s string) string { return rouse.Shorten(s, maxName) }
