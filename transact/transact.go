// Package transact makes timers in the caller's own transaction on PostgreSQL: a timer appears with the transaction, or has never
// been there if it is rolled back.
//
//	timers, err := transact.New(transact.Options{})
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, `INSERT INTO orders …`)
//	_, err = timers.CreateSQL(ctx, tx, "shop", "order-17", rouse.Spec{Schedule: "@after 15m", Target: "https://…"}, transact.Create)
//	err = tx.Commit()
//
// It needs no connection to rouse, only the functions of the store's schema in the database that the transaction is in, and the right
// to execute them: see postgres.CallerRole. The functions are the one writer; what is here checks a spec first, as the API does, calls
// them, and gives their errors rouse's names.
//
// An error of a call ends the transaction, as that of any statement does: roll it back, or to a savepoint that was made before. Only
// a *rouse.Invalid comes before anything was sent.
package transact

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
)

// Mode says what to do with a name that is taken.
type Mode string

const (
	Create  Mode = "create"  // rouse.ErrExists
	Replace Mode = "replace" // a new generation begins, and nothing of the old one fires any more
	Ensure  Mode = "ensure"  // the timer stays as it is
)

// Options say where timers are made, and how. The zero value is right for a store that was opened without options.
type Options struct {
	Schema string // of the store: postgres.Options.Schema; default "rouse"

	// Quiet does not tell nodes of timers at commit: they find them when they look, within their poll interval, a second by default.
	// Transactions that tell commit one after another, in the whole server. It is for bulk loads, for timers that are not due so soon
	// that it matters, and for transactions that are to be prepared (two-phase commit), which cannot tell.
	Quiet bool
}

// Timers makes and deletes timers. It keeps no state, and may be used by any number of goroutines.
type Timers struct {
	create, delete string // the statements
	hint           bool
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// New returns a Timers. It makes no connection.
func New(o Options) (*Timers, error) {
	if o.Schema == "" {
		o.Schema = "rouse"
	}
	if !schemaName.MatchString(o.Schema) {
		return nil, rouse.Refuse("schema", o.Schema, "is not a valid name of a schema", "use 1 to 48 of a to z, 0 to 9 and _, no digit first")
	}
	// The types are said, so that every driver sends texts, whatever it makes of JSON.
	return &Timers{
		create: fmt.Sprintf(`SELECT "%s".create_timer($1::text, $2::text, $3::text::jsonb, $4::text, $5::boolean)`, o.Schema),
		delete: fmt.Sprintf(`SELECT "%s".delete_timer($1::text, $2::text)`, o.Schema),
		hint:   !o.Quiet,
	}, nil
}

// CreatePgx makes a timer in a transaction of pgx, and returns its generation. @after, intervals and a TTL count from the call, by the
// server's clock. The errors are *rouse.Invalid, rouse.ErrExists and those of the driver.
func (t *Timers) CreatePgx(ctx context.Context, tx pgx.Tx, namespace, name string, spec rouse.Spec, mode Mode) (generation uint64, err error) {
	return t.put(namespace, name, &spec, mode, func(args []any, to *int64) error { return tx.QueryRow(ctx, t.create, args...).Scan(to) })
}

// CreateSQL is CreatePgx in a transaction of database/sql. The driver is one for PostgreSQL: pgx's, lib/pq or their like.
func (t *Timers) CreateSQL(ctx context.Context, tx *sql.Tx, namespace, name string, spec rouse.Spec, mode Mode) (generation uint64, err error) {
	return t.put(namespace, name, &spec, mode, func(args []any, to *int64) error { return tx.QueryRowContext(ctx, t.create, args...).Scan(to) })
}

func (t *Timers) put(namespace, name string, spec *rouse.Spec, mode Mode, query func(args []any, to *int64) error) (uint64, error) {
	form, err := check(namespace, name, spec, mode)
	if err != nil {
		return 0, err
	}
	var generation int64
	if err := query([]any{namespace, name, form, string(mode), t.hint}, &generation); err != nil {
		return 0, fmt.Errorf("make timer %s/%s: %w", namespace, name, explain(err))
	}
	return uint64(generation), nil
}

// DeletePgx removes a timer in a transaction of pgx, and reports whether there was one. After the commit no attempt of it starts; one that
// has started may still arrive. Dead letters stay.
func (t *Timers) DeletePgx(ctx context.Context, tx pgx.Tx, namespace, name string) (existed bool, err error) {
	return t.remove(namespace, name, func(to *bool) error { return tx.QueryRow(ctx, t.delete, namespace, name).Scan(to) })
}

// DeleteSQL is DeletePgx in a transaction of database/sql.
func (t *Timers) DeleteSQL(ctx context.Context, tx *sql.Tx, namespace, name string) (existed bool, err error) {
	return t.remove(namespace, name, func(to *bool) error { return tx.QueryRowContext(ctx, t.delete, namespace, name).Scan(to) })
}

func (t *Timers) remove(namespace, name string, query func(to *bool) error) (existed bool, err error) {
	if err := (rouse.Key{Namespace: namespace, Name: name}).Check(); err != nil {
		return false, err
	}
	if err := query(&existed); err != nil {
		return false, fmt.Errorf("delete timer %s/%s: %w", namespace, name, explain(err))
	}
	return existed, nil
}
