// Package transact creates timers in the caller's own transactions on PostgreSQL: a timer exists from the
// commit on, and never if the transaction is rolled back. Use it if a timer must exist exactly if a row of
// your own does.
//
//	timers, err := transact.New(transact.Options{})
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, `INSERT INTO orders …`)
//	_, err = timers.CreateSQL(ctx, tx, "shop", "order-17", rouse.Spec{Schedule: "@after 15m", Target: "https://…"}, transact.Create)
//	err = tx.Commit()
//
// Package transact does not connect to rouse. It needs only the functions of the store's schema in the
// database of the transaction, and the right to execute them: see postgres.CallerRole. These functions make
// all writes; this package first validates a spec like the API, calls them, and translates their errors.
//
// An error of a call aborts the transaction, like that of any statement: roll it back, or to an earlier
// savepoint. Only a *rouse.Invalid is returned before anything is sent.
package transact

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
)

// Mode defines the effect of a create whose name is taken.
type Mode string

const (
	Create  Mode = "create"  // rouse.ErrExists
	Replace Mode = "replace" // starts a new generation; the old one does not fire any more
	Ensure  Mode = "ensure"  // the timer stays as it is
)

// Options are where and how timers are created. The zero value matches a store that was opened without
// options.
type Options struct {
	Schema string // of the store: postgres.Options.Schema; default "rouse"

	// Quiet sends no notification to nodes at commit: they find timers within their poll interval, a second
	// by default. Transactions with notifications commit one after another, in the whole server. Use Quiet
	// for bulk loads, for timers whose due time tolerates the delay, and for prepared transactions (two-phase
	// commit), which cannot send notifications.
	Quiet bool
}

// Timers creates and deletes timers. It is stateless, and safe for concurrent use.
type Timers struct {
	create, delete string // the statements
	hint           bool
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// New returns a Timers. It makes no connection.
func New(o Options) (*Timers, error) {
	o.Schema = cmp.Or(o.Schema, "rouse")
	if !schemaName.MatchString(o.Schema) {
		return nil, rouse.Refuse("schema", o.Schema, "is not a valid name of a schema",
			"use 1 to 48 of a to z, 0 to 9 and _, no digit first")
	}
	// The types are explicit, so that every driver sends text, however it encodes JSON.
	return &Timers{
		create: fmt.Sprintf(`SELECT "%s".create_timer($1::text, $2::text, $3::text::jsonb, $4::text, $5::boolean)`, o.Schema),
		delete: fmt.Sprintf(`SELECT "%s".delete_timer($1::text, $2::text)`, o.Schema),
		hint:   !o.Quiet,
	}, nil
}

// CreatePgx creates a timer in a transaction of pgx, and returns its generation. @after, intervals and a TTL
// count from the call, by the server's clock. Errors are *rouse.Invalid, rouse.ErrExists and those of the
// driver.
func (t *Timers) CreatePgx(ctx context.Context, tx pgx.Tx, namespace, name string, spec rouse.Spec,
	mode Mode) (generation uint64, err error) {
	return t.putByQuery(namespace, name, &spec, mode,
		func(args []any, to *int64) error { return tx.QueryRow(ctx, t.create, args...).Scan(to) })
}

// CreateSQL is CreatePgx in a transaction of database/sql, with any driver for PostgreSQL, such as pgx or
// lib/pq.
func (t *Timers) CreateSQL(ctx context.Context, tx *sql.Tx, namespace, name string, spec rouse.Spec,
	mode Mode) (generation uint64, err error) {
	return t.putByQuery(namespace, name, &spec, mode,
		func(args []any, to *int64) error { return tx.QueryRowContext(ctx, t.create, args...).Scan(to) })
}

func (t *Timers) putByQuery(namespace, name string, spec *rouse.Spec, mode Mode,
	query func(args []any, to *int64) error) (uint64, error) {
	form, err := checkTimer(namespace, name, spec, mode)
	if err != nil {
		return 0, err
	}
	var generation int64
	if err := query([]any{namespace, name, form, string(mode), t.hint}, &generation); err != nil {
		return 0, fmt.Errorf("make timer %s/%s: %w", namespace, name, wrapSQLError(err))
	}
	return uint64(generation), nil
}

// DeletePgx deletes a timer in a transaction of pgx, and reports whether it existed. No attempt starts after
// the commit; one that has started may still arrive. Dead letters stay.
func (t *Timers) DeletePgx(ctx context.Context, tx pgx.Tx, namespace, name string) (existed bool, err error) {
	return t.removeByQuery(namespace, name, func(to *bool) error {
		return tx.QueryRow(ctx, t.delete, namespace,
			name).Scan(to)
	})
}

// DeleteSQL is DeletePgx in a transaction of database/sql.
func (t *Timers) DeleteSQL(ctx context.Context, tx *sql.Tx, namespace, name string) (existed bool, err error) {
	return t.removeByQuery(namespace, name, func(to *bool) error {
		return tx.QueryRowContext(ctx, t.delete, namespace,
			name).Scan(to)
	})
}

func (t *Timers) removeByQuery(namespace, name string, query func(to *bool) error) (existed bool, err error) {
	if err := (rouse.Key{Namespace: namespace, Name: name}).Check(); err != nil {
		return false, err
	}
	if err := query(&existed); err != nil {
		return false, fmt.Errorf("delete timer %s/%s: %w", namespace, name, wrapSQLError(err))
	}
	return existed, nil
}
