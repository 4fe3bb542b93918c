package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/throttle"
)

// Bounds of the log.
const (
	// MaxQueue bounds the audited calls in progress and the events that are not written yet.
	MaxQueue = 10_000
	// MaxStrangers bounds the events a second about callers that could not be authenticated: they must not
	// fill the log.
	MaxStrangers = 100
	// patience is how long the answer of a call waits for its event to be written.
	patience = 5 * time.Second
	// attempt bounds one write to one destination.
	attempt = 10 * time.Second
	// retryAfter is how long the writer waits before it tries again.
	retryAfter = 500 * time.Millisecond
)

// Destination is where events are written. Write is called by one goroutine. It returns how many of the
// events are written; the others are written again after an error.
type Destination interface {
	Name() string
	Write(ctx context.Context, events []Written) (n int, err error)
	Close() error
}

// Written is an event with its line.
type Written struct {
	ID   string
	Time rouse.Instant
	Line []byte
}

// Options configure a Log. Now and To are required.
type Options struct {
	To    []Destination
	Now   func() rouse.Instant // the store's clock
	Node  func() string        // the name of the node; nil: it has none
	Drop  bool                 // drop events that cannot be written, instead of refusing calls
	Reads bool                 // events about reads that show contents
	Log   *slog.Logger

	// MayTake reports whether a client that holds some places of the queue may take one of the free ones;
	// default each has its share.
	MayTake func(held, free int) bool
}

// Log takes events and writes them. It is made by Open.
type Log struct {
	opts      Options
	run       string // identifies the run of the log, for the ids of events
	seq       atomic.Uint64
	strangers window
	counts    counts
	wake      chan struct{}
	ending    chan struct{} // closed by Close
	ended     chan struct{} // closed when the writer has ended

	mu   sync.Mutex
	used int            // places
	held map[string]int // of them, by their holders
	next *batch
}

// batch is events that are written together.
type batch struct {
	events  []Written
	holders []string      // of their places
	done    chan struct{} // closed when they are written or dropped
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// Open returns a log, whose writer runs until Close.
func Open(o Options) *Log {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Node == nil {
		o.Node = func() string { return "" }
	}
	if o.MayTake == nil {
		o.MayTake = func(held, free int) bool { return held < throttle.Share(held+free, MaxQueue, throttle.Reserve, 1) }
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // it never fails
	l := &Log{opts: o, run: hex.EncodeToString(id[:]), wake: make(chan struct{}, 1), ending: make(chan struct{}),
		ended: make(chan struct{}), next: newBatch(), held: map[string]int{}}
	logs.Add(1)
	go l.writeBatches()
	return l
}

// errFull refuses calls while events cannot be written.
func errFull() error {
	return &rouse.RetryAfter{After: time.Second,
		Err: fmt.Errorf("the audit log cannot be written, and nothing is changed without its event: %w",
			rouse.ErrUnavailable)}
}

// errLate is the error of a call whose event is not written yet.
var errLate = fmt.Errorf("the call has ended, but its audit event is not written yet: look before you repeat it: %w",
	rouse.ErrUnavailable)

// reservePlace takes a place in the queue, of which its holder has a share: one client with many calls in
// progress leaves places to others. Without a free one it returns an error, or with Options.Drop counts the
// event as dropped.
func (l *Log) reservePlace(c *Call) error {
	l.mu.Lock()
	if free := MaxQueue - l.used; free > 0 && l.opts.MayTake(l.held[c.holder], free) {
		l.held[c.holder]++
		l.used++
		c.place = true
	}
	l.mu.Unlock()
	if c.place {
		return nil
	}
	l.countDropped(1, dropFull)
	if l.opts.Drop {
		return nil
	}
	return errFull()
}

// releasePlaces gives back the places of holders.
func (l *Log) releasePlaces(holders ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= len(holders)
	for _, h := range holders {
		if l.held[h]--; l.held[h] == 0 {
			delete(l.held, h)
		}
	}
}

// queueEvent queues an event whose place is reserved. With wait it returns when the event is written, unless
// events may be dropped.
func (l *Log) queueEvent(ctx context.Context, e *Event, holder string, wait bool) error {
	now := l.opts.Now()
	e.Time = now.Time()
	e.ID = l.run + "-" + strconv.FormatUint(l.seq.Add(1), 36)
	line := e.Line()
	l.mu.Lock()
	b := l.next
	b.events, b.holders = append(b.events, Written{e.ID, now, line}), append(b.holders, holder)
	l.mu.Unlock()
	l.counts.countEvent(e.Outcome == OK)
	select {
	case l.wake <- struct{}{}:
	default: // the writer has not looked yet
	}
	if !wait || l.opts.Drop {
		return nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return errLate
	}
}

// writeBatches writes batches until Close, and then the rest of the queue.
func (l *Log) writeBatches() {
	defer close(l.ended)
	for {
		select {
		case <-l.wake:
			l.flushQueue()
		case <-l.ending:
			l.flushQueue()
			return
		}
	}
}

// flushQueue writes everything that is queued.
func (l *Log) flushQueue() {
	for {
		l.mu.Lock()
		b := l.next
		if len(b.events) == 0 {
			l.mu.Unlock()
			return
		}
		l.next = newBatch()
		l.mu.Unlock()
		slices.SortStableFunc(b.events, func(a, b Written) int { return cmp.Compare(a.Time, b.Time) })
		for _, to := range l.opts.To {
			l.writeTo(to, b.events)
		}
		close(b.done)
		l.releasePlaces(b.holders...)
	}
}

// writeTo writes events to a destination until that succeeds: for ever, unless events may be dropped or the
// log ends.
func (l *Log) writeTo(to Destination, events []Written) {
	for failures := 0; ; failures++ {
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		n, err := to.Write(ctx, events)
		cancel()
		events = events[n:]
		if err == nil {
			l.counts.clearFailure(to.Name())
			if failures > 0 {
				l.opts.Log.Info("the audit log is written again", "to", to.Name())
			}
			return
		}
		l.counts.addFailure(to.Name(), err)
		if failures == 0 {
			l.opts.Log.Error("the audit log cannot be written", "to", to.Name(), "events", len(events), "calls",
				map[bool]string{true: "go on", false: "are refused when the queue is full"}[l.opts.Drop], "err", err)
		}
		select {
		case <-l.ending:
		default:
			if !l.opts.Drop {
				l.waitToRetry()
				continue
			}
		}
		if failures == 0 { // once more
			l.waitToRetry()
			continue
		}
		l.countDropped(len(events), dropFailed)
		l.opts.Log.Error("audit events are lost", "to", to.Name(), "events", len(events), "err", err)
		return
	}
}

func (l *Log) waitToRetry() {
	select {
	case <-time.After(retryAfter):
	case <-l.ending:
	}
}

// Close writes the queue, and closes the destinations. Events that cannot be written then are lost, and
// logged.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	close(l.ending)
	<-l.ended
	logs.Add(-1)
	var err error
	for _, to := range l.opts.To {
		err = cmp.Or(err, to.Close())
	}
	return err
}

// window bounds how often something happens in a second.
type window struct {
	mu     sync.Mutex
	second int64
	n      int
}

func (w *window) allowsStranger(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := now.Unix(); s != w.second {
		w.second, w.n = s, 0
	}
	w.n++
	return w.n <= MaxStrangers
}
