package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
)

// attendance is a separate session that holds an advisory lock named after the member: the server frees the
// lock when the session ends, and sessions end when their client's process does. Other members try that lock.
// It is taken last, after the check that this is a direct session: a pooler's session would keep the lock
// after the node has died.
type attendance struct {
	on       *pgconn.PgConn
	member   string
	schema   string
	channel  string
	server   string
	timeout  time.Duration
	heard    chan struct{}
	requests chan *request
	done     chan struct{}
	cancel   context.CancelFunc
	ended    sync.WaitGroup
}

// request is a statement for the goroutine that owns the connection.
type request struct {
	sql  string
	rows [][][]byte
	err  error
	done chan struct{}
}

// Attend keeps a session for the member. It must lead to the server itself: see Options.ListenURL.
func (s *Store) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	on, heard, err := s.openListenSession(ctx, " presence")
	if err != nil {
		return nil, err
	}
	a := &attendance{on: on, member: member, schema: s.o.Schema, channel: nodesChannel(&s.o), timeout: s.o.LeaseTimeout,
		heard:    heard,
		requests: make(chan *request), done: make(chan struct{})}
	if err := a.listenAndLock(ctx); err != nil {
		closeSession(on)
		return nil, fmt.Errorf("attend: %w", explainSQLError(err))
	}
	running, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.ended.Go(func() { a.serveRequests(running) })
	s.watches.Go(func() { // ends with the store
		select {
		case <-s.closing:
			a.Close()
		case <-a.done:
		}
	})
	return a, nil
}

// listenAndLock listens, checks that the session is direct, and takes the lock.
func (a *attendance) listenAndLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchProof)
	defer cancel()
	rows, err := a.execQuery(ctx,
		`SELECT pg_backend_pid(), floor(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`)
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 2 {
		return errShort
	}
	// A pooler gives its clients its own process numbers.
	if string(rows[0][0]) != strconv.FormatUint(uint64(a.on.PID()), 10) {
		return fmt.Errorf(
			"the address of the store leads to a pooler, which shares sessions between nodes: set store-direct to the address of the server itself: %w", errors.ErrUnsupported)
	}
	a.server = string(rows[0][1])
	if _, err = a.execQuery(ctx, `LISTEN `+quoteName(a.channel)); err != nil {
		return err
	}
	_, err = a.execQuery(ctx, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, a.memberLockKey(a.member)))
	return err
}

// memberLockKey returns the number of a member's lock.
func (a *attendance) memberLockKey(member string) int64 {
	h := fnv.New64a()
	h.Write([]byte("rouse member\x00" + a.schema + "\x00" + member))
	return int64(h.Sum64())
}

func (a *attendance) execQuery(ctx context.Context, sql string) ([][][]byte, error) {
	results, err := a.on.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	return results[0].Rows, nil
}

// serveRequests owns the connection: it executes requests, and waits for notifications in between.
func (a *attendance) serveRequests(ctx context.Context) {
	defer close(a.done)
	defer closeSession(a.on)
	for {
		waiting, stop := context.WithCancel(ctx)
		next := make(chan *request, 1)
		go func() { // the receive from next waits for it
			select {
			case r := <-a.requests:
				stop()
				next <- r
			case <-waiting.Done():
				next <- nil
			}
		}()
		err := a.on.WaitForNotification(waiting) // OnNotification has signalled notifications
		stop()
		r := <-next
		if r != nil {
			a.executeRequest(ctx, r)
		}
		if ctx.Err() != nil || a.on.IsClosed() || err != nil && r == nil {
			return
		}
	}
}

func (a *attendance) executeRequest(ctx context.Context, r *request) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	r.rows, r.err = a.execQuery(ctx, r.sql)
	close(r.done)
}

// requestRows sends a request to run and returns its result.
func (a *attendance) requestRows(ctx context.Context, sql string) ([][][]byte, error) {
	r := &request{sql: sql, done: make(chan struct{})}
	select {
	case a.requests <- r:
	case <-a.done:
		return nil, errDetached
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-r.done:
		return r.rows, r.err
	case <-ctx.Done(): // its own timeout ends it
		return nil, ctx.Err()
	}
}

var errDetached = errors.New("the connection that marks the node as present in the store is closed")

// Absent tries the members' locks.
func (a *attendance) Absent(ctx context.Context, members []string) (out []string, err error) {
	if len(members) == 0 {
		return nil, nil
	}
	list := ""
	for i, m := range members {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("(%d,%d::bigint)", i, a.memberLockKey(m))
	}
	rows, err := a.requestRows(ctx, `SELECT i FROM (VALUES `+list+`) m(i, k) WHERE pg_try_advisory_xact_lock_shared(k)`)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var i int
		if _, err := fmt.Sscan(string(row[0]), &i); err != nil || i < 0 || i >= len(members) {
			return nil, errShort
		}
		if members[i] != a.member { // a session does not wait for its own lock
			out = append(out, members[i])
		}
	}
	return out, nil
}

// Announce notifies all members. Transactions that notify commit one at a time: nodes use them when they
// start and stop, not for fires.
func (s *Store) Announce(ctx context.Context) error {
	return s.callLeases(ctx, []*call{newCall(`SELECT pg_notify($1, '')`).addString(nodesChannel(&s.o))}, nil)
}

// nodesChannel is the channel on which members notify each other.
func nodesChannel(o *Options) string { return o.Schema + " nodes" }

func (a *attendance) Server() string         { return a.server }
func (a *attendance) Heard() <-chan struct{} { return a.heard }
func (a *attendance) Done() <-chan struct{}  { return a.done }

// Close ends the session.
func (a *attendance) Close() {
	a.cancel()
	a.ended.Wait()
}
