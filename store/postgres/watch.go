package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

const (
	// watchPause is the minimal interval of two calls of f by Watch.
	watchPause = 100 * time.Millisecond
	// watchAgain is the pause before Watch connects again, initially and at most.
	watchAgain, watchAgainMost = 200 * time.Millisecond, 30 * time.Second
	// watchProof is the timeout for a notification that Watch sends to itself.
	watchProof = 5 * time.Second
)

// Watch calls f after the commit of a transaction that called the schema's function hint, at most ten times a
// second, until ctx ends or the store is closed. Nodes do not call hint for their own writes: it would make
// their commits wait for each other.
//
// It listens on a separate connection, and reconnects when that breaks; then it calls f as well, as
// notifications may have been lost. Through a pooler in transaction mode it receives no notifications: Watch
// detects that, and tries again now and then. Nodes that poll then only find such timers later. See
// Options.ListenURL.
func (s *Store) Watch(ctx context.Context, f func()) error {
	if err := s.beginStoreCall(ctx); err != nil {
		return err
	}
	s.watches.Add(1)
	s.life.RUnlock()
	defer s.watches.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // ends the watch when the store is closed
		defer close(done)
		select {
		case <-s.closing:
			cancel()
		case <-stop:
		}
	}()
	defer func() { close(stop); <-done }()

	b := backoff.New(watchAgain, watchAgainMost)
	for ctx.Err() == nil {
		heard, err := s.listenUntilBroken(ctx, f)
		if ctx.Err() != nil || err == nil {
			break
		}
		if heard {
			b.Reset()
		}
		b.Pause(ctx)
	}
	return nil
}

// Watching reports whether a Watch receives notifications.
func (s *Store) Watching() bool { return s.hearing.Load() > 0 }

// listenUntilBroken listens on one connection until it breaks. heard reports whether it received a
// notification.
func (s *Store) listenUntilBroken(ctx context.Context, f func()) (heard bool, err error) {
	on, hints, err := s.openListenSession(ctx, " watch")
	if err != nil {
		return false, err
	}
	defer closeSession(on)
	channel := quoteName(s.o.Schema)
	if err := proveNotifications(ctx, on, channel, s.o.Schema, hints); err != nil {
		return false, err
	}
	s.hearing.Add(1)
	defer s.hearing.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := make(chan error, 1)
	go func() { // reads until the connection breaks or ctx ends; listenUntilBroken waits for it
		for {
			if err := on.WaitForNotification(ctx); err != nil {
				broken <- err
				return
			}
		}
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case err := <-broken:
			return true, err
		case <-hints:
		}
		f()
		pause.Reset(watchPause)
		select {
		case err := <-broken:
			return true, err
		case <-pause.C:
		}
	}
}

// proveNotifications listens, and notifies itself. The notification stays in hints, for the call of f that
// follows every new connection.
func proveNotifications(ctx context.Context, on *pgconn.PgConn, channel, schema string, hints <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, watchProof)
	defer cancel()
	if err := on.Exec(ctx, `LISTEN `+channel).Close(); err != nil {
		return err
	}
	if err := on.Exec(ctx, `SELECT pg_notify(`+quoteLiteral(schema)+`, '')`).Close(); err != nil {
		return err
	}
	if len(hints) > 0 {
		return nil
	}
	if err := on.WaitForNotification(ctx); err != nil {
		return fmt.Errorf(
			"no notifications arrive through this address, as with a pooler in transaction mode; use the address of the server itself: %w", err)
	}
	return nil
}

// openListenSession makes a connection that receives notifications, bypassing a pooler if the store has
// another address.
func (s *Store) openListenSession(ctx context.Context,
	name string) (on *pgconn.PgConn, hints chan struct{}, err error) {
	url := s.o.ListenURL
	url = cmp.Or(url, s.url)
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	o := s.o
	o.Name += name
	configureConn(c, &o)
	hints = make(chan struct{}, 1)
	c.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {
		notify.Send(hints) // one is waiting already
	}
	on, err = pgconn.ConnectConfig(ctx, c)
	return on, hints, err
}

func closeSession(on *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = on.Close(ctx)
}
