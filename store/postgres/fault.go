package postgres

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
)

// sqlState returns the SQLSTATE of an error from the server, "" for other errors.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// wasRolledBack reports whether the server rolled back a transaction because of a concurrent one.
func wasRolledBack(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	}
	return false
}

// wasIdle reports whether the server has closed the connection because its session was idle: it has done
// nothing of the call sent then. pgconn.SafeToRetry is not asked: with it, calls whose answers were cut off
// were made twice.
func wasIdle(err error) bool { return sqlState(err) == "57P05" }

// isDemoted reports whether the error means that a server no longer accepts writes, as after a failover.
func isDemoted(err error) bool { return sqlState(err) == "25006" }

// explainSQLError adds the cure to errors that an operator can fix, and identifies a full disk.
func explainSQLError(err error) error {
	switch sqlState(err) {
	case "53100": // the transaction is rolled back; if the log has no space, the server goes down instead, and does not answer
		return fmt.Errorf("%w: %w", rouse.ErrFull, err)
	case "53300":
		return fmt.Errorf(
			"%w; the server has too few connections: use fewer for each node, raise max_connections, or use a pooler", err)
	case "25006":
		return fmt.Errorf("%w; the server is a standby or read-only: use the address of the primary", err)
	case "42501":
		return fmt.Errorf("%w; give the role its rights (see Roles), or migrate as the schema's owner", err)
	case "3F000", "42P01", "42883":
		return fmt.Errorf("%w; the schema is missing or has another version: migrate it", err)
	case "57014":
		return fmt.Errorf("%w; the call exceeded its timeout: the server is slow, or the query reads very many rows", err)
	case "55P03":
		return fmt.Errorf("%w; another session has locked rows or tables: see pg_locks", err)
	}
	return err
}

// redactURL returns a URL without its password and parameters.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "postgres"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
