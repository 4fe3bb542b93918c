package postgres

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
)

// state returns the SQLSTATE of an error that the server sent; "" if it did not.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// undone says that the server has undone a transaction because of another one that ran at the same time.
func undone(err error) bool {
	switch state(err) {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	}
	return false
}

// demoted says that a server takes no writes any more: another one does, after a failover.
func demoted(err error) bool { return state(err) == "25006" }

// explain adds the cure to the errors that people can do something about, and calls a full disk by its name.
func explain(err error) error {
	switch state(err) {
	case "53100": // the transaction is undone; if the log had no room, the server is down instead, and there is no answer
		return fmt.Errorf("%w: %w", rouse.ErrFull, err)
	case "53300":
		return fmt.Errorf("%w; the server has too few connections: lower the number that each node may have, or raise max_connections, or put a pooler in between", err)
	case "25006":
		return fmt.Errorf("%w; the server is a standby, or was made read-only: name the one that is written to", err)
	case "42501":
		return fmt.Errorf("%w; give the role its rights (see Roles), or migrate as the schema's owner", err)
	case "3F000", "42P01", "42883":
		return fmt.Errorf("%w; the schema is not there or is of another version: migrate it", err)
	case "57014":
		return fmt.Errorf("%w; the call took longer than it may: the server is slow, or the query looks at very many rows", err)
	case "55P03":
		return fmt.Errorf("%w; somebody else keeps rows or tables locked: see pg_locks", err)
	}
	return err
}

// redact returns a URL without its password and parameters.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "postgres"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
