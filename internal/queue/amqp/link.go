package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/queue"
)

// The shortest and longest backoff between two connection attempts.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// link keeps one session for publishing open, and reconnects as often as necessary.
type link struct {
	q *Queue

	mu      sync.Mutex
	current *publishing   // nil while there is none
	why     error         // there is none
	changed chan struct{} // closed at the next change
}

// awaitSession returns the session, and waits for one until ctx ends.
func (l *link) awaitSession(ctx context.Context) (*publishing, error) {
	for {
		l.mu.Lock()
		current, why, changed := l.current, l.why, l.changed
		l.mu.Unlock()
		switch {
		case l.q.life.Err() != nil:
			return nil, queue.ErrClosed
		case current != nil && !current.out.Broken():
			return current, nil
		}
		select {
		case <-changed:
		case <-l.q.life.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, cmp.Or(why, errBroke))
		}
	}
}

func (l *link) setSession(p *publishing, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.why = p, why
	if l.changed != nil {
		close(l.changed)
	}
	l.changed = make(chan struct{})
}

// Reasons for a time without a session.
var (
	errBroke   = errors.New("the connection broke")
	errDeleted = errors.New("the queue was deleted")
)

// keepSessions keeps a session until the queue is closed; the first one is open already.
func (l *link) keepSessions(first *publishing) {
	l.awaitSessionEnd(first)
	for b := backoff.New(firstWait, longestWait); l.q.life.Err() == nil; {
		p, err := l.openSession()
		if err != nil {
			l.setSession(nil, err)
			l.q.pauseAfterError(l.q.life, b, err)
			continue
		}
		b.Reset()
		l.setSession(p, nil)
		l.awaitSessionEnd(p)
	}
}

// awaitSessionEnd waits for the end of a session.
func (l *link) awaitSessionEnd(p *publishing) {
	p.watchPublishing(l.q.life)
	if !p.deleted.Load() {
		l.setSession(nil, errBroke)
		return
	}
	// RabbitMQ notifies consumers that their queue was deleted, but not those that it has not notified yet
	// when a queue of the same name exists again: they, and their messages, would wait forever.
	l.setSession(nil, errDeleted)
	l.q.pauseAfterError(l.q.life, backoff.New(2*longestWait, 2*longestWait), errDeleted)
}

func (l *link) openSession() (*publishing, error) {
	ctx, cancel := context.WithTimeout(l.q.life, l.q.opts.Timeout)
	defer cancel()
	return l.q.openPublishing(ctx)
}

// pauseAfterError reports an error and waits for the backoff.
func (q *Queue) pauseAfterError(ctx context.Context, b *backoff.Backoff, err error) {
	if ctx.Err() != nil {
		return
	}
	q.opts.Failed(fmt.Errorf("RabbitMQ at %s: %w", q.host, err))
	b.Pause(ctx)
}
