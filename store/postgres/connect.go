package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// minVersion is the oldest supported server: 13 has the 64-bit transaction numbers that claims need.
const minVersion = 130000

// connectTimeout is the limit for a new connection, unless the URL has one.
const connectTimeout = 10 * time.Second

// newPool makes a pool, which connects on first use.
func newPool(ctx context.Context, url string, o *Options, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	configureConn(&c.ConnConfig.Config, o)
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.MaxConns = int32(conns)
	c.MaxConnIdleTime = 5 * time.Minute
	c.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingIdle }
	c.MaxConnLifetimeJitter = c.MaxConnLifetime / 10
	c.PingTimeout = o.LeaseTimeout
	c.AfterConnect = func(ctx context.Context, on *pgx.Conn) error { return raiseRevisions(ctx, on.PgConn(), o) }
	return pgxpool.NewWithConfig(ctx, c)
}

// pingIdle is how long a connection has been idle when it is tested before its next call, because a server or
// a pooler may have closed it: the connections that polls keep busy need no test.
const pingIdle = 2 * time.Second

// raiseRevisions makes revisions continue above all that were given before a failover or a restore, if there
// was one, so that none is given twice. A standby that was promoted may have lost changes, and with them the
// values that the sequence had at the primary; so has a server or a schema that was restored.
func raiseRevisions(ctx context.Context, on *pgconn.PgConn, o *Options) error {
	sql := fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT %s.continue_revisions(%d); COMMIT`,
		quoteName(o.Schema), int64(lostRevisions))
	err := on.Exec(ctx, sql).Close()
	if mayBeMigrated(err) { // calls report a schema of another version
		return on.Exec(ctx, `ROLLBACK`).Close()
	}
	if err != nil {
		return fmt.Errorf("raise revisions: %w", err)
	}
	return nil
}

// lostRevisions is more revisions than were given between a primary's last change that its standby received,
// and its end: 16 million statements of any size. There is room for eight million raises.
const lostRevisions = 1 << 40

// openConnection makes one connection.
func openConnection(ctx context.Context, url string, o *Options) (*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	configureConn(c, o)
	return pgconn.ConnectConfig(ctx, c)
}

func configureConn(c *pgconn.Config, o *Options) {
	c.RuntimeParams["application_name"] = o.Name
	// Parameters that roles and databases may set otherwise, and poolers pass on. Other settings belong to
	// transactions.
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["standard_conforming_strings"] = "on"
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	// If the URL has several hosts, the first valid one is used: each new connection finds the current
	// primary.
	asked := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, on *pgconn.PgConn) error {
		if asked != nil {
			if err := asked(ctx, on); err != nil {
				return err
			}
		}
		return refuseUnsafeServer(ctx, on, o)
	}
}

// losing are settings of a server that lose acknowledged writes in a crash if they are off.
var losing = []string{"fsync", "full_page_writes", "synchronous_commit"}

// otherIsolation marks connections on which transactions are not READ COMMITTED unless they begin so.
const otherIsolation = "other isolation"

// refuseUnsafeServer refuses a server that rouse cannot use, or that would lose acknowledged writes.
func refuseUnsafeServer(ctx context.Context, on *pgconn.PgConn, o *Options) error {
	_, off, err := settingsOf(ctx, on)
	if err == nil && len(off) > 0 && !o.AllowUnsafe {
		err = fmt.Errorf(
			"the server has %s off: a crash would lose acknowledged timers; turn it on, or allow the loss of timers (AllowUnsafe)", off[0])
	}
	return err
}

// settingsOf returns the version of a server, and which of the losing settings are off. The error is why
// rouse cannot use it.
func settingsOf(ctx context.Context, on *pgconn.PgConn) (version string, off []string, err error) {
	r := on.ExecParams(ctx, `SELECT current_setting('server_version_num'), current_setting('server_version'), pg_is_in_recovery()::text, current_setting('server_encoding'),
		current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
		current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only')`, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return "", nil, r.Err
	}
	if len(r.Rows) != 1 || len(r.Rows[0]) != 6+len(losing) {
		return "", nil, errShort
	}
	v := r.Rows[0]
	if string(v[4+len(losing)]) != "read committed" {
		on.CustomData()[otherIsolation] = true
	}
	version = string(v[1])
	var number int
	if _, err := fmt.Sscan(string(v[0]), &number); err != nil {
		return "", nil, fmt.Errorf("the server's version is %q: %w", v[0], err)
	}
	switch {
	case number < minVersion:
		return "", nil, fmt.Errorf("the server is PostgreSQL %s; rouse needs version 13 or later", version)
	case string(v[2]) != "false":
		return "", nil,
			fmt.Errorf(
				"the server is a standby, which accepts no writes; use the primary, or list all servers in the URL, separated by commas")
	case string(v[5+len(losing)]) == "on":
		return "", nil,
			fmt.Errorf(
				"default_transaction_read_only is on for the server, the database or the role %s: rouse writes; turn it off",
				on.ParameterStatus("session_authorization"))
	case string(v[3]) != "UTF8":
		return "", nil, fmt.Errorf("the database is encoded in %s; create one with ENCODING 'UTF8'", v[3])
	}
	for i, setting := range losing {
		if string(v[4+i]) == "off" {
			off = append(off, setting)
		}
	}
	return version, off, nil
}
